"""A thread that lives only while there is work."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from typing import Generic, TypeVar

K = TypeVar("K")


class BusyThread(ABC, Generic[K]):
    """Does what was asked for, one after another."""

    name: str

    def __init__(self) -> None:
        self._waiting: dict[K, None] = {}
        self._state = threading.Lock()
        self._thread: threading.Thread | None = None
        self._stopping = False

    def ask(self, what: K) -> None:
        """Have it done soon. Asking again while it waits changes nothing."""
        with self._state:
            if self._stopping:
                return
            self._waiting[what] = None
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name=self.name, daemon=True)
                self._thread.start()

    def stop(self, timeout_s: float = 30.0) -> bool:
        """End what waits, and take nothing more. False if that took longer than `timeout_s` seconds."""
        with self._state:
            self._stopping = True
            thread = self._thread
        if thread is None:
            return True
        thread.join(timeout_s)
        return not thread.is_alive()

    @abstractmethod
    def _do(self, what: K) -> None:
        """Do one; never raises."""

    def _all_done(self) -> None:
        """Nothing waits any more."""

    def _run(self) -> None:
        while True:
            with self._state:
                if not self._waiting:
                    self._thread = None
                    break
                what = next(iter(self._waiting))
                del self._waiting[what]
            self._do(what)
        self._all_done()
