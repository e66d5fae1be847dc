"""Looks for news every so often, and at once when it is woken; requests only read what it found.

A worker has one thread for all of them: `Pollers`.
"""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable

import structlog

log = structlog.get_logger(__name__)

LOOK_EVERY_S = 0.25
_LOOK_AGAIN_S = 0.005


class Poller(ABC):
    """Looks on its own thread between `start` and `stop`; a look that fails is logged, and the next one is due as ever."""

    def __init__(self, name: str, look_every_s: float = LOOK_EVERY_S) -> None:
        """`name`: of the thread, and in the log."""
        self._name = name
        self._look_every_s = look_every_s
        self._stopping = threading.Event()
        self._woken = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    @abstractmethod
    def look(self) -> None:
        """Reads what is new. Blocks: for this thread, or for who has none."""

    def start(self) -> None:
        """Starts the thread."""
        self._thread.start()

    def stop(self) -> None:
        """Ends the thread, if there is one. What was read stays known."""
        self._stopping.set()
        self._woken.set()
        if self._thread.is_alive():
            self._thread.join()

    def _waited(self, reached: Callable[[], bool], timeout_s: float) -> bool:
        """Has it look again and again until `reached`, and returns whether that came to be. For tests and tools."""
        end = time.monotonic() + timeout_s
        while not (there := reached()) and time.monotonic() < end:
            self._woken.set()
            time.sleep(_LOOK_AGAIN_S)
        return there

    def _run(self) -> None:
        while not self._stopping.is_set():
            self._look_once()
            self._woken.wait(self._look_every_s)
            self._woken.clear()

    def _look_once(self) -> None:
        try:
            self.look()
        except Exception as error:
            log.error("follower_failed", follower=self._name, error=error)


class Pollers:
    """Several pollers on one thread, each at its own pace; all look once one of them is woken.

    Owns them from `add` on: they are not started by themselves, and stop with it.
    """

    def __init__(self, name: str = "followers") -> None:
        """`name`: of the thread."""
        self._pollers: list[Poller] = []
        self._stopping = threading.Event()
        self._woken = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def add(self, poller: Poller) -> None:
        """Look for this one, too. Before `start`."""
        poller._woken = self._woken
        self._pollers.append(poller)

    def start(self) -> None:
        """Start the thread, unless there is nothing to look for."""
        if self._pollers:
            self._thread.start()

    def stop(self) -> None:
        """End the thread, and stop the pollers, the last one first."""
        for poller in self._pollers:
            poller._stopping.set()
        self._stopping.set()
        self._woken.set()
        if self._thread.is_alive():
            self._thread.join()
        for poller in reversed(self._pollers):
            poller.stop()

    def _run(self) -> None:
        due_s = dict.fromkeys(self._pollers, 0.0)
        while not self._stopping.is_set():
            woken = self._woken.is_set()
            self._woken.clear()
            for poller in self._pollers:
                if woken or due_s[poller] <= time.monotonic():
                    poller._look_once()
                    due_s[poller] = time.monotonic() + poller._look_every_s
            self._woken.wait(max(0.0, min(due_s.values()) - time.monotonic()))
