"""What other processes have committed: by LISTEN at once, and by looking every half second, as notices get lost."""

from __future__ import annotations

import select
import socket
import threading
import time
from collections.abc import Callable
from typing import Any

import psycopg
import structlog

from store.changes import Follower
from store.postgres.connecting import Place, Pool
from store.postgres.errors import in_words

log = structlog.get_logger(__name__)

LOOK_EVERY_S = 0.5
_AGAIN_S = 0.5
_PROVE_EVERY_S = 5.0
"""So often the listener asks its server for an answer: a dead connection says nothing, as does one without news."""
_ANSWER_WITHIN_S = 5.0
_OWN = 1 << 20
"""What is added to a counter for each time that this process moved it: a look that began before may tell the old value."""
_ANEW = 1 << 50
"""What is added to every counter for each time that commits were lost: what was read before differs then for sure."""
_LOOK = (
    "SELECT name, value FROM generations UNION ALL SELECT '', last_seq FROM example_sequence"
    " UNION ALL SELECT 'timeline', 0 WHERE pg_is_in_recovery()"
)


class News(Follower):
    """Reads the counters, and is woken by a thread that listens on a connection of its own, past any pooler.

    They are two threads because a connection may be dead without anybody knowing: the counters are read through the pool.
    """

    def __init__(self, connect: Callable[[], psycopg.Connection[Any]], pool: Pool, channel: str) -> None:
        """`connect` gives connections to listen on. Raises StoreFailed."""
        super().__init__("news", LOOK_EVERY_S)
        self._connect = connect
        self._pool = pool
        self._channel = channel
        self._counters: dict[str, int] = {}
        self._version = 0
        self._own: dict[str, int] = {}
        """How often this process moved each counter."""
        self._looked_s = 0.0
        self._last_seq = 0
        """The last place in the log of examples that this process knows of; 0 after commits were lost."""
        self._server: Place | None = None
        self._lost = 0
        """How often commits that had been seen were found to be gone."""
        self._told: list[Callable[[], None]] = []
        self._told_anew: list[Callable[[], None]] = []
        self._lock = threading.Lock()
        self.listening = False
        self.look()
        # A socket that closes wakes who waits for news, as nothing else does.
        self._ended, self._end = socket.socketpair()
        self._listener = threading.Thread(target=self._listen, name="store-listener", daemon=True)
        self._listener.start()
        self.start()

    @property
    def version(self) -> int:
        """Another one whenever anybody may have committed."""
        return self._version

    @property
    def server(self) -> Place | None:
        """Where the last connection for writing went."""
        return self._server

    def age_s(self) -> float:
        """How long ago the counters were read last."""
        return time.monotonic() - self._looked_s

    def counter(self, name: str) -> int:
        """Only that it differs from before matters. What this process moved differs at once, before it is read again."""
        return self._counters.get(name, 0) + self._own.get(name, 0) * _OWN + self._lost * _ANEW

    def on_news(self, told: Callable[[], None]) -> None:
        """Call `told`, on a thread of this object, whenever others may have committed what matters to it."""
        self._told.append(told)

    def on_lost(self, told: Callable[[], None]) -> None:
        """Call `told` when commits that were seen are gone: what was derived from them is to be read anew."""
        self._told_anew.append(told)

    def followed(self, seq: int) -> None:
        """The log of examples was read up to this place, maybe before the counters: a shorter one has lost some."""
        with self._lock:
            self._last_seq = max(self._last_seq, seq)

    def committed(self, names: frozenset[str]) -> None:
        """This process has committed; `names`: the counters that moved."""
        with self._lock:
            self._version += 1
            for name in names:
                self._own[name] = self._own.get(name, 0) + 1
        if names:
            self.notify()

    def connected(self, server: Place) -> None:
        """This process writes to that server from now on. After a failover or a restore all is read anew."""
        before, self._server = self._server, server
        if before is not None and before != server:
            self._read_anew("another server, or another timeline of it")

    def stop(self, timeout_s: float | None = 5.0) -> bool:
        """End both threads."""
        ended = super().stop(timeout_s)
        self._end.close()
        self._listener.join(timeout_s)
        self._ended.close()
        return ended

    def _read_anew(self, why: str) -> None:
        log.warning("store_read_anew", reason=why)
        with self._lock:
            self._lost += 1
            self._version += 1
            self._last_seq = 0
        for told in self._told_anew:
            told()
        self.notify()

    def look(self) -> None:
        """Read the counters. Raises StoreError."""
        # Only what was known before the database was asked must be in its answer.
        known_seq = self._last_seq
        found: dict[str, int] = dict(self._pool.execute(_LOOK).fetchall())
        if "timeline" in found:
            # A standby knows less than was seen already.
            return
        last_seq = found.pop("", 0)
        with self._lock:
            went_back = last_seq < min(known_seq, self._last_seq)
            self._last_seq = max(self._last_seq, last_seq)
            self._counters = found
            self._version += 1
            self._looked_s = time.monotonic()
        if went_back:
            self._read_anew("the log of examples is shorter than it was")
        for told in self._told:
            told()

    def _listen(self) -> None:
        while not self._stopping.is_set():
            try:
                with self._connect() as connection:
                    connection.execute(f"LISTEN {self._channel}")
                    self.listening = True
                    # What was committed before is not announced.
                    self.notify()
                    self._hear(connection)
            except (psycopg.Error, OSError) as error:
                log.warning("store_listener_lost", reason=in_words(error))
            self.listening = False
            self._stopping.wait(_AGAIN_S)

    def _hear(self, connection: psycopg.Connection[Any]) -> None:
        prove_at_s = time.monotonic() + _PROVE_EVERY_S
        heard = select.poll()
        heard.register(connection.fileno(), select.POLLIN)
        heard.register(self._ended.fileno(), select.POLLIN)
        while not self._stopping.is_set():
            heard.poll(LOOK_EVERY_S * 1000)
            for _ in connection.notifies(timeout=0):
                self.notify()
            if time.monotonic() >= prove_at_s:
                connection.execute("SELECT 1")
                prove_at_s = time.monotonic() + _PROVE_EVERY_S
