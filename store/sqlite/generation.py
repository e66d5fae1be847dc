"""Named counters in the database, by which processes notice that what they hold in memory has changed."""

from __future__ import annotations

import sqlite3
import threading
import time

from store.sqlite.database import Database

CHECK_EVERY_S = 1.0


class Generation:
    """Tells, at most once per second and almost for free, whether a counter has moved since the last time."""

    def __init__(self, db: Database, name: str, check_every_s: float = CHECK_EVERY_S) -> None:
        self._db = db
        self._name = name
        self._check_every_s = check_every_s
        self._lock = threading.Lock()
        self._next_check_s = 0.0
        self._data_version: int | None = None
        self._value: int | None = None

    def bump(self, connection: sqlite3.Connection) -> None:
        """Move the counter, inside a write job."""
        connection.execute("UPDATE generations SET value = value + 1 WHERE name = ?", (self._name,))

    def changed(self) -> bool:
        """Whether the counter moved since this was last asked; False without looking within the check interval.

        Most of the time this is one clock reading; once per interval a pragma; a SELECT only if anyone has committed.
        """
        now_s = time.monotonic()
        if now_s < self._next_check_s:
            return False
        with self._lock:
            self._next_check_s = now_s + self._check_every_s
            data_version = self._db.data_version()
            if data_version == self._data_version:
                return False
            row: tuple[int] = (
                self._db.read()
                .execute("SELECT value FROM generations WHERE name = ?", (self._name,))
                .fetchone()
            )
            # The version was read before the value: a commit between the two is seen again next time, never missed.
            self._data_version = data_version
            before, self._value = self._value, row[0]
            return before is not None and before != row[0]
