"""What a gateway keeps when more is asked of it than its core can do.

The whole line with the admin pages and the learner beside it, all on one core; the mock engine answers as small and as large
alike, so that the small one is proven after some comparisons. Requests come at their time, whether or not those before were
answered (an open loop). Capacity is measured in the same run, before each part: the share of the core that the gateway gets
while it is asked without pause, divided by what a request costs at half that pace, when nothing is shed.
"""

from __future__ import annotations

import itertools
import os
import sys
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import yaml

from benchmarks.overhead.load import Batch, ask
from benchmarks.overhead.questions import Questions
from benchmarks.overhead.rounds import CONNECTIONS, settle
from benchmarks.overhead.servers import Server, bypassed, counted, gateway
from benchmarks.overhead.upstream import body as upstream_body
from benchmarks.processes import free_port

_COLD_CONNECTIONS, _OPEN_CONNECTIONS = 2, 256
_SHED = "understudy_shed_total"
_PROVEN = 0.98
_PROVEN_WITHIN_S = 120.0


class Overload:
    """Measures one gateway. `for_s`: how long each load lasts, in seconds."""

    def __init__(self, mock: Server, folder: Path, *, for_s: float) -> None:
        self._mock = mock
        self._folder = folder
        self._for_s = for_s
        questions = Questions()
        self._known = questions.new_with_known_words()
        self._new = questions.new_with_new_words()

    async def measured(self) -> dict[str, list[dict[str, float]]]:
        """Figures by load. Raises SystemExit where the small engine is not proven, or an answer is wrong."""
        with self._gateway() as server:
            await self._until_proven(server)
            return {
                "half": [await self._under(server, self._known, CONNECTIONS, 0.5)],
                "over": [await self._under(server, self._known, CONNECTIONS, 1.5)],
                "busy": [await self._under(server, self._new, _COLD_CONNECTIONS, 0.7)],
            }

    def _gateway(self) -> AbstractContextManager[Server]:
        base = f"http://127.0.0.1:{self._mock.port}/v1"
        path = self._folder / "overload.yaml"
        engine = {"base_url": base, "model": "bench", "api_key": "sk-up"}
        configuration = {
            "engines": {"small": engine, "large": engine},
            "models": {"bench": {"engines": ["small", "large"], "policy": "few_shot"}},
            "memory": {"data_dir": str(self._folder / "overload")},
            "admin": {"port": free_port()},
        }
        path.write_text(yaml.safe_dump(configuration))
        return gateway("overload", ["--config", str(path)], self._folder, admin=True)

    async def _until_proven(self, server: Server) -> None:
        end = time.monotonic() + _PROVEN_WITHIN_S
        in_a_row = 0
        while in_a_row < 2:
            if time.monotonic() > end:
                raise SystemExit("overload: the small engine is not proven")
            batch = await self._asked_without_pause(server, self._known, 2, 2.0)
            in_a_row = in_a_row + 1 if batch.offloaded >= _PROVEN * batch.answered else 0
            await settle(server)
        print("  proven", file=sys.stderr)

    async def _asked_without_pause(
        self, server: Server, requests: Iterator[bytes], connections: int, seconds: float
    ) -> Batch:
        end = time.monotonic() + seconds

        def for_a_while() -> Iterator[bytes]:
            while time.monotonic() < end:
                yield next(requests)

        batch = await ask(server.port, for_a_while(), upstream_body(), connections=connections)
        return _right(batch)

    async def _capacity(self, server: Server, requests: Iterator[bytes], connections: int) -> float:
        """Requests a second that the core's share allows, nothing shed."""
        seconds = max(1.0, self._for_s / 4)
        before_s, began = server.cpu_s(), time.perf_counter()
        batch = await self._asked_without_pause(server, requests, connections, seconds)
        share = (server.cpu_s() - before_s) / (time.perf_counter() - began)
        await settle(server)
        before_s = server.cpu_s()
        half = await self._asked(server, requests, 0.5 * batch.answered / batch.wall_s, seconds)
        await settle(server)
        return share * half.answered / (server.cpu_s() - before_s)

    async def _asked(self, server: Server, requests: Iterator[bytes], per_s: float, seconds: float) -> Batch:
        some = itertools.islice(requests, max(1, round(per_s * seconds)))
        batch = await ask(
            server.port, some, upstream_body(), connections=_OPEN_CONNECTIONS, per_s=per_s, limit_s=600
        )
        return _right(batch)

    async def _under(
        self, server: Server, requests: Iterator[bytes], connections: int, times: float
    ) -> dict[str, float]:
        """Figures of a load that is so many times the capacity."""
        capacity_per_s = await self._capacity(server, requests, connections)
        skipped, shed, before_s = bypassed(server), counted(server, _SHED), server.cpu_s()
        began = time.perf_counter()
        batch = await self._asked(server, requests, times * capacity_per_s, self._for_s)
        core_share = (server.cpu_s() - before_s) / (time.perf_counter() - began)
        await settle(server)
        without = _more(bypassed(server), skipped)
        late = sum(n for stage, n in without.items() if stage.startswith("embed"))
        figures = {
            "capacity_per_s": capacity_per_s,
            "asked_per_s": times * capacity_per_s,
            # Of those that are proven, or went on without being looked at.
            "small_share": batch.offloaded / max(1, batch.answered - batch.unproven),
            "unproven_share": batch.unproven / batch.answered,
            "embedded_share": 1 - late / batch.answered,
            "p50_ms": batch.latency_ms(0.5),
            "p99_ms": batch.latency_ms(0.99),
            "core_share": core_share,
            "load_average": os.getloadavg()[0],
        }
        print(f"  {times}x of {capacity_per_s:.0f} a second; went without {without}", file=sys.stderr)
        return figures | {f"shed_{what}": n for what, n in _more(counted(server, _SHED), shed).items()}


def _right(batch: Batch) -> Batch:
    if batch.wrong or not batch.answered:
        raise SystemExit(f"overload: {batch.answered} answered; wrong: {batch.wrong[:1]}")
    return batch


def _more(now: dict[str, float], before: dict[str, float]) -> dict[str, float]:
    return {name: n - before.get(name, 0) for name, n in now.items() if n > before.get(name, 0)}
