"""Rebuilds worn graphs one after another, so that the follower goes on following. Knows no tenant and no file."""

from __future__ import annotations

import threading

import structlog

from store.examples.tenant_index import TenantIndex

log = structlog.get_logger(__name__)


class Rebuilder:
    """Its thread lives only while there is something to rebuild."""

    def __init__(self) -> None:
        self._waiting: list[TenantIndex] = []
        self._state = threading.Condition()
        self._thread: threading.Thread | None = None
        self._stopping = False
        self.rebuilt = 0
        """Graphs rebuilt so far."""

    def ask(self, index: TenantIndex) -> None:
        """Have a graph rebuilt soon; asking again while it waits or is at work changes nothing."""
        with self._state:
            if self._stopping or index in self._waiting:
                return
            self._waiting.append(index)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="index-rebuilder", daemon=True)
                self._thread.start()

    def wait_idle(self, timeout_s: float) -> bool:
        """Wait until nothing is left to rebuild. False if that took longer than `timeout_s` seconds."""
        with self._state:
            return self._state.wait_for(lambda: not self._waiting, timeout_s)

    def stop(self, timeout_s: float = 30.0) -> bool:
        """Give up what is at work, leaving the old graphs as they are. False if that took longer than `timeout_s`."""
        with self._state:
            self._stopping = True
            thread = self._thread
        if thread is None:
            return True
        thread.join(timeout_s)
        return not thread.is_alive()

    def _run(self) -> None:
        while True:
            with self._state:
                if not self._waiting or self._stopping:
                    self._waiting.clear()
                    self._thread = None
                    self._state.notify_all()
                    return
                index = self._waiting[0]
            try:
                if index.rebuild(lambda: self._stopping):
                    self.rebuilt += 1
            except Exception as error:
                log.error("index_rebuild_failed", error=error)
            with self._state:
                self._waiting.remove(index)
