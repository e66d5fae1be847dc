"""What a gateway keeps when more is asked of it than its core can do, and in the minute after its start.

The whole line with the admin pages and the learner beside it, all on one core; the mock engine answers as small and as large
alike, so that the small one is proven after some comparisons. Requests come at their time, whether or not those before were
answered (an open loop). Capacity is measured in the same run, before each part: the share of the core that the gateway gets
while it is asked without pause, divided by what a request costs at half that pace, when nothing is shed.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from benchmarks.overhead.load import Batch, ask, ask_at_rate
from benchmarks.overhead.questions import Questions
from benchmarks.overhead.rounds import CONNECTIONS, settle
from benchmarks.overhead.servers import Server, bypassed, counted, gateway
from benchmarks.overhead.upstream import body as upstream_body
from benchmarks.processes import free_port

_COLD_CONNECTIONS = 2
_PROVEN = 0.98
_PROVEN_WITHIN_S = 120.0


class Overload:
    """Measures one gateway. `load_s`: how long each load lasts; `first_s`: the same after the start."""

    def __init__(self, mock: Server, folder: Path, *, load_s: float, first_s: float) -> None:
        self._mock = mock
        self._folder = folder
        self._load_s = load_s
        self._first_s = first_s
        self._questions = Questions()
        self._known = self._questions.new_with_known_words()
        self._new = self._questions.new_with_new_words()

    async def measured(self) -> dict[str, Any]:
        """Figures by load. Raises SystemExit where the small engine is not proven, or an answer is wrong."""
        figures: dict[str, Any] = {}
        with self._gateway("overload") as server:
            await self._until_proven(server)
            warm_per_s = await self._capacity(server, self._known, CONNECTIONS)
            figures["warm at 0.5x"] = await self._under(server, self._known, warm_per_s, 0.5, self._load_s)
            warm_per_s = await self._capacity(server, self._known, CONNECTIONS)
            figures["warm at 1.5x"] = await self._under(server, self._known, warm_per_s, 1.5, self._load_s)
            cold_per_s = await self._capacity(server, self._new, _COLD_CONNECTIONS)
            figures["cold at 0.7x"] = await self._under(server, self._new, cold_per_s, 0.7, self._load_s)
        with self._gateway("started") as server:
            figures["cold at 0.7x, first minute"] = await self._under(
                server, self._new, cold_per_s, 0.7, self._first_s
            )
        return figures

    def _gateway(self, name: str) -> Any:
        base = f"http://127.0.0.1:{self._mock.port}/v1"
        path = self._folder / "overload.yaml"
        engines = {
            which: {"base_url": base, "model": "bench", "api_key": "sk-up"} for which in ("small", "large")
        }
        configuration = {
            "engines": engines,
            "models": {"bench": {"engines": ["small", "large"], "policy": "few_shot"}},
            "memory": {"data_dir": str(self._folder / "overload")},
            "admin": {"port": free_port()},
        }
        path.write_text(yaml.safe_dump(configuration))
        return gateway(name, ["--config", str(path)], self._folder, admin=True)

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
        seconds = max(1.0, self._load_s / 4)
        before_s, began = server.cpu_s(), time.perf_counter()
        batch = await self._asked_without_pause(server, requests, connections, seconds)
        share = (server.cpu_s() - before_s) / (time.perf_counter() - began)
        await settle(server)
        before_s = server.cpu_s()
        half = await ask_at_rate(
            server.port,
            requests,
            upstream_body(),
            per_s=0.5 * batch.answered / batch.wall_s,
            seconds=seconds,
        )
        await settle(server)
        cost_s = (server.cpu_s() - before_s) / _right(half).answered
        return share / cost_s

    async def _under(
        self, server: Server, requests: Iterator[bytes], capacity_per_s: float, times: float, seconds: float
    ) -> dict[str, float]:
        skipped, shed, before_s = bypassed(server), counted(server, "understudy_shed_total"), server.cpu_s()
        began = time.perf_counter()
        batch = _right(
            await ask_at_rate(
                server.port, requests, upstream_body(), per_s=capacity_per_s * times, seconds=seconds
            )
        )
        share = (server.cpu_s() - before_s) / (time.perf_counter() - began)
        await settle(server)
        skipped, shed = (
            _more(bypassed(server), skipped),
            _more(counted(server, "understudy_shed_total"), shed),
        )
        figures = {
            "capacity_per_s": capacity_per_s,
            "asked_per_s": capacity_per_s * times,
            "answered": float(batch.answered),
            # Of those that are proven, or went on without being looked at.
            "small_share": batch.offloaded / max(1, batch.answered - batch.unproven),
            "unproven_share": batch.unproven / batch.answered,
            "embedded_share": 1
            - sum(n for name, n in skipped.items() if name.startswith("embed:")) / batch.answered,
            "decided_share": 1 - sum(skipped.values()) / batch.answered,
            "p50_ms": batch.p50_ms(),
            "p99_ms": batch.quantile_ms(0.99),
            "core_share": share,
            "load_average": os.getloadavg()[0],
        }
        print(f"  {times}x: {figures}; went without {skipped}; shed {shed}", file=sys.stderr)
        return figures | {f"shed_{what}": n for what, n in shed.items()}


def _right(batch: Batch) -> Batch:
    if batch.wrong or not batch.answered:
        raise SystemExit(f"overload: {batch.answered} answered; wrong: {batch.wrong[:1]}")
    return batch


def _more(now: dict[str, float], before: dict[str, float]) -> dict[str, float]:
    return {name: n - before.get(name, 0) for name, n in now.items() if n > before.get(name, 0)}
