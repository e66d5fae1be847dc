"""Lets replay through while traffic is low, and stops it within a second when that changes.

Looks five times a second at what the workers say; they say it four times a second. What is under way when the gate closes
is the runner's to let finish or to cancel; nothing new gets through.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass

import structlog

from store.jobs.live_load import LiveLoad

log = structlog.get_logger(__name__)

_LOOK_S = 0.2


@dataclass(slots=True)
class Quiet:
    """How quiet is quiet enough; may be changed while a gate is watching."""

    limit: int
    """Requests in flight up to which replay goes on."""
    calm_s: float
    """How long it must have been quiet before the gate opens again."""


class OffPeakGate:
    """`watch` is the task that keeps it up to date; `may_go_on` waits until it is open."""

    def __init__(
        self,
        look: Callable[[], LiveLoad],
        quiet: Quiet,
        *,
        look_every_s: float = _LOOK_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`look` reads a few small files; it is called on the event loop of the process that replays."""
        self._look = look
        self._quiet = quiet
        self._look_every_s = look_every_s
        self._clock = clock
        self._open = asyncio.Event()
        self._quiet_since: float | None = None
        self._pauses = 0

    @property
    def open(self) -> bool:
        """Whether `may_go_on` would return at once."""
        return self._open.is_set()

    @property
    def pauses(self) -> int:
        """How often it closed after having been open."""
        return self._pauses

    async def may_go_on(self) -> None:
        """Return when traffic is low. Cancelling is safe."""
        await self._open.wait()

    async def watch(self) -> None:
        """Look again and again until cancelled. Begins open if it is quiet right now."""
        first = True
        while True:
            self.step(at_once=first)
            first = False
            await asyncio.sleep(self._look_every_s)

    def step(self, *, at_once: bool = False) -> None:
        """Look once. `at_once`: do not wait for calm."""
        now_s = self._clock()
        try:
            load = self._look()
        except OSError as error:
            # Nobody knows how busy it is: then it is.
            load = LiveLoad(0, 0, 1)
            log.error("live_load_unreadable", error=error)
        if load.silent or load.in_flight > self._quiet.limit:
            self._quiet_since = None
            if self._open.is_set():
                self._open.clear()
                self._pauses += 1
                log.info(
                    "off_peak_over",
                    in_flight=load.in_flight,
                    silent=load.silent,
                    limit=self._quiet.limit,
                )
            return
        if self._quiet_since is None:
            self._quiet_since = now_s
        if not self._open.is_set() and (at_once or now_s - self._quiet_since >= self._quiet.calm_s):
            self._open.set()
            log.info("off_peak", in_flight=load.in_flight, limit=self._quiet.limit)
