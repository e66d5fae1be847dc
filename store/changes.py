"""The thread of a process that follows the store: what others commit is looked for every so often, and at once when told.

Requests only read what was found. A log is followed by the place of the last row that was seen, other things by their
counter (store.generation).
"""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable

import structlog

from store.errors import StoreClosed

log = structlog.get_logger(__name__)

LOOK_EVERY_S = 0.25
_LOOK_AGAIN_S = 0.005


class Follower(ABC):
    """Looks on the thread to which it was added, until `stop`. One that fails is logged, and the next is due as ever."""

    def __init__(self, name: str, look_every_s: float = LOOK_EVERY_S) -> None:
        """`name`: in the log."""
        self._name = name
        self._look_every_s = look_every_s
        self._stopping = threading.Event()
        self._news = threading.Event()
        self._due_s = 0.0
        self._thread: Followers | None = None
        self.last_error: Exception | None = None
        """Why the latest look failed; None once one has succeeded again."""

    @abstractmethod
    def look(self) -> bool | None:
        """Read what is new; True: there is more. Blocks: for this thread, or for who has none.

        Others wait for it: what takes long is done in parts, one in each look.
        """

    def start(self) -> None:
        """Look on a thread of its own. For what may wait long for others, and for tests and tools."""
        Followers(self._name).add(self)

    def stop(self, timeout_s: float | None = None) -> bool:
        """Look no more; False where a look still goes on after `timeout_s` seconds. What was read stays known."""
        self._stopping.set()
        return self._thread is None or self._thread.remove(self, timeout_s)

    def notify(self) -> None:
        """Say that there is news. Costs next to nothing; may be called from any thread."""
        self._news.set()
        if self._thread is not None:
            self._thread.woken.set()

    def _waited(self, reached: Callable[[], bool], timeout_s: float) -> bool:
        """Has it look again and again until `reached`, and returns whether that came to be. For tests and tools."""
        end = time.monotonic() + timeout_s
        while not (there := reached()) and time.monotonic() < end:
            self.notify()
            time.sleep(_LOOK_AGAIN_S)
        return there

    def _look_once(self) -> None:
        self._news.clear()
        more: bool | None = False
        try:
            more = self.look()
        except StoreClosed:
            pass
        except Exception as error:
            if self.last_error is None:
                log.error("follower_failed", follower=self._name, error=error)
            self.last_error = error
        else:
            self.last_error = None
        self._due_s = 0.0 if more else time.monotonic() + self._look_every_s


class Followers:
    """Followers on one thread, each at its own pace. The thread lives while there are any."""

    def __init__(self, name: str = "changes") -> None:
        """`name`: of the thread."""
        self._name = name
        self._followers: list[Follower] = []
        self._state = threading.Condition()
        self._looking: Follower | None = None
        self._runs = False
        self.woken = threading.Event()
        """Set where a follower is to look before it is due."""

    def add(self, follower: Follower) -> None:
        """Have this one look, too, from now on until it is stopped."""
        with self._state:
            follower._thread = self
            self._followers.append(follower)
            if not self._runs:
                self._runs = True
                threading.Thread(target=self._run, name=self._name, daemon=True).start()
        self.woken.set()

    def remove(self, follower: Follower, timeout_s: float | None = None) -> bool:
        """Have it look no more; False where it still looks after `timeout_s` seconds."""
        with self._state:
            if follower in self._followers:
                self._followers.remove(follower)
            self.woken.set()
            return self._state.wait_for(lambda: self._looking is not follower, timeout_s)

    def _run(self) -> None:
        while True:
            self.woken.clear()
            with self._state:
                followers = list(self._followers)
                if not followers:
                    self._runs = False
                    return
            for follower in followers:
                if follower._news.is_set() or follower._due_s <= time.monotonic():
                    self._look(follower)
            next_s = min(follower._due_s for follower in followers)
            self.woken.wait(max(0.0, next_s - time.monotonic()))

    def _look(self, follower: Follower) -> None:
        with self._state:
            if follower not in self._followers:
                return
            self._looking = follower
        try:
            follower._look_once()
        finally:
            with self._state:
                self._looking = None
                self._state.notify_all()
