"""Tells the other processes how many requests this worker has in flight: a thread of its own, four times a second.

Only where replay runs by itself: nobody else asks.
"""

from __future__ import annotations

import threading
from pathlib import Path

import structlog

from store.jobs.live_load import LoadReport

log = structlog.get_logger(__name__)

_EVERY_S = 0.25


class LoadReporter:
    """Counts requests under way. Owns its thread between `start` and `stop`."""

    def __init__(self, data_folder: Path, every_s: float = _EVERY_S) -> None:
        self._data_folder = data_folder
        self._every_s = every_s
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="load-report", daemon=True)
        self._begun = self._ended = 0

    @property
    def in_flight(self) -> int:
        """Requests now under way."""
        return self._begun - self._ended

    def began(self) -> None:
        """A request came in. On the event loop, as `ended` is: the thread only reads."""
        self._begun += 1

    def ended(self) -> None:
        """A request left."""
        self._ended += 1

    def start(self) -> None:
        """Start the thread, unless it runs."""
        if not self._thread.is_alive():
            self._thread.start()

    def stop(self) -> None:
        """Withdraw this worker's report and wait for the thread to end."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        report: LoadReport | None = None
        try:
            while not self._stopping.wait(self._every_s):
                try:
                    report = report or LoadReport(self._data_folder)
                    report.say(self.in_flight)
                except OSError as error:
                    # A full disk, say: a silent worker counts as a busy one, and this one tries again.
                    log.error("load_report_failed", error=error)
                    self._stopping.wait(10)
        finally:
            if report is not None:
                report.close()
