"""Claims on texts that wait to be embedded: several processes take different ones, and none waits for another."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Literal

from store.database import Connection, Database

Kind = Literal["question", "answer"]
_CLAIM_S = 60.0
"""Far longer than a page of texts takes; then another process may take what is left of it."""
_WRITE_S = 30.0


class EmbeddingClaims:
    """Each method blocks for a commit."""

    def __init__(self, db: Database) -> None:
        self._db = db
        self.several = bool(db.locking("skip"))
        """Whether several processes are to embed at the same time: they may be on several machines."""

    def take(self, kind: Kind, ids: Sequence[int], for_s: float = _CLAIM_S) -> set[int]:
        """Claim those of these examples that nobody else has claimed, nor is claiming; gives their ids."""

        def write(connection: Connection) -> set[int]:
            free = connection.execute(_FREE + self._db.locking("skip"), (json.dumps(list(ids)),)).fetchall()
            found = (json.dumps([id for (id,) in free]), kind, for_s)
            return {id for (id,) in connection.execute(_TAKE, found).fetchall()}

        return self._db.write(write).result(_WRITE_S)

    def let_go(self, kind: Kind, ids: Sequence[int]) -> None:
        """Of what this process claimed: it is done, or left to others."""

        def write(connection: Connection) -> None:
            connection.execute(_LET_GO, (kind, json.dumps(sorted(ids))))

        self._db.write(write).result(_WRITE_S)


_FREE = "SELECT id FROM examples WHERE id IN (SELECT CAST(value AS INTEGER) FROM json_each(?)) ORDER BY id"
_TAKE = (
    "INSERT INTO embedding_claims (example_id, kind, until_s)"
    " SELECT CAST(value AS INTEGER), ?2, now_s() + ?3 FROM json_each(?1) WHERE TRUE"
    " ON CONFLICT (example_id, kind) DO UPDATE SET until_s = excluded.until_s"
    " WHERE embedding_claims.until_s <= now_s() RETURNING example_id"
)
_LET_GO = "DELETE FROM embedding_claims WHERE kind = ? AND example_id IN (SELECT CAST(value AS INTEGER) FROM json_each(?))"
