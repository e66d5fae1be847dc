"""A thread that looks for news every so often, and at once when it is woken; requests only read what it found."""

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
            try:
                self.look()
            except Exception as error:
                log.error("follower_failed", follower=self._name, error=error)
            self._woken.wait(self._look_every_s)
            self._woken.clear()
