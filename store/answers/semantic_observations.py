"""Comparisons of kept answers with fresh ones, and the counts that follow from them, per tenant.

Bounded: an entry keeps its latest comparisons, everything older lives on in counts. Knows rows: what a count proves, and
whether an answer may be reused, is decided elsewhere. An embedding version is part of every key, because a similarity
means nothing under another one.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass

from store.database import Connection, Database
from store.inserting import adding

Counts = Mapping[tuple[str, int], int]
"""(kind, slot) to how many."""


@dataclass(frozen=True, slots=True)
class ComparedRow:
    """One comparison of an entry's answer."""

    id: int
    at_s: float
    similarity: float
    is_right: bool


@dataclass(frozen=True, slots=True)
class SemanticScope:
    """Whose counts: nothing is shared between two scopes that differ in any field."""

    tenant: str
    embedding_version: str
    policy: str
    """Names the settings the counts were made under, the error rate among them."""


class SemanticObservations:
    """Keeps comparisons and adds up counts. Every call names a tenant."""

    def __init__(self, db: Database, *, per_entry: int = 16) -> None:
        """`per_entry` comparisons are kept of each entry, the latest. Raises ValueError if it is not positive."""
        if per_entry < 1:
            raise ValueError(f"per_entry is {per_entry}; at least 1 comparison must be kept")
        self._db = db
        self._per_entry = per_entry

    def add(
        self,
        scope: SemanticScope,
        phase: int,
        entry_id: int,
        similarity: float,
        is_right: bool,
        counts: Counts,
    ) -> Future[None]:
        """Keep a comparison and add `counts` to the phase's, together or not at all.

        The caller must name the entry's tenant as the scope's. Raises ValueError for a similarity that is not
        finite, and StoreBusy.
        """
        if not math.isfinite(similarity):
            raise ValueError(f"similarity is {similarity}; it must be finite")
        at_s = time.time()
        key = (scope.tenant, scope.embedding_version, entry_id)

        def write(connection: Connection) -> None:
            connection.execute(
                "INSERT INTO semantic_observations (tenant, embedding_version, entry_id, at_s, similarity, is_right)"
                " VALUES (?, ?, ?, ?, ?, ?)",
                (*key, at_s, similarity, int(is_right)),
            )
            connection.execute(
                "DELETE FROM semantic_observations WHERE id IN (SELECT id FROM semantic_observations"
                " WHERE tenant = ? AND embedding_version = ? AND entry_id = ? ORDER BY id DESC LIMIT 1000000000 OFFSET ?)",
                (*key, self._per_entry),
            )
            _add_counts(connection, scope, phase, counts)

        return self._db.write(write)

    def add_counts(self, scope: SemanticScope, phase: int, counts: Counts) -> Future[None]:
        """Add to the phase's counts alone, for what has no comparison: an answer given out. Raises StoreBusy."""
        return self._db.write(lambda connection: _add_counts(connection, scope, phase, counts))

    def of_entries(
        self, tenant: str, embedding_version: str, entry_ids: Sequence[int]
    ) -> dict[int, tuple[ComparedRow, ...]]:
        """The comparisons kept of these entries, oldest first; entries without any, and others' entries, are absent."""
        found: dict[int, list[ComparedRow]] = {}
        for entry_id in dict.fromkeys(entry_ids):
            for id, at_s, similarity, is_right in (
                self._db.read()
                .execute(
                    "SELECT id, at_s, similarity, is_right FROM semantic_observations"
                    " WHERE tenant = ? AND embedding_version = ? AND entry_id = ? ORDER BY id",
                    (tenant, embedding_version, entry_id),
                )
                .fetchall()
            ):
                found.setdefault(entry_id, []).append(ComparedRow(id, at_s, similarity, bool(is_right)))
        return {entry_id: tuple(rows) for entry_id, rows in found.items()}

    def counts(self, scope: SemanticScope) -> dict[int, dict[tuple[str, int], int]]:
        """All counts of a scope by phase, as `learning.reuse.ledger.Ledger.restored` takes them."""
        rows = self._db.read().execute(
            "SELECT phase, kind, slot, total FROM semantic_counts WHERE tenant = ? AND embedding_version = ? AND policy = ?",
            (scope.tenant, scope.embedding_version, scope.policy),
        )
        found: dict[int, dict[tuple[str, int], int]] = {}
        for phase, kind, slot, total in rows.fetchall():
            found.setdefault(phase, {})[kind, slot] = total
        return found

    def forget_tenant(self, tenant: str) -> Future[int]:
        """Delete everything of a tenant; gives how many rows. Reuse then has to be earned from nothing."""

        def delete(connection: Connection) -> int:
            observations = connection.execute("DELETE FROM semantic_observations WHERE tenant = ?", (tenant,))
            counts = connection.execute("DELETE FROM semantic_counts WHERE tenant = ?", (tenant,))
            return observations.rowcount + counts.rowcount

        return self._db.write(delete)


_COUNTED = adding("semantic_counts", "tenant, embedding_version, policy, phase, kind, slot", "total")


def _add_counts(connection: Connection, scope: SemanticScope, phase: int, counts: Counts) -> None:
    connection.executemany(
        _COUNTED.sql,
        [
            (scope.tenant, scope.embedding_version, scope.policy, phase, kind, slot, count)
            for (kind, slot), count in counts.items()
        ],
    )
