"""Replicas in virtual time: the product's own engines.servers over servers that are simulated.

The event loop's clock jumps to the next thing that is due: minutes of load take a second, so that many seeds can be asked.
"""

from __future__ import annotations

import asyncio
import itertools
import random
import selectors
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any
from unittest.mock import patch

from multidict import CIMultiDict

from engines.engine import EngineInfo, EngineLoad, EngineReply, EngineRequest
from engines.servers.breaker import Breaker
from engines.servers.server import Limits, Server
from engines.servers.servers import Servers

MEANS_S = (0.4, 0.4, 1.2)
SLOTS = 8
_WORK = "x-work"


class _Jumps(selectors.SelectSelector):
    """Waits for nobody: it notes how long it was to."""

    def __init__(self) -> None:
        super().__init__()
        self.now_s = 0.0

    def select(self, timeout: float | None = None) -> list[Any]:
        if timeout is None:
            raise RuntimeError("nothing is due, and virtual time has nobody else to wait for")
        self.now_s += max(0.0, timeout)
        return super().select(0)


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop whose time passes only while all wait."""

    def __init__(self) -> None:
        self._jumps = _Jumps()
        super().__init__(self._jumps)

    def time(self) -> float:
        """Seconds since it was made."""
        return self._jumps.now_s


class Simulated:
    """A simulated server of eight slots; more wait in it."""

    def __init__(self, name: str, mean_s: float) -> None:
        self.info = EngineInfo("pool", replica=name)
        self._mean_s = mean_s
        self._slots = asyncio.Semaphore(SLOTS)

    @asynccontextmanager
    async def stream(self, request: EngineRequest) -> AsyncIterator[EngineReply]:
        """Takes as long as the request says, times its mean."""
        async with self._slots:
            await asyncio.sleep(self._mean_s * float(request.headers[_WORK]))
        yield EngineReply(200, CIMultiDict({"Content-Type": "application/json"}), _body(), "pool")

    def load(self) -> EngineLoad:
        """Unknown."""
        return EngineLoad()

    async def health(self) -> None:
        """Well."""

    async def aclose(self) -> None:
        """Nothing is held."""


async def _body() -> AsyncIterator[bytes]:
    yield b"{}"


def p99_s(per_s: float, seconds: float, seed: int, *, by_turns: bool = False, most: int = SLOTS) -> float:
    """The 99th percentile of the time to an answer at so many requests per second; `by_turns`: by round robin instead.

    `most`: requests that the gateway sends a replica at once; more wait in the line.
    """
    loop = VirtualLoop()
    with patch("time.monotonic", loop.time):
        try:
            return loop.run_until_complete(
                _load(loop.time, per_s, seconds, seed, by_turns=by_turns, most=most)
            )
        finally:
            loop.close()


async def _load(
    clock: Callable[[], float], per_s: float, seconds: float, seed: int, *, by_turns: bool, most: int
) -> float:
    servers = [Simulated(f"{number}", mean_s) for number, mean_s in enumerate(MEANS_S)]
    limits = Limits(most, 10**6, None, None, None)
    pool = Servers(
        [Server(one, limits, Breaker(failures=5, open_s=10, clock=clock)) for one in servers], clock
    )
    turns = itertools.cycle(servers)
    rng, took, tasks = random.Random(seed), [], []

    async def ask(request: EngineRequest) -> None:
        began = clock()
        async with (next(turns) if by_turns else pool).stream(request) as reply:
            async for _ in reply.chunks:
                pass
        took.append(clock() - began)

    while clock() < seconds:
        await asyncio.sleep(rng.expovariate(per_s))
        headers = CIMultiDict({_WORK: f"{rng.expovariate(1.0)}"})
        tasks.append(asyncio.create_task(ask(EngineRequest("POST", "/chat/completions", headers, b"{}"))))
    await asyncio.gather(*tasks)
    return sorted(took)[int(0.99 * len(took))]
