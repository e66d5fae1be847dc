"""Looks four times a second how a worker stands, on a thread of its own: its load, its capacity, what it has in flight.

By the load it sheds (router.shedding). The other processes are told: replay asks what is in flight, feedback how far answers
are recorded, the admin pages for the rest; every two seconds as a row, where processes of other machines ask.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import os
import secrets
import socket
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import structlog
from prometheus_client import CollectorRegistry, Counter, Gauge

from router.shedding import ORDER, Shedding
from store.errors import StoreError
from store.jobs.live_load import LoadReport, Standing
from store.jobs.worker_loads import SAY_EVERY_S, WorkerLoads
from understudy.background.capacity import Capacity

log = structlog.get_logger(__name__)

_EVERY_S = 0.25


class LoadMetrics:
    """Series of one process."""

    def __init__(self, registry: CollectorRegistry) -> None:
        gauge = partial(Gauge, registry=registry, multiprocess_mode="livesum")
        self.core_share = gauge("understudy_core_share", "Share of a core that workers use, summed.")
        self.capacity = gauge(
            "understudy_capacity_requests_per_second",
            "Requests a second until latency breaks, as estimated, of all workers.",
        )
        self.level = Gauge(
            "understudy_shed_level",
            "How many kinds of work the worker sheds that sheds the most.",
            registry=registry,
            multiprocess_mode="livemax",
        )
        self.shed = Counter("understudy_shed", "Work left out under load.", ["what"], registry=registry)
        for what in ORDER:
            self.shed.labels(what)


class LoadReporter:
    """Counts requests under way, and sheds by the load. Owns its thread between `start` and `stop`.

    `recorded_to_s` is asked on the event loop: a time (time.monotonic) by when all that was answered is recorded.
    `all_ended`: how many requests ended so far, of all kinds. `data_folder`: where other processes read; None where there
    are none.
    """

    def __init__(
        self,
        data_folder: Path | None,
        every_s: float = _EVERY_S,
        *,
        recorded_to_s: Callable[[], float] = time.monotonic,
        elsewhere: WorkerLoads | None = None,
        metrics: LoadMetrics | None = None,
        all_ended: Callable[[], int] = lambda: 0,
    ) -> None:
        self.shedding = Shedding()
        self.waits: list[Callable[[], float]] = []
        """Each gives the longest wait of a queue since it was last asked, as a share of what it may be."""
        self._metrics = metrics
        self._all_ended = all_ended
        self._capacity = Capacity(time.monotonic(), time.process_time(), all_ended())
        self._told = dict(self.shedding.shed)
        self._asked_at_s: float | None = None
        self._lag_s = 0.0
        self._data_folder = data_folder
        self._every_s = every_s
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="load-report", daemon=True)
        self._begun = self._ended = 0
        self._ask_recorded = recorded_to_s
        self._elsewhere = elsewhere
        self._worker = f"{socket.gethostname()[:60]}-{os.getpid()}-{secrets.token_hex(4)}"
        self._said_at_s = -math.inf
        self._recorded_to_s = 0.0
        self._report: LoadReport | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    @property
    def in_flight(self) -> int:
        """Requests now under way."""
        # A log that is replayed here has requests that never came in.
        return max(0, self._begun - self._ended)

    def began(self) -> None:
        """A request came in. On the event loop, as `ended` is: the thread only reads."""
        self._begun += 1

    def ended(self) -> None:
        """A request left."""
        self._ended += 1

    def start(self) -> None:
        """Start the thread, unless it runs. Inside the running loop."""
        if not self._thread.is_alive():
            self._loop = asyncio.get_running_loop()
            # Before the first request: who asks meanwhile has to know that this worker may be behind.
            with contextlib.suppress(OSError):
                self._report = self._opened()
            self._thread.start()

    def stop(self) -> None:
        """Withdraw this worker's report and wait for the thread to end."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join()

    def _opened(self) -> LoadReport | None:
        return None if self._data_folder is None else LoadReport(self._data_folder)

    def _answer(self, asked_at_s: float) -> None:
        """On the event loop: it comes to this when it has done what was due before."""
        self._lag_s = max(self._lag_s, time.monotonic() - asked_at_s)
        self._asked_at_s = None
        self._recorded_to_s = self._ask_recorded()

    def _look(self) -> None:
        """Take the load, and shed by it."""
        now_s, asked_at_s = time.monotonic(), self._asked_at_s
        lag_s, self._lag_s = self._lag_s, 0.0
        if asked_at_s is not None:
            # It has not come to it yet.
            lag_s = max(lag_s, now_s - asked_at_s)
        shedding, capacity = self.shedding, self._capacity
        capacity.look(now_s, time.process_time(), self._all_ended(), shed=shedding.level > 0)
        waits = max((longest() for longest in self.waits), default=0.0)
        shedding.look(now_s, lag_s=lag_s, waits=waits, core_share=capacity.core_share)
        self._tell()

    def _tell(self) -> None:
        metrics, shedding = self._metrics, self.shedding
        if metrics is None:
            return
        metrics.core_share.set(self._capacity.core_share)
        metrics.capacity.set(self._capacity.per_s)
        metrics.level.set(shedding.level)
        for what, count in shedding.shed.items():
            metrics.shed.labels(what).inc(count - self._told[what])
            self._told[what] = count

    def _ask(self, loop: asyncio.AbstractEventLoop) -> None:
        if self._asked_at_s is None:
            self._asked_at_s = asked_at_s = time.monotonic()
            # Asked on the loop: an answer that its client has was taken over before the loop comes to this.
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(self._answer, asked_at_s)

    def _standing(self) -> Standing:
        shedding, capacity = self.shedding, self._capacity
        shed = tuple(shedding.shed.values())
        share, per_s = capacity.core_share, capacity.per_s
        return Standing(self.in_flight, self._recorded_to_s, share, per_s, shedding.level, shed)

    def _run(self) -> None:
        assert self._loop is not None
        report = self._report
        try:
            while not self._stopping.wait(self._every_s):
                try:
                    self._look()
                    self._ask(self._loop)
                    report = report or self._opened()
                    if report is not None:
                        report.say(self._standing())
                    self._say_elsewhere()
                except OSError as error:
                    # A full disk, say: a silent worker counts as a busy one, and this one tries again.
                    log.error("load_report_failed", error=error)
                    self._stopping.wait(10)
        finally:
            if report is not None:
                report.close()
            if self._elsewhere is not None:
                # A row that stays is believed for some seconds only.
                with contextlib.suppress(StoreError):
                    self._elsewhere.gone(self._worker)

    def _say_elsewhere(self) -> None:
        now_s = time.monotonic()
        if self._elsewhere is None or not self._recorded_to_s or now_s < self._said_at_s + SAY_EVERY_S:
            return
        self._said_at_s = now_s
        # A database that is away, say: the others take silence for a load.
        with contextlib.suppress(StoreError):
            self._elsewhere.say(self._worker, self._standing())
