"""Whole files that every replica can read: as rows of the database. Knows nothing of what is in them.

Who names a blob keeps its checksum: what `get` gives may be cut short, where its writer was killed.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Protocol

from store.database import Connection, Database
from store.inserting import replacing

PART_BYTES = 2**20
_SAVED = replacing("blobs", "name, part, bytes, at_s", key="name, part")


class Blobs(Protocol):
    """Where such files lie. Every method blocks; safe to use from any thread. Errors are StoreError, or OSError."""

    def put(self, name: str, data: bytes | bytearray) -> None:
        """Keep `data` under a name, in the place of what was there. It is kept when this returns."""
        ...

    def get(self, name: str) -> bytes | None:
        """What is kept under a name; None for nothing."""
        ...

    def remove(self, names: Iterable[str]) -> None:
        """Keep nothing under these names; those that are not there are passed over."""
        ...

    def names(self, prefix: str) -> dict[str, float]:
        """The names that begin so, and when each was written (Unix seconds)."""
        ...


class RowBlobs:
    """In the table `blobs`, each piece a transaction: nobody else's write waits for a large file."""

    def __init__(self, db: Database, *, timeout_s: float = 60.0) -> None:
        self._db = db
        self._timeout_s = timeout_s

    def put(self, name: str, data: bytes | bytearray) -> None:
        """See `Blobs.put`. Raises what writing raises, TimeoutError among it."""
        last = max(0, len(data) - 1) // PART_BYTES
        at_s = time.time()
        for part in range(last + 1):
            piece = bytes(memoryview(data)[part * PART_BYTES : (part + 1) * PART_BYTES])

            def save(connection: Connection, part: int = part, piece: bytes = piece) -> None:
                connection.execute(_SAVED.sql, (name, part, piece, at_s))
                if part == last:
                    connection.execute("DELETE FROM blobs WHERE name = ? AND part > ?", (name, last))

            self._db.write(save).result(self._timeout_s)

    def get(self, name: str) -> bytes | None:
        """See `Blobs.get`: one round trip for each MiB. Raises what reading raises."""
        pieces: list[bytes] = []
        while not pieces or len(pieces[-1]) == PART_BYTES:
            row = (
                self._db.read()
                .execute("SELECT bytes FROM blobs WHERE name = ? AND part = ?", (name, len(pieces)))
                .fetchone()
            )
            if row is None:
                break
            pieces.append(bytes(row[0]))
        return b"".join(pieces) if pieces else None

    def remove(self, names: Iterable[str]) -> None:
        """See `Blobs.remove`. Raises what writing raises, TimeoutError among it."""
        gone = [(name,) for name in sorted(names)]

        def delete(connection: Connection) -> None:
            connection.executemany("DELETE FROM blobs WHERE name = ?", gone)

        if gone:
            self._db.write(delete).result(self._timeout_s)

    def names(self, prefix: str) -> dict[str, float]:
        """See `Blobs.names`. Raises what reading raises."""
        rows = self._db.read().execute(
            "SELECT name, max(at_s) FROM blobs WHERE name >= ? AND name < ? GROUP BY name",
            (prefix, f"{prefix}\U0010ffff"),
        )
        return dict(rows.fetchall())
