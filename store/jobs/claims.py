"""Claims on texts that wait to be embedded: several processes take different ones, and none waits for another.

They are leases of store.jobs.leases without an epoch, a page of them taken in one statement: an embedding that is written
twice is the same.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Literal

from store.database import Connection, Database

Kind = Literal["question", "answer"]
_CLAIM_S = 60.0
"""Far longer than a page of texts takes; then another process may take what is left of it."""
_WRITE_S = 30.0
_HOLDER = "embedder"
_LEFT_S = 3600.0
"""So long after its end a claim goes that a dead process has left."""


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
            taken = connection.execute(_TAKE, (_names(kind, [id for (id,) in free]), for_s)).fetchall()
            return {int(name.rpartition(" ")[2]) for (name,) in taken}

        return self._db.write(write).result(_WRITE_S)

    def let_go(self, kind: Kind, ids: Sequence[int]) -> None:
        """Of what this process claimed: it is done, or left to others."""

        def write(connection: Connection) -> None:
            connection.execute(_LET_GO, (_names(kind, sorted(ids)),))
            connection.execute(_LEFT, (_HOLDER, _LEFT_S))

        self._db.write(write).result(_WRITE_S)


def _names(kind: Kind, ids: Sequence[int]) -> str:
    return json.dumps([f"{kind} {id}" for id in ids])


_FREE = "SELECT id FROM examples WHERE id IN (SELECT CAST(value AS INTEGER) FROM json_each(?)) ORDER BY id"
_TAKE = (
    f"INSERT INTO leases (name, holder, epoch, until_s) SELECT value, '{_HOLDER}', 1, now_s() + ?2"  # noqa: S608
    " FROM json_each(?1) WHERE TRUE ON CONFLICT (name) DO UPDATE SET until_s = excluded.until_s"
    " WHERE leases.until_s <= now_s() RETURNING name"
)
_LET_GO = "DELETE FROM leases WHERE name IN (SELECT value FROM json_each(?))"
_LEFT = "DELETE FROM leases WHERE holder = ? AND until_s < now_s() - ?"
