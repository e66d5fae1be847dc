"""What other processes have committed: by LISTEN at once, and by looking every half second, as notices get lost."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import psycopg
import structlog

from store.errors import StoreError
from store.postgres.connecting import Pool
from store.postgres.errors import in_words

log = structlog.get_logger(__name__)

LOOK_EVERY_S = 0.5
_AGAIN_S = 0.5


class News:
    """Two threads: one listens on a connection of its own, past any pooler; one reads the counters.

    They are two because a connection may be dead without anybody knowing: the counters are read through the pool.
    """

    def __init__(self, connect: Callable[[], psycopg.Connection[Any]], pool: Pool, channel: str) -> None:
        self._connect = connect
        self._pool = pool
        self._channel = channel
        self._counters: dict[str, int] = {}
        self._version = 0
        self._looked_s = 0.0
        self._told: list[Callable[[], None]] = []
        self._wake = threading.Event()
        self._stopping = threading.Event()
        self._lock = threading.Lock()
        self._look()
        self._threads = [
            threading.Thread(target=self._listen, name="store-listener", daemon=True),
            threading.Thread(target=self._follow, name="store-news", daemon=True),
        ]
        for thread in self._threads:
            thread.start()

    @property
    def version(self) -> int:
        """Another one whenever anybody may have committed."""
        return self._version

    def age_s(self) -> float:
        """How long ago the counters were read last."""
        return time.monotonic() - self._looked_s

    def counter(self, name: str) -> int:
        """As read last; 0 for one that there is not."""
        return self._counters.get(name, 0)

    def on_news(self, told: Callable[[], None]) -> None:
        """Call `told`, on a thread of this object, whenever others may have committed what matters to it."""
        self._told.append(told)

    def committed(self, names: frozenset[str]) -> None:
        """This process has committed; `names`: the counters that moved."""
        with self._lock:
            self._version += 1
            for name in names:
                # Only that it differs from before matters; what it is now is read with the next look.
                self._counters[name] = self._counters.get(name, 0) + 1
        if names:
            self._wake.set()

    def stop(self) -> None:
        """End both threads."""
        self._stopping.set()
        self._wake.set()
        for thread in self._threads:
            thread.join(5.0)

    def _follow(self) -> None:
        while not self._stopping.is_set():
            self._wake.wait(LOOK_EVERY_S)
            self._wake.clear()
            if self._stopping.is_set():
                return
            try:
                self._look()
            except StoreError as error:
                log.warning("store_news_failed", reason=str(error))
                self._stopping.wait(_AGAIN_S)

    def _look(self) -> None:
        rows = self._pool.execute("SELECT name, value FROM generations").fetchall()
        with self._lock:
            self._counters = dict(rows)
            self._version += 1
            self._looked_s = time.monotonic()
        for told in self._told:
            told()

    def _listen(self) -> None:
        while not self._stopping.is_set():
            try:
                with self._connect() as connection:
                    connection.execute(f"LISTEN {self._channel}")
                    # What was committed before is not announced.
                    self._wake.set()
                    while not self._stopping.is_set():
                        for _ in connection.notifies(timeout=LOOK_EVERY_S):
                            self._wake.set()
                            if self._stopping.is_set():
                                break
            except (psycopg.Error, OSError) as error:
                log.warning("store_listener_lost", reason=in_words(error))
                self._stopping.wait(_AGAIN_S)
