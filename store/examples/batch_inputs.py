"""The requests of a batch, kept on disk until their answers are read from another file."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from typing import Any

import orjson


class BatchInputs:
    """Request bodies by `custom_id`; a later one takes an earlier one's place."""

    def __init__(self) -> None:
        # A database without a name lies in a temporary file that SQLite deletes: memory stays bounded.
        self._db = sqlite3.connect("", isolation_level=None)
        self._db.execute("PRAGMA journal_mode = OFF")
        self._db.execute("CREATE TABLE inputs (custom_id TEXT PRIMARY KEY, body BLOB) WITHOUT ROWID")

    def put(self, custom_id: str, body: Mapping[str, Any]) -> None:
        """Keep a request."""
        self._db.execute("INSERT OR REPLACE INTO inputs VALUES (?, ?)", (custom_id, orjson.dumps(body)))

    def get(self, custom_id: str) -> dict[str, Any] | None:
        """The request with this id."""
        row = self._db.execute("SELECT body FROM inputs WHERE custom_id = ?", (custom_id,)).fetchone()
        return None if row is None else dict(orjson.loads(row[0]))

    def close(self) -> None:
        """Let them go."""
        self._db.close()
