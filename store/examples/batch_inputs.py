"""Stores the requests of a batch on disk until their answers are read from another file."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from typing import Any

import orjson


class BatchInputs:
    """Request bodies by `custom_id`; a later one replaces an earlier one."""

    def __init__(self) -> None:
        # SQLite keeps a database without a name in a temporary file that it deletes: memory stays bounded.
        self._db = sqlite3.connect("", isolation_level=None)
        self._db.execute("PRAGMA journal_mode = OFF")
        self._db.execute("CREATE TABLE inputs (custom_id TEXT PRIMARY KEY, body BLOB) WITHOUT ROWID")

    def put(self, custom_id: str, body: Mapping[str, Any]) -> None:
        """Stores a request."""
        self._db.execute("INSERT OR REPLACE INTO inputs VALUES (?, ?)", (custom_id, orjson.dumps(body)))

    def get(self, custom_id: str) -> dict[str, Any] | None:
        """The request with this id, or None."""
        row = self._db.execute("SELECT body FROM inputs WHERE custom_id = ?", (custom_id,)).fetchone()
        return None if row is None else dict(orjson.loads(row[0]))

    def close(self) -> None:
        """Deletes the stored requests."""
        self._db.close()
