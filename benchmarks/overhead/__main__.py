"""What does the gateway add to a request, and is it as little as is wanted? `make bench`.

`python -m benchmarks.overhead [--quick] [--only PART] [--write]`. A row for each goal (goals.py) is printed, and below it
what was measured, part by part. `--write`, of a whole run, puts the rows into README.md and
docs/experiments/overhead.json, and writes docs/claims.md anew. Exits with 1 where a goal is missed, unless `--quick`.
Parts without a goal are measured by `--only` alone. `--store sqlite,postgres` compares the two databases, and nothing else.

Side by side in one run, in alternation (A B C, then C B A, and so on): straight to a fast mock upstream, through a bare
relay on the same libraries (`relay_bare.py`), and through `understudy serve` in several settings, log and all, as its users
run it.

What counts is CPU: the time the kernel had all threads of the measured process on a core, divided by requests or chunks.
Ratios are formed inside a round, then the median over rounds is shown with the smallest and the largest. Wall times depend
on what else the machine does; they are shown where a person waits for them, and compared with nothing.
"""

from __future__ import annotations

import itertools
import os
import platform
import sys
import tempfile
import time
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import uvloop

from benchmarks import claims
from benchmarks.options import options, write
from benchmarks.overhead import goals, governed, overload, paced, report, runs, stages, store, student, texts
from benchmarks.overhead.load import Streams, ask, chat_request, read_streams
from benchmarks.overhead.questions import KNOWN_TEXTS, Questions
from benchmarks.overhead.rounds import CONNECTIONS, Subject, in_rounds, measured, settle
from benchmarks.overhead.servers import (
    LOAD_CORE,
    PINNED,
    SERVER_CORE,
    Server,
    bare_relay,
    bypassed,
    gateway,
    upstream,
)
from benchmarks.overhead.upstream import body as upstream_body
from router.embedding.embedder import Embedder

GOALS = tuple(dict.fromkeys(goal.part for goal in goals.GOALS))
"""Parts that have a goal, which is what a run measures."""
PARTS = (*GOALS, "texts", "runs", "start", "stages", "student")


@dataclass(frozen=True)
class Counts:
    """How much of everything: enough to be steady, or just enough to see that it runs."""

    rounds: int = 8
    requests: int = 400
    cold_requests: int = 80
    bank: int = 240
    stream_chunks: int = 100
    crowd: int = 1000
    crowd_chunks: int = 24
    starts: int = 3
    paced_s: float = 3.0
    first_s: float = 60.0
    kills: int = 10
    load_s: float = 20.0


FULL = Counts()
QUICK = Counts(1, 40, 8, 12, 5, 20, 5, 1, 0.2, 1.0, 1, 8.0)
COLD_CONNECTIONS = 4
"""Cold embeddings take milliseconds each on one core: more at once would only measure the deadline."""
PACED_STREAMS, PACED_INTERVAL_MS, CROWD_INTERVAL_MS = 16, 20.0, 250.0


def few_shot(mock: Server, data: Path) -> list[str]:
    """Arguments for the whole line: exact, embed, nearest, decide, remember."""
    base = f"http://127.0.0.1:{mock.port}/v1"
    engines = ["--small", f"{base}=bench-small", "--large", f"{base}=bench"]
    return ["--upstream", base, *engines, "--data", str(data)]


class Bench:
    """The servers of a run, and its parts."""

    def __init__(
        self, counts: Counts, folder: Path, parts: tuple[str, ...], stores: tuple[str, ...] = store.STORES
    ) -> None:
        self._stores = stores
        self._counts = counts
        self._folder = folder
        self._parts = parts
        self._questions = Questions()
        self.bypassed: dict[str, float] = {}

    async def run(self) -> dict[str, Any]:
        """All parts that were asked for. Raises SystemExit on a wrong answer: a fast wrong gateway has no figures."""
        counts = self._counts
        figures: dict[str, Any] = {"machine": machine(), "counts": vars(counts)}
        with ExitStack() as stack:
            mock = stack.enter_context(upstream(self._folder))
            if {"requests", "paced", "chunks"} & set(self._parts):
                figures |= await self._beside_the_relay(stack, mock)
            if "first_minute" in self._parts:
                figures["first_minute"] = await paced.first_minute(
                    mock,
                    self._folder,
                    few_shot(mock, self._folder / "first_minute"),
                    for_s=counts.first_s,
                    fill=self._fill,
                )
            if "overload" in self._parts:
                loads = overload.Overload(mock, self._folder, for_s=counts.load_s)
                figures["overload"] = await loads.measured()
            if "governed" in self._parts:
                figures["governed"] = await governed.measured_side_by_side(
                    mock, self._folder, rounds=counts.rounds, requests=counts.requests
                )
            if "books" in self._parts:
                figures["books"] = await governed.kept_books(
                    mock, self._folder, kills=counts.kills, requests=counts.requests // 4
                )
            if "texts" in self._parts:
                figures["texts"] = await texts.measured_side_by_side(
                    mock, self._folder, rounds=counts.rounds, requests=counts.requests, fill=self._fill
                )
            if "store" in self._parts:
                figures["store"], figures["bypassed"] = await store.measured_side_by_side(
                    mock,
                    self._folder,
                    self._stores,
                    rounds=counts.rounds,
                    requests=counts.requests,
                    fill=self._fill,
                )
            if "runs" in self._parts:
                figures["runs"] = await runs.measured_side_by_side(
                    mock, self._folder, rounds=counts.rounds, requests=counts.requests
                )
            if "student" in self._parts:
                figures["student"], self.bypassed = await student.measured_side_by_side(
                    mock, self._folder, rounds=counts.rounds, requests=counts.requests
                )
                figures["bypassed"] = figures.get("bypassed", {}) | self.bypassed
            if "crowd" in self._parts:
                figures["crowd"] = await self._crowd(mock)
            if "start" in self._parts:
                figures["start"] = self._start(mock)
        if "stages" in self._parts:
            folder = self._folder / "stages"
            folder.mkdir()
            figures["stages"] = stages.measured(counts.rounds, counts.requests, folder)
        return figures

    async def _beside_the_relay(self, stack: ExitStack, mock: Server) -> dict[str, Any]:
        """Parts that take the same servers."""
        counts, folder = self._counts, self._folder
        base = f"http://127.0.0.1:{mock.port}/v1"
        remembering = ["--upstream", base, "--exact", "on", "--data", str(folder / "exact")]
        relay = stack.enter_context(bare_relay(folder, mock.port))
        through = stack.enter_context(gateway("passthrough", ["--upstream", base], folder))
        exact = stack.enter_context(gateway("exact", remembering, folder))
        whole = stack.enter_context(gateway("few_shot", few_shot(mock, folder / "few_shot"), folder))
        await self._fill(whole)
        found: dict[str, Any] = {}
        if "requests" in self._parts:
            found["requests"] = await self._requests(mock, relay, through, exact, whole)
            found["bypassed"] = self.bypassed
        if "paced" in self._parts:
            found["paced"] = await paced.latencies(
                mock, relay, exact, whole, rounds=max(1, counts.rounds // 2), for_s=counts.paced_s
            )
        if "chunks" in self._parts:
            found["chunks"] = await self._chunks(mock, relay, through, whole)
        found["memory"] = {
            "relay_mib": relay.rss_mib(),
            "passthrough_mib": through.rss_mib(),
            "few_shot_mib": whole.rss_mib(),
        }
        return found

    async def _fill(self, server: Server) -> None:
        """Give the bank examples, and the embedder words it has seen."""
        questions = self._questions
        print(f"  filling the bank with {self._counts.bank} examples", file=sys.stderr)
        bodies = [questions.body(questions.text(n), unlike_any=True) for n in range(self._counts.bank)]
        await ask(server.port, map(chat_request, bodies), upstream_body(), connections=COLD_CONNECTIONS)
        await settle(server)

    async def _requests(
        self, mock: Server, relay: Server, through: Server, exact: Server, whole: Server
    ) -> dict[str, Any]:
        counts, questions = self._counts, self._questions
        same, known, new = (
            questions.repeated(),
            questions.new_with_known_words(),
            questions.new_with_new_words(),
        )
        subjects = [
            Subject("direct", mock, lambda: same),
            Subject("relay", relay, lambda: same),
            Subject("passthrough", through, lambda: same),
            Subject("exact", exact, lambda: same, remembers=True),
            Subject("no_embedding", exact, lambda: known, remembers=True),
            Subject("warm", whole, lambda: known, remembers=True),
            Subject("cold", whole, lambda: new, connections=COLD_CONNECTIONS, cold=True, remembers=True),
        ]

        alone = Subject("embedding", mock, lambda: iter(()))

        async def once(subject: Subject) -> dict[str, float]:
            if subject is alone:
                return self._embedded(embedder, counts.cold_requests)
            return await measured(subject, mock, counts.cold_requests if subject.cold else counts.requests)

        for subject in subjects:
            await measured(subject, mock, max(KNOWN_TEXTS, counts.requests // 4) if not subject.cold else 8)
        before = bypassed(whole)
        embedder = Embedder.open("package", self._folder / "models")
        found = await in_rounds([*subjects, alone], counts.rounds, once)
        embedder.close()
        self.bypassed = {
            name: n - before.get(name, 0) for name, n in bypassed(whole).items() if n > before.get(name, 0)
        }
        return found

    def _embedded(self, embedder: Embedder, texts: int) -> dict[str, float]:
        """CPU of this process to embed new texts, as long as those that are asked, and nothing else."""
        new = [self._questions.new_text() for _ in range(texts)]
        before_s = time.process_time()
        for text in new:
            embedder.embed_blocking(text)
        return {"cpu_ms": (time.process_time() - before_s) / texts * 1000}

    async def _chunks(self, mock: Server, relay: Server, through: Server, whole: Server) -> dict[str, Any]:
        counts, questions = self._counts, self._questions
        subjects = [
            Subject(key, server, questions.repeated)
            for key, server in (
                ("direct", mock),
                ("relay", relay),
                ("passthrough", through),
                ("few_shot", whole),
            )
        ]
        first_id = itertools.count(0, PACED_STREAMS)

        def body(stream: int) -> bytes:
            return questions.body(questions.text(stream % KNOWN_TEXTS), unlike_any=True, stream=True)

        async def once(subject: Subject) -> dict[str, float]:
            before_s = subject.server.cpu_s()
            streams = await read_streams(
                subject.server.port,
                streams=PACED_STREAMS,
                chunks=counts.stream_chunks,
                interval_ms=PACED_INTERVAL_MS,
                first_id=next(first_id),
                body=body,
            )
            if subject.key == "few_shot":
                await settle(subject.server)
            check(subject.key, streams)
            return {"cpu_us": (subject.server.cpu_s() - before_s) / streams.chunks * 1e6}

        return await in_rounds(subjects, max(1, counts.rounds // 2), once)

    async def _crowd(self, mock: Server) -> dict[str, Any]:
        """Many streams at once, at a freshly started relay and gateway: what each holds, and whether each is its own."""
        counts, questions = self._counts, self._questions
        found: dict[str, list[dict[str, float]]] = {"relay": [], "passthrough": []}
        base = f"http://127.0.0.1:{mock.port}/v1"
        for n in range(min(counts.starts, 3)):
            for key in found if n % 2 == 0 else reversed(found):
                with ExitStack() as stack:
                    if key == "relay":
                        server = stack.enter_context(bare_relay(self._folder, mock.port))
                    else:
                        server = stack.enter_context(gateway("crowd", ["--upstream", base], self._folder))
                    known = itertools.islice(questions.repeated(), 100)
                    await ask(server.port, known, upstream_body(), connections=CONNECTIONS)
                    before_mib = server.rss_mib()
                    sizes_mib = [before_mib]
                    streams = await read_streams(
                        server.port,
                        streams=counts.crowd,
                        chunks=counts.crowd_chunks,
                        interval_ms=CROWD_INTERVAL_MS,
                        body=lambda n: questions.body(questions.text(n), unlike_any=True, stream=True),
                        while_open=partial(_note_size, server, sizes_mib),
                    )
                    check(key, streams)
                    grown_kib = (max(sizes_mib) - before_mib) * 1024
                    found[key].append({"streams": counts.crowd, "kib_per_stream": grown_kib / counts.crowd})
            print(f"  crowd {n + 1}", file=sys.stderr)
        return found

    def _start(self, mock: Server) -> dict[str, Any]:
        """From nothing to ready, on any core: without memory, with it for the first time, and again."""
        found: dict[str, list[dict[str, float]]] = {"passthrough": [], "few_shot_first": [], "few_shot": []}
        base = f"http://127.0.0.1:{mock.port}/v1"
        for n in range(self._counts.starts):
            data = self._folder / f"start-{n}"
            for key, arguments in (
                ("passthrough", ["--upstream", base]),
                ("few_shot_first", few_shot(mock, data)),
                ("few_shot", few_shot(mock, data)),
            ):
                if key == "few_shot_first" and n >= 2:
                    continue
                with gateway(f"start-{key}", arguments, self._folder, pinned=False) as server:
                    found[key].append(
                        {"ready_s": server.ready_s, "cpu_s": server.cpu_s(), "rss_mib": server.rss_mib()}
                    )
            print(f"  start {n + 1} of {self._counts.starts}", file=sys.stderr)
        return found


def _note_size(server: Server, sizes_mib: list[float]) -> None:
    sizes_mib.append(server.rss_mib())


def check(key: str, streams: Streams) -> None:
    """Raises SystemExit unless every stream held exactly its own bytes, in order."""
    if streams.wrong:
        raise SystemExit(
            f"{key}: {len(streams.wrong)} of {streams.streams} streams wrong: {streams.wrong[:3]}"
        )


def machine() -> dict[str, Any]:
    """Where this ran."""
    model = next(
        (
            line.partition(":")[2].strip()
            for line in Path("/proc/cpuinfo").read_text().splitlines()
            if line.startswith("model name")
        ),
        platform.machine(),
    )
    return {
        "cpu": model,
        "python": platform.python_version(),
        "load_average": round(os.getloadavg()[0], 1),
        "pinned": PINNED,
        "load_core": sorted(LOAD_CORE),
        "server_core": sorted(SERVER_CORE),
    }


def _stores(text: str) -> tuple[str, ...]:
    """Names of databases, the first of which the others are compared with. Raises ValueError."""
    names = tuple(text.split(","))
    if not set(names) <= set(store.STORES):
        raise ValueError(text)
    return names


def main() -> None:
    """Measures, prints the table, and says which targets were missed."""
    arguments = options(__doc__)
    arguments.add_argument("--rounds", type=int, help=f"rounds of every comparison [{FULL.rounds}]")
    arguments.add_argument("--quick", action="store_true", help="just enough to see that it runs")
    arguments.add_argument("--only", choices=PARTS, action="append", help="only this part; may be repeated")
    arguments.add_argument("--store", type=_stores, metavar="sqlite,postgres", help="compare databases only")
    arguments.add_argument("--markdown", type=Path, help="write the table to this file")
    arguments.add_argument(
        "--write", action="store_true", help="write the goals into the pages; of a whole run"
    )
    chosen = arguments.parse_args()
    if chosen.write and (chosen.quick or chosen.only or chosen.store):
        arguments.error("--write takes all figures from one whole run")
    counts = QUICK if chosen.quick else FULL
    if chosen.rounds:
        counts = replace(counts, rounds=chosen.rounds)
    with tempfile.TemporaryDirectory() as folder:
        parts = ("store",) if chosen.store else tuple(chosen.only or GOALS)
        bench = Bench(counts, Path(folder), parts, chosen.store or store.STORES)
        figures = uvloop.run(bench.run())
    told = f"{goals.page(goals.told(figures))}\n\n{report.as_text(report.rows(figures), figures)}"
    print(told)
    write(figures, chosen.json)
    if chosen.markdown:
        chosen.markdown.write_text(told)
    if chosen.write:
        goals.write_page(figures)
        claims.write_page()
    missed = goals.missed(goals.rows(figures))
    if missed and not chosen.quick:
        sys.exit(f"Missed: {'; '.join(missed)}")


if __name__ == "__main__":
    main()
