"""What goes wrong, in an order drawn from the seed, and what an operator does in between."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from benchmarks.chaos.site import ENGINES, Site
from benchmarks.chaos.traffic import Traffic

KINDS = (
    "worker killed",
    "learner killed",
    "supervisor killed",
    "engine stopped",
    "engine killed",
    "disk full",
    "store locked",
)
ORDERS = ("reload",)
RECOVERS_WITHIN_S = 10.0
JUDGED_S = 5.0
"""Requests of so many seconds tell whether all is normal."""


@dataclass
class Fault:
    """One of them, with what became of it."""

    kind: str
    began_s: float
    over_s: float = 0.0
    """When what was broken is whole again as far as the harness knows: from then on it is the gateway's turn."""
    what: str = ""


class Schedule:
    """Faults one after the other until the time is over: each kind once, in a drawn order, then all again."""

    def __init__(self, site: Site, traffic: Traffic, seed: int) -> None:
        self._site = site
        self._traffic = traffic
        self.dice = random.Random(seed)
        self.faults: list[Fault] = []

    async def run(self, until_s: float, kinds: Sequence[str] = KINDS, orders: Sequence[str] = ORDERS) -> None:
        """Ends no later than a fault and its recovery after `until_s` (time.monotonic)."""
        waiting: list[str] = []
        while time.monotonic() < until_s:
            waiting = waiting or self.dice.sample(kinds, len(kinds))
            if waiting:
                await self._happens(waiting.pop())
                await asyncio.sleep(RECOVERS_WITHIN_S + JUDGED_S)
            if orders and time.monotonic() < until_s:
                await self._happens(self.dice.choice(orders))
                await asyncio.sleep(self.dice.uniform(1.0, 3.0))

    async def _happens(self, kind: str) -> None:
        fault = Fault(kind, time.monotonic())
        self.faults.append(fault)
        fault.what = await self.acts()[kind]()
        fault.over_s = time.monotonic()

    def acts(self) -> dict[str, Callable[[], Awaitable[str]]]:
        """What is done, by its name; each says what it did when it is over."""
        return {
            "worker killed": self._worker,
            "learner killed": self._learner,
            "supervisor killed": self._supervisor,
            "engine stopped": self.engine_stopped,
            "engine killed": self.engine_killed,
            "disk full": self._disk,
            "store locked": self._locked,
            "reload": self._reload,
        }

    async def _worker(self) -> str:
        pids = self._site.workers()
        place = self.dice.randrange(len(pids))
        os.kill(pids[place], signal.SIGKILL)
        return f"one of {len(pids)}"

    async def _learner(self) -> str:
        pid = await asyncio.to_thread(self._site.learner)
        os.kill(pid, signal.SIGKILL)
        return f"process {pid}"

    async def _supervisor(self) -> str:
        began = time.monotonic()
        self._traffic.serving.clear()
        await asyncio.to_thread(self._site.kill_server)
        self._site.start()
        await asyncio.to_thread(self._site.wait_until_ready)
        self._traffic.serving.set()
        return f"served again after {time.monotonic() - began:.1f} s"

    async def engine_stopped(self) -> str:
        name, for_s = self.dice.choice(ENGINES), self.dice.uniform(3, 8)
        self._site.signal_engine(name, signal.SIGSTOP)
        await asyncio.sleep(for_s)
        self._site.signal_engine(name, signal.SIGCONT)
        return f"{name} for {for_s:.1f} s"

    async def engine_killed(self) -> str:
        name, for_s = self.dice.choice(ENGINES), self.dice.uniform(2, 6)
        self._site.signal_engine(name, signal.SIGKILL)
        await asyncio.sleep(for_s)
        self._site.start_engine(name)
        return f"{name} for {for_s:.1f} s"

    async def _disk(self) -> str:
        for_s = self.dice.uniform(3, 8)
        with self._site.full_disk():
            await asyncio.sleep(for_s)
        return f"{for_s:.1f} s"

    async def _locked(self) -> str:
        for_s = self.dice.uniform(2, 7)
        await asyncio.to_thread(self._site.lock_store, for_s)
        return f"{for_s:.1f} s"

    async def _reload(self) -> str:
        await asyncio.to_thread(self._site.hang_up)
        return "SIGHUP"
