"""Tells the other processes how many requests this worker has in flight, and how far it has recorded what it answered.

A thread of its own does so four times a second, for replay, which asks for the first, and for feedback, which asks for the
second; every two seconds as a row, where processes of other machines ask.
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
from pathlib import Path

import structlog

from store.errors import StoreError
from store.jobs.live_load import LoadReport
from store.jobs.worker_loads import SAY_EVERY_S, WorkerLoads

log = structlog.get_logger(__name__)

_EVERY_S = 0.25


class LoadReporter:
    """Counts requests under way. Owns its thread between `start` and `stop`.

    `recorded_to_s` is asked on the event loop: a time (time.monotonic) by when all that was answered is recorded.
    """

    def __init__(
        self,
        data_folder: Path,
        every_s: float = _EVERY_S,
        *,
        recorded_to_s: Callable[[], float] = time.monotonic,
        elsewhere: WorkerLoads | None = None,
    ) -> None:
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
                self._report = LoadReport(self._data_folder)
            self._thread.start()

    def stop(self) -> None:
        """Withdraw this worker's report and wait for the thread to end."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join()

    def _look(self) -> None:
        self._recorded_to_s = self._ask_recorded()

    def _run(self) -> None:
        assert self._loop is not None
        report = self._report
        try:
            while not self._stopping.wait(self._every_s):
                try:
                    report = report or LoadReport(self._data_folder)
                    # Asked on the loop: an answer that its client has was taken over before the loop comes to this.
                    with contextlib.suppress(RuntimeError):
                        self._loop.call_soon_threadsafe(self._look)
                    report.say(self.in_flight, self._recorded_to_s)
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
            self._elsewhere.say(self._worker, self.in_flight, self._recorded_to_s)
