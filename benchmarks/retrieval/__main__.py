"""What finding the nearest examples costs, and how often it finds them: `python -m benchmarks.retrieval --data DIR`.

For each size, on real and on synthetic vectors, through the product's own TenantIndex: recall@10 against exact search,
CPU per search (p50 and p99 of process CPU time, one thread, each query once), build CPU per vector, bytes per
example in memory and in a snapshot, and what exact search by numpy costs. Besides what the product does, other
widths of search (`expansion_search`) are shown, so that the choice can be judged. CPU time is what to compare:
wall time is what else the machine was doing.
"""

from __future__ import annotations

import gc
import os
import platform
import sys
import time
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.options import options, write
from benchmarks.recorded import NoData
from benchmarks.retrieval.data import Data, clustered, real
from benchmarks.tables import markdown
from benchmarks.vectors import exact_nearest
from store.examples.tenant_index import TenantIndex

K = 10
TARGET_RECALL, TARGET_CPU_MS, TARGET_SIZE = 0.98, 0.5, 100_000


@dataclass(frozen=True, slots=True)
class Searching:
    """How one width of search did."""

    expansion: int
    recall_at_10: float
    found_nearest: float
    """Share of the queries whose very nearest was found."""
    cpu_ms_p50: float
    cpu_ms_p99: float


@dataclass(frozen=True, slots=True)
class Figures:
    """Everything about one index."""

    kind: str
    size: int
    description: str
    queries: int
    build_cpu_s: float
    build_wall_s: float
    memory_bytes_each: float
    snapshot_bytes_each: float
    exact_cpu_ms: float
    chosen: Searching
    others: list[Searching] = field(default_factory=list)


def measured(kind: str, data: Data, expansions: Iterable[int], repeats: int = 3) -> Figures:
    """Build an index over the data and search it."""
    truth = exact_nearest(data.vectors, data.queries, K)
    before_bytes = _resident_bytes()
    index = TenantIndex(data.vectors.shape[1])
    cpu_s, wall_s = time.process_time(), time.perf_counter()
    for id, vector in enumerate(data.vectors):
        index.add(id, vector)
        if id % 50_000 == 49_999:
            print(f"{kind}: {id + 1} of {len(data.vectors)} added", file=sys.stderr, flush=True)
    cpu_s, wall_s = time.process_time() - cpu_s, time.perf_counter() - wall_s
    grown_bytes = _resident_bytes() - before_bytes
    chosen = _searched(index, data, truth, None, repeats)
    others = [_searched(index, data, truth, expansion, 1) for expansion in expansions]
    exact_ms = _exact_cpu_ms(data)
    size = len(data.vectors)
    snapshot_bytes = len(index.to_bytes())
    return Figures(
        kind,
        size,
        data.description,
        len(data.queries),
        cpu_s,
        wall_s,
        grown_bytes / size,
        snapshot_bytes / size,
        exact_ms,
        chosen,
        others,
    )


def _searched(index: TenantIndex, data: Data, truth: Any, expansion: int | None, repeats: int) -> Searching:
    """With the product's own choice of width (None), or with another in its place."""
    import store.examples.tenant_index as module

    usual = module.expansion_search
    if expansion is not None:
        module.expansion_search = lambda count: expansion
    try:
        costs_ms, found = [], []
        for query in data.queries[:50]:
            index.nearest(query, K)
        for turn in range(repeats):
            for query in data.queries:
                begun = time.process_time_ns()
                answer = index.nearest(query, K)
                costs_ms.append((time.process_time_ns() - begun) / 1e6)
                if turn == 0:
                    found.append([id for id, _ in answer])
    finally:
        module.expansion_search = usual
    hits = [len(set(ids) & set(row.tolist())) / len(row) for ids, row in zip(found, truth, strict=True)]
    best = [
        int(row[np.argmax(data.vectors[row] @ query)]) for row, query in zip(truth, data.queries, strict=True)
    ]
    first = [one in ids for one, ids in zip(best, found, strict=True)]
    return Searching(
        expansion if expansion is not None else usual(len(index)),
        float(np.mean(hits)),
        float(np.mean(first)),
        float(np.percentile(costs_ms, 50)),
        float(np.percentile(costs_ms, 99)),
    )


def _exact_cpu_ms(data: Data) -> float:
    costs = []
    for query in data.queries[:10]:
        begun = time.process_time()
        np.argpartition(-(data.vectors @ query), min(K, len(data.vectors) - 1))
        costs.append((time.process_time() - begun) * 1000)
    return float(np.median(costs))


def _resident_bytes() -> int:
    gc.collect()
    statm = Path("/proc/self/statm")
    return int(statm.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") if statm.exists() else 0


def table(figures: list[Figures]) -> str:
    """The figures as Markdown."""
    head = ["data", "size", "width", "recall@10", "nearest found", "search CPU p50 / p99 ms", "exact CPU ms"]
    head += ["build CPU s (us each)", "memory / snapshot bytes each"]
    rows = []
    for one in figures:
        for width in sorted([*one.others, one.chosen], key=lambda s: (s.expansion, s is one.chosen)):
            found = [f"{width.recall_at_10:.3f}", f"{width.found_nearest:.3f}"]
            cost = f"{width.cpu_ms_p50:.2f} / {width.cpu_ms_p99:.2f}"
            shown, of_index = str(width.expansion), ["", "", ""]
            if width is one.chosen:
                build = f"{one.build_cpu_s:.0f} ({one.build_cpu_s / one.size * 1e6:.0f})"
                sizes = f"{one.memory_bytes_each:.0f} / {one.snapshot_bytes_each:.0f}"
                shown, of_index = f"**{shown}**", [f"{one.exact_cpu_ms:.1f}", build, sizes]
            rows.append([one.kind, f"{one.size:,}", shown, *found, cost, *of_index])
    notes = dict.fromkeys(f"{one.kind}, {one.size:,}: {one.description}." for one in figures)
    return "\n".join([markdown(head, rows), "", *notes])


def verdicts(figures: list[Figures]) -> list[str]:
    """One line per index of the size the target is set for: reached or not."""
    return [
        f"{one.kind} at {one.size:,}: recall@10 {one.chosen.recall_at_10:.3f} (target {TARGET_RECALL}),"
        f" p50 {one.chosen.cpu_ms_p50:.2f} ms (target {TARGET_CPU_MS}): "
        + (
            "reached"
            if one.chosen.recall_at_10 >= TARGET_RECALL and one.chosen.cpu_ms_p50 < TARGET_CPU_MS
            else "NOT reached"
        )
        for one in figures
        if one.size == TARGET_SIZE
    ]


def main(arguments: list[str] | None = None) -> list[Figures]:
    """Measure, print, and write JSON if asked."""
    parser = options(__doc__, data=True, cache=True)
    parser.add_argument(
        "--sizes", type=lambda s: [int(float(x)) for x in s.split(",")], default=[10_000, 100_000]
    )
    parser.add_argument("--kinds", type=lambda s: s.split(","), default=["real", "clustered"])
    parser.add_argument(
        "--texts", type=int, default=20_000, help="real texts to embed at most; beyond: copies"
    )
    parser.add_argument("--queries", type=int, default=500)
    parser.add_argument(
        "--expansions",
        type=lambda s: [int(x) for x in s.split(",") if x],
        default=[32, 64, 96, 128, 192, 256],
    )
    parser.add_argument("--quick", action="store_true", help="1,000 synthetic vectors: does it run?")
    chosen = parser.parse_args(arguments)
    if chosen.quick:
        chosen.sizes, chosen.kinds, chosen.queries, chosen.expansions = [1000], ["clustered"], 50, [16]
    machine = f"{platform.machine()}, Python {platform.python_version()}, load {os.getloadavg()[0]:.1f}"
    figures: list[Figures] = []
    write({"machine": machine, "figures": []}, chosen.json)
    for size in chosen.sizes:
        for kind in chosen.kinds:
            try:
                if kind == "real":
                    data = real(size, chosen.queries, chosen.data, chosen.texts, chosen.cache)
                else:
                    data = clustered(size, chosen.queries)
            except NoData as absent:
                print(absent)
                continue
            figures.append(measured(kind, data, chosen.expansions))
            write({"machine": machine, "figures": [asdict(one) for one in figures]}, chosen.json)
            print(table(figures[-1:]), flush=True)
    if len(figures) > 1:
        print("\n" + table(figures))
    print("\n".join(["", *verdicts(figures)]))
    return figures


if __name__ == "__main__":
    main()
