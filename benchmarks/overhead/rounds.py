"""One batch of requests, and rounds of them: every subject in turn, forth and back."""

from __future__ import annotations

import asyncio
import itertools
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from benchmarks.overhead.load import Batch, Right, ask
from benchmarks.overhead.servers import Server, answers
from benchmarks.overhead.upstream import body as upstream_body

CONNECTIONS = 16
_UPSTREAMS = upstream_body()


@dataclass(frozen=True)
class Subject:
    """One way for a request to go."""

    key: str
    server: Server
    requests: Callable[[], Iterator[bytes]]
    """An endless supply; each call of it goes on where the last one stopped."""
    connections: int = CONNECTIONS
    cold: bool = False
    remembers: bool = False
    expected: bytes | Right = _UPSTREAMS


async def settle(server: Server) -> None:
    """Wait until everything that was answered is remembered too: that is part of its cost."""
    async with asyncio.timeout(60):
        while True:
            if answers(server.port, "/readyz?settled=1"):
                return
            await asyncio.sleep(0.05)


async def measured(
    subject: Subject, mock: Server, requests: int, per_s: float | None = None
) -> dict[str, float]:
    """One batch: CPU milliseconds per request of the subject, and how busy both sides were. `per_s`: see load.ask."""
    server_before, mock_before, load_before = subject.server.cpu_s(), mock.cpu_s(), time.process_time()
    batch: Batch = await ask(
        subject.server.port,
        itertools.islice(subject.requests(), requests),
        subject.expected,
        connections=subject.connections,
        per_s=per_s,
    )
    load_s = time.process_time() - load_before + mock.cpu_s() - mock_before
    if subject.remembers:
        await settle(subject.server)
    cpu_s = subject.server.cpu_s() - server_before
    if batch.wrong or batch.answered != requests:
        raise SystemExit(f"{subject.key}: {batch.answered} of {requests} answered; wrong: {batch.wrong[:1]}")
    return {
        "cpu_ms": cpu_s / requests * 1000,
        "p50_ms": batch.latency_ms(0.5),
        "p99_ms": batch.latency_ms(0.99),
        "per_s": requests / batch.wall_s,
        "load_busy": load_s / batch.wall_s,
        "hit_share": batch.hits / requests,
        "offloaded_share": batch.offloaded / requests,
        "student_share": batch.by_student / requests,
    }


async def in_rounds(
    subjects: list[Subject], rounds: int, once: Callable[[Subject], Any]
) -> dict[str, list[dict[str, float]]]:
    """Measure every subject once per round, in an order that turns round each time."""
    found: dict[str, list[dict[str, float]]] = {subject.key: [] for subject in subjects}
    for n in range(rounds):
        for subject in subjects if n % 2 == 0 else reversed(subjects):
            found[subject.key].append(await once(subject))
        print(f"  round {n + 1} of {rounds}", file=sys.stderr)
    return found
