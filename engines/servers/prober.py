"""Asks engines in the background whether they live: those that are silent, and those that are down.

A bad answer takes an engine out until the next one, so that no client finds out. A good answer lets one request try it, and
that request decides: that a server lives does not say that it answers. What is at its rate limit, refuses us or is drained
is left alone.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from engines.errors import EngineError, Kind, TimedOut
from engines.servers.server import Probe, Server
from engines.servers.standing import Since

_LASTS_S = 10.0
"""A health check has ended by then: every kind of engine bounds its own."""


@dataclass(frozen=True, slots=True)
class Pace:
    """How often an engine is probed, in seconds."""

    every_s: float | None
    """Once it has been silent for so long; None: never, and not while it is down either."""
    down_s: float = 5.0
    """While it is down: doubling after each probe, and from the beginning once a request would have gone to it."""
    down_most_s: float = 60.0
    look_s: float = 0.5


class _Probed:
    """The probing of one server."""

    __slots__ = ("asked_at", "running", "server", "since", "turned_away", "wait_s")

    def __init__(self, server: Server) -> None:
        self.server = server
        self.asked_at = time.monotonic()
        self.wait_s: float | None = None
        """While it is down, until the next probe."""
        self.turned_away = 0
        self.running = False
        self.since: Since | None = None


class Prober:
    """Owns its task between `start` and `aclose`.

    `told` is called on the event loop when the state of one has changed: with the new one and the one before, at first None.
    """

    def __init__(
        self,
        servers: Sequence[Server],
        pace: Pace,
        told: Callable[[Server, Since, Since | None], None] = lambda *_: None,
    ) -> None:
        self._probed = [_Probed(server) for server in servers]
        self._pace = pace
        self._told = told
        self._task: asyncio.Task[None] | None = None
        self.failures = 0
        """Probes that failed for a reason of our own: they say nothing of the engine."""

    def start(self) -> None:
        """Begin. Inside the running loop."""
        self._task = asyncio.get_running_loop().create_task(self._run(), name="probes")

    async def aclose(self) -> None:
        """End the task, and every probe under way."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.wait([task])

    async def _run(self) -> None:
        async with asyncio.TaskGroup() as probes:
            while True:
                for one in self._probed:
                    if self._due(one):
                        one.running = True
                        probes.create_task(self._probe(one), name=f"probe {one.server.info.name}")
                    if (since := one.server.since()) is not one.since:
                        self._told(one.server, since, one.since)
                        one.since = since
                await asyncio.sleep(self._pace.look_s)

    def _due(self, one: _Probed) -> bool:
        server, pace, now = one.server, self._pace, time.monotonic()
        gate = server.breaker.gate
        if pace.every_s is None or one.running or server.drained or gate.probing:
            return False
        if gate.kind is None:
            one.wait_s = None
            return now - max(one.asked_at, server.heard_at) >= pace.every_s
        if gate.kind is not Kind.OPEN:
            return False
        if one.wait_s is None:
            # It has just failed by itself.
            one.wait_s, one.asked_at, one.turned_away = pace.down_s, now, server.turned_away
        wanted = server.turned_away != one.turned_away
        return now - one.asked_at >= (pace.down_s if wanted else one.wait_s)

    async def _probe(self, one: _Probed) -> None:
        server, pace = one.server, self._pace
        began = one.asked_at = time.monotonic()
        was_down, wanted = one.wait_s is not None, server.turned_away != one.turned_away
        one.turned_away = server.turned_away
        after_s = pace.down_s if wanted or one.wait_s is None else min(pace.down_most_s, one.wait_s * 2)
        try:
            await server.engine.health()
        except EngineError as error:
            server.last_probe = Probe(time.time(), time.monotonic() - began, error.message)
            slow = isinstance(error, TimedOut) and error.kind is not Kind.TIMEOUT_CONNECT
            # A busy server may be late with it, and a request may have found out more meanwhile.
            if not (slow and server.busy) and server.heard_at < began:
                server.is_down(error, next_s=pace.down_s, for_s=after_s + _LASTS_S)
                one.wait_s = after_s
        except Exception:
            self.failures += 1
        else:
            server.last_probe = Probe(time.time(), time.monotonic() - began)
            server.is_alive()
            one.wait_s = after_s if was_down else None
        finally:
            one.running = False
