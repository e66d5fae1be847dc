"""Named counters in the database, by which processes notice that what they hold in memory has changed."""

from __future__ import annotations

import threading
import time

from store.database import Connection, Database

CHECK_EVERY_S = 1.0


def bump(connection: Connection, name: str) -> None:
    """Move a counter, inside a write job of whoever has no `Database` at hand."""
    bumped: set[str] | None = getattr(connection, "bumped", None)
    if bumped is None:
        connection.execute("UPDATE generations SET value = value + 1 WHERE name = ?", (name,))
    else:
        # PostgreSQL's writer moves all counters of a batch at its end, so that their rows are not locked for long.
        bumped.add(name)


def tell(connection: Connection) -> None:
    """Have others hear of this job's commit at once, where they do not see it by themselves."""
    if hasattr(connection, "telling"):
        connection.telling = True


class Generation:
    """One counter. Whoever holds something in memory keeps the value it was read at, and reads again when that differs."""

    def __init__(self, db: Database, name: str, check_every_s: float = CHECK_EVERY_S) -> None:
        self._db = db
        self._name = name
        self._check_every_s = check_every_s
        self._lock = threading.Lock()
        self._next_check_s = 0.0
        self._data_version: bytes | int | None = None
        self._value = 0

    def bump(self, connection: Connection) -> None:
        """Move the counter, inside a write job."""
        self._db.bump(connection, self._name)

    def look_again(self) -> None:
        """Have the next `value` look, whenever the last look was."""
        self._next_check_s = 0.0

    def value(self) -> int:
        """The counter, at most `check_every_s` seconds old; 0: as it is now. Raises what reading raises.

        Most of the time this is one clock reading; once per interval a look; the counter only if anyone has committed.
        To be asked before what it stands for is read: a commit between the two is then seen again, never missed.
        """
        now_s = time.monotonic()
        if now_s < self._next_check_s:
            return self._value
        with self._lock:
            self._next_check_s = now_s + self._check_every_s
            data_version = self._db.data_version()
            if data_version != self._data_version:
                value = self._db.counter(self._name)
                # The version was read before the value, for the same reason.
                self._data_version, self._value = data_version, value
        return self._value
