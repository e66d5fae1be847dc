"""Nearest examples in memory (usearch) and in PostgreSQL (pgvector): `python -m benchmarks.postgres.index --data DIR`.

Real questions, embedded with the product's own embedder, go into both through the product's own code; recall@10 is against
exact search. `scanned` is the table without a graph, as a small tenant is searched; `of one in N`: the same vectors among
those of N tenants in one table. Searches go one by one over loopback TCP, each through the pool.
"""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from benchmarks.options import options, write
from benchmarks.postgres_server import server
from benchmarks.recorded import NoData
from benchmarks.retrieval.data import Data, clustered, real
from benchmarks.tables import markdown
from benchmarks.vectors import exact_nearest
from store.examples.tenant_index import TenantIndex
from store.examples.vectors import checked
from store.postgres.connecting import connect
from store.postgres.database import PostgresDatabase
from store.postgres.schema import migrate
from store.postgres.vectors import PostgresVectors, prepare
from store.records import Change

K = 10
_PAGE = 500


@dataclass(frozen=True, slots=True)
class Searched:
    """How one index did."""

    index: str
    size: int
    recall_at_10: float
    p50_ms: float
    p99_ms: float
    fill_s: float
    build_s: float
    bytes_each: float


class Log:
    """A bank's log, of vectors that no text stands for."""

    def __init__(self, changes: list[Change]) -> None:
        self._changes = changes

    def tail(self, after_seq: int, limit: int = 1000, tenant: str | None = None) -> list[Change]:
        """The next changes."""
        return self._changes[after_seq : after_seq + limit]

    def dropped(self, after_seq: int) -> dict[str, int]:
        """None."""
        return {}

    def tenants(self) -> dict[str, int]:
        """How many vectors each has."""
        counts: dict[str, int] = {}
        for change in self._changes:
            counts[change.tenant] = counts.get(change.tenant, 0) + 1
        return counts


def changes_of(data: Data, tenants: int) -> list[Change]:
    """Each vector as the first tenant's; with more tenants, so many others have turned copies of them."""
    rng = np.random.default_rng(0)
    found: list[Change] = []
    for at in range(len(data.vectors) * tenants):
        whose, of = divmod(at, len(data.vectors))
        vector = data.vectors[of]
        if whose:
            noise = rng.standard_normal(len(vector), dtype=np.float32)
            vector = checked(vector + 0.25 * noise / np.linalg.norm(noise))
        found.append(Change(at + 1, f"{whose:02x}", at, vector, False, "v1"))
    return found


def searched(nearest: Callable[[Any], list[tuple[int, float]]], data: Data, truth: Any) -> dict[str, float]:
    """Recall@10 and wall time, p50 and p99, of every query once."""
    for query in data.queries[:20]:
        nearest(query)
    took_ms, hits = [], []
    for query, right in zip(data.queries, truth, strict=True):
        begun_s = time.perf_counter()
        found = nearest(query)
        took_ms.append((time.perf_counter() - begun_s) * 1000)
        hits.append(len({id for id, _ in found} & set(right.tolist())) / K)
    p50_ms, p99_ms = np.percentile(took_ms, [50, 99])
    return {"recall_at_10": float(np.mean(hits)), "p50_ms": float(p50_ms), "p99_ms": float(p99_ms)}


def in_memory(data: Data, truth: Any) -> Searched:
    """usearch, as a worker holds it."""
    begun_s = time.perf_counter()
    index = TenantIndex(data.vectors.shape[1])
    for id, vector in enumerate(data.vectors):
        index.add(id, vector)
    build_s = time.perf_counter() - begun_s
    size = len(data.vectors)
    figures = searched(lambda query: index.nearest(query, K), data, truth)
    return Searched(
        "usearch", size, fill_s=0.0, build_s=build_s, bytes_each=len(index.to_bytes()) / size, **figures
    )


def in_postgres(url: str, data: Data, truth: Any, tenants: int) -> list[Searched]:
    """pgvector: scanned, then with a graph of the tenant's own."""
    size = len(data.vectors)
    with connect(url, statement_timeout_ms=0) as connection:
        migrate(connection)
        problem = prepare(connection)
        if problem:
            raise NoData(f"skipped: {problem}")
    db = PostgresDatabase.open(url, read_timeout_ms=60_000)
    log: Any = Log(changes_of(data, tenants))
    vectors = PostgresVectors(
        db, log, data.vectors.shape[1], "v1", owner=lambda: True, scanned_at_most=size * 2
    )
    among = f" of one in {tenants}" if tenants > 1 else ""
    try:
        begun_s = time.perf_counter()
        # Graphs are made below, and timed.
        vectors._refused = True
        vectors.start()
        assert vectors.reached(size * tenants, 3600)
        fill_s = time.perf_counter() - begun_s
        _execute(url, "VACUUM ANALYZE example_vectors")
        figures = searched(lambda query: vectors.nearest("00", query, K), data, truth)
        found = [
            Searched(
                f"pgvector, scanned{among}",
                size,
                fill_s=fill_s,
                build_s=0,
                bytes_each=_bytes(url, "example_vectors") / size / tenants,
                **figures,
            )
        ]
        vectors._scanned_at_most = size - 1
        _execute(url, f"INSERT INTO example_totals (tenant, examples, size_bytes) VALUES ('00', {size}, 0)")  # noqa: S608
        begun_s = time.perf_counter()
        vectors.make_graphs()
        build_s = time.perf_counter() - begun_s
        figures = searched(lambda query: vectors.nearest("00", query, K), data, truth)
        query = "SELECT relname FROM pg_class WHERE relname LIKE 'example_vectors_of_%'"
        (graph,) = _execute(url, query)
        found.append(
            Searched(
                f"pgvector, graph{among}",
                size,
                fill_s=fill_s,
                build_s=build_s,
                bytes_each=_bytes(url, graph) / size,
                **figures,
            )
        )
    finally:
        vectors.stop()
        db.close()
    return found


def _execute(url: str, statement: str) -> Any:
    with connect(url, statement_timeout_ms=0) as connection:
        found = connection.execute(statement.encode())
        return found.fetchone() if found.description else None


def _bytes(url: str, relation: str) -> int:
    return int(_execute(url, f"SELECT pg_relation_size('{relation}')")[0])


def table(figures: list[Searched]) -> str:
    """The figures as Markdown."""
    head = ["index", "size", "recall@10", "p50 / p99 ms", "fill s", "build s", "bytes each"]
    return markdown(
        head,
        [
            [
                one.index,
                f"{one.size:,}",
                f"{one.recall_at_10:.3f}",
                f"{one.p50_ms:.2f} / {one.p99_ms:.2f}",
                f"{one.fill_s:.1f}",
                f"{one.build_s:.1f}",
                f"{one.bytes_each:.0f}",
            ]
            for one in figures
        ],
    )


def main(arguments: list[str] | None = None) -> list[Searched]:
    """Measure, print, and write JSON if asked."""
    parser = options(__doc__, data=True, cache=True)
    parser.add_argument("--sizes", type=lambda s: [int(float(x)) for x in s.split(",")], default=[10_000])
    parser.add_argument(
        "--texts", type=int, default=20_000, help="real texts to embed at most; beyond: copies"
    )
    parser.add_argument("--queries", type=int, default=300)
    parser.add_argument("--tenants", type=int, default=5, help="also with so many tenants in one table")
    parser.add_argument("--quick", action="store_true", help="300 synthetic vectors: does it run?")
    chosen = parser.parse_args(arguments)
    figures: list[Searched] = []
    for size in [300] if chosen.quick else chosen.sizes:
        try:
            if chosen.quick:
                data = clustered(size, 10, 16)
            else:
                data = real(size, chosen.queries, chosen.data, chosen.texts, chosen.cache)
            truth = exact_nearest(data.vectors, data.queries, K)
            figures.append(in_memory(data, truth))
            with server() as running:
                for tenants in sorted({1, 2 if chosen.quick else chosen.tenants}):
                    name = f"tenants_{tenants}"
                    _execute(running.url(), f"CREATE DATABASE {name}")
                    figures += in_postgres(running.url(name), data, truth, tenants)
        except NoData as absent:
            print(absent)
            continue
        machine = f"{platform.machine()}, Python {platform.python_version()}, load {os.getloadavg()[0]:.1f}"
        write({"machine": machine, "figures": [asdict(one) for one in figures]}, chosen.json)
        print(f"{table(figures)}\n\n{data.description}; {machine}", flush=True)
    return figures


if __name__ == "__main__":
    main()
