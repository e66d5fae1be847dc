"""Questions that share another question's remembered answer, each hanging on its own example.

Which pairs may, is decided elsewhere (learning.reuse.near_misses). An alias goes with its example, with its entry, and
with any change of the example's texts.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Sequence
from concurrent.futures import Future

from store.sqlite.database import Database


class SemanticAliases:
    """Reads and writes them. Every call names a tenant."""

    def __init__(self, db: Database) -> None:
        self._db = db

    def add(
        self, tenant: str, request_id: str, question: str, same_otherwise: bytes, entry_id: int
    ) -> Future[bool]:
        """Have the question of a request that has become an example share an entry; False where either is gone.

        An entry of its own, if the example has one, gives way: two answers to one question would be two chances to be
        wrong. Raises StoreBusy.
        """

        def insert(connection: sqlite3.Connection) -> bool:
            row = connection.execute(
                "SELECT e.id FROM examples e, semantic_entries s WHERE e.tenant = ?1 AND e.request_id = ?2"
                " AND e.question = ?3 AND s.id = ?4 AND s.tenant = ?1 AND s.same_otherwise = ?5 AND s.example_id <> e.id",
                (tenant, request_id, question, entry_id, same_otherwise),
            ).fetchone()
            if row is None:
                return False
            connection.execute(
                "DELETE FROM semantic_entries WHERE example_id = ? AND same_otherwise = ?",
                (row[0], same_otherwise),
            )
            connection.execute(
                "INSERT OR REPLACE INTO semantic_aliases (example_id, same_otherwise, tenant, entry_id, at_s)"
                " VALUES (?, ?, ?, ?, ?)",
                (row[0], same_otherwise, tenant, entry_id, time.time()),
            )
            return True

        return self._db.write(insert)

    def of(
        self, tenant: str, same_otherwise: bytes, example_ids: Sequence[int]
    ) -> dict[int, tuple[int, str]]:
        """The tenant's aliases on these examples: id to (id of the example that holds the entry, the alias's question)."""
        found: dict[int, tuple[int, str]] = {}
        connection = self._db.read()
        for example_id in dict.fromkeys(example_ids):
            row = connection.execute(
                "SELECT s.example_id, e.question FROM semantic_aliases a JOIN semantic_entries s ON s.id = a.entry_id"
                " JOIN examples e ON e.id = a.example_id"
                " WHERE a.example_id = ? AND a.same_otherwise = ? AND a.tenant = ? AND s.tenant = a.tenant",
                (example_id, same_otherwise, tenant),
            ).fetchone()
            if row is not None:
                found[example_id] = (row[0], row[1])
        return found

    def count(self, tenant: str) -> int:
        """How many there are of a tenant."""
        row = (
            self._db.read()
            .execute("SELECT count(*) FROM semantic_aliases WHERE tenant = ?", (tenant,))
            .fetchone()
        )
        return int(row[0])
