"""How good answers turned out to be: a log that feedback, judges and labels append to and learners read, joined to choices.

The future of a write resolves after its commit, so whoever acknowledges an outcome then can be killed at any moment and
has lost nothing. What a power cut may take, and how not to let it: store/sqlite/power_cut.py.
"""

from __future__ import annotations

import json
import math
import sqlite3
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from typing import Any

from store.decisions.choices import rows_where
from store.records import ChoiceRecord, OutcomeRecord
from store.sqlite.database import Database


@dataclass(frozen=True, slots=True)
class Experience:
    """One choice, and everything that became known of how good answers to its request were."""

    row_id: int
    """Its place among the choices: where to go on reading."""
    choice: ChoiceRecord
    outcomes: tuple[OutcomeRecord, ...]
    """In the order in which they came; of the served answer, and of others asked for comparison."""


class Outcomes:
    """Appends and reads them. An outcome once noted never changes."""

    def __init__(self, db: Database) -> None:
        self._db = db

    def note(self, outcome: OutcomeRecord) -> Future[OutcomeRecord]:
        """Keep one; gives it with its id once committed. The same (tenant, request, key) again gives the first one back.

        Raises ValueError for a quality outside 0 to 1, a probability outside (0, 1], or a detail that is not a JSON
        object; StoreBusy when too much waits to be written.
        """
        check(outcome)
        return self._db.write(lambda connection: insert(connection, outcome))

    def note_many(self, outcomes: Sequence[OutcomeRecord]) -> Future[list[OutcomeRecord]]:
        """`note` for several in one transaction: all of them, or none and the future's exception."""
        for outcome in outcomes:
            check(outcome)
        return self._db.write(lambda connection: [insert(connection, outcome) for outcome in outcomes])

    def after(
        self, id: int, limit: int = 1000, *, tenant: str | None = None, model: str | None = None
    ) -> list[OutcomeRecord]:
        """The next outcomes in the log's order; of one tenant or served model if named."""
        rows = self._db.read().execute(
            _SELECT + " WHERE id > :id AND (:tenant IS NULL OR tenant = :tenant)"
            " AND (:model IS NULL OR model = :model) ORDER BY id LIMIT :limit",
            {"id": id, "tenant": tenant, "model": model, "limit": limit},
        )
        return [_as_record(row) for row in rows.fetchall()]

    def of(self, tenant: str, request_id: str) -> list[OutcomeRecord]:
        """Everything known of one request of the tenant's, in the order in which it came."""
        rows = self._db.read().execute(
            _SELECT + " WHERE tenant = ? AND request_id = ? ORDER BY id", (tenant, request_id)
        )
        return [_as_record(row) for row in rows.fetchall()]

    def experiences(
        self,
        tenant: str,
        model: str | None = None,
        *,
        since_s: float = 0.0,
        limit: int = 10_000,
        after_id: int = 0,
        judged_only: bool = True,
        latest: bool = False,
    ) -> list[Experience]:
        """A tenant's choices for a served model (None: for any) with their outcomes, in the order of the choices.

        `after_id` is the last `row_id` seen. A late outcome belongs to an old choice, so who has read beyond it must read
        again from the beginning of the window: compare `last_id`. Without `judged_only` choices nobody judged are in
        it too, for their cost and latency. `latest`: where there are more than `limit`, the last ones instead of the first.
        """
        condition = "tenant = ? AND row_id > ? AND at_s >= ?"
        values: tuple[object, ...] = (tenant, after_id, since_s)
        if model is not None:
            condition += " AND model = ?"
            values += (model,)
        if judged_only:
            condition += (
                " AND EXISTS (SELECT 1 FROM outcomes WHERE outcomes.tenant = choices.tenant"
                " AND outcomes.request_id = choices.request_id)"
            )
        order = " ORDER BY row_id DESC LIMIT ?" if latest else " ORDER BY row_id LIMIT ?"
        found = rows_where(self._db, condition + order, (*values, limit))
        if latest:
            found.reverse()
        outcomes: dict[str, list[OutcomeRecord]] = {}
        rows = self._db.read().execute(
            _SELECT + _OF_REQUESTS,
            (tenant, json.dumps([choice.request_id for _, choice in found])),
        )
        for row in rows.fetchall():
            outcome = _as_record(row)
            outcomes.setdefault(outcome.request_id, []).append(outcome)
        return [
            Experience(row_id, choice, tuple(outcomes.get(choice.request_id, ()))) for row_id, choice in found
        ]

    def last_id(self) -> int:
        """The id last given out, of any tenant; 0 before the first. Never goes back, and costs microseconds."""
        row = self._db.read().execute("SELECT seq FROM sqlite_sequence WHERE name = 'outcomes'").fetchone()
        return int(row[0]) if row is not None else 0

    def counts(self, tenant: str | None = None) -> dict[tuple[str, str, str], int]:
        """How many outcomes there are by (tenant, served model, source); of one tenant if named. Reads an index only."""
        where, values = ("", ()) if tenant is None else (" WHERE tenant = ?", (tenant,))
        rows = self._db.read().execute(
            "SELECT tenant, model, source, count(*) FROM outcomes"  # noqa: S608 - our own constants
            + where
            + " GROUP BY tenant, model, source",
            values,
        )
        return {(of, model, source): count for of, model, source, count in rows.fetchall()}

    def trim(self, before_s: float, limit: int = 10_000) -> Future[int]:
        """Delete outcomes older than `before_s`, at most `limit` at once; gives how many."""

        def delete(connection: sqlite3.Connection) -> int:
            return connection.execute(
                "DELETE FROM outcomes WHERE id IN (SELECT id FROM outcomes WHERE at_s < ? ORDER BY at_s LIMIT ?)",
                (before_s, limit),
            ).rowcount

        return self._db.write(delete)

    def forget_tenant(self, tenant: str) -> Future[int]:
        """Delete every outcome of a tenant; gives how many."""
        return self._db.write(
            lambda connection: connection.execute("DELETE FROM outcomes WHERE tenant = ?", (tenant,)).rowcount
        )

    def forget_contributor(self, tenant: str, contributor: str) -> Future[int]:
        """Delete the outcomes of one contributor's requests; gives how many. To be asked before their choices go.

        Raises ValueError for an empty contributor.
        """
        if not contributor:
            raise ValueError("an empty contributor is nobody: name one, or forget the tenant")

        def delete(connection: sqlite3.Connection) -> int:
            return connection.execute(
                "DELETE FROM outcomes WHERE tenant = ? AND request_id IN"
                " (SELECT request_id FROM choices WHERE tenant = ? AND contributor = ? AND contributor <> '')",
                (tenant, tenant, contributor),
            ).rowcount

        return self._db.write(delete)


def insert(connection: sqlite3.Connection, outcome: OutcomeRecord) -> OutcomeRecord:
    """Write one inside a job; gives what stands for it, which may be an earlier one with its key."""
    connection.execute(
        _INSERT,
        {
            "tenant": outcome.tenant,
            "request_id": outcome.request_id,
            "key": outcome.key,
            "source": outcome.source,
            "at_s": outcome.at_s,
            "engine": outcome.engine,
            "example_ids": json.dumps(outcome.example_ids),
            "served": outcome.served,
            "quality": outcome.quality,
            "probability": outcome.probability,
            "cost_usd": outcome.cost_usd,
            "prompt_tokens": outcome.prompt_tokens,
            "completion_tokens": outcome.completion_tokens,
            "latency_s": outcome.latency_s,
            "detail": outcome.detail,
        },
    )
    row = connection.execute(
        _SELECT + " WHERE tenant = ? AND request_id = ? AND key = ?",
        (outcome.tenant, outcome.request_id, outcome.key),
    ).fetchone()
    return _as_record(row)


_COLUMNS = (
    "request_id, tenant, at_s, source, key, engine, example_ids, served, quality, probability, cost_usd, prompt_tokens,"
    " completion_tokens, latency_s, detail"
)
_SELECT = f"SELECT {_COLUMNS}, id FROM outcomes"  # noqa: S608 - a constant
_OF_REQUESTS = " WHERE tenant = ? AND request_id IN (SELECT value FROM json_each(?)) ORDER BY id"
_INSERT = (
    f"INSERT INTO outcomes ({_COLUMNS}, model) VALUES"  # noqa: S608 - a constant
    " (:request_id, :tenant, :at_s, :source, :key, :engine, :example_ids, :served, :quality, :probability, :cost_usd,"
    " :prompt_tokens, :completion_tokens, :latency_s, :detail,"
    " coalesce((SELECT model FROM choices WHERE tenant = :tenant AND request_id = :request_id), ''))"
    " ON CONFLICT (tenant, request_id, key) DO NOTHING"
)


def check(outcome: OutcomeRecord) -> None:
    """Raise ValueError for what cannot be an outcome: see Outcomes.note."""
    if not 0.0 <= outcome.quality <= 1.0:
        raise ValueError(f"a quality of {outcome.quality}: between 0 and 1 is right")
    if not 0.0 < outcome.probability <= 1.0:
        raise ValueError(f"a probability of {outcome.probability}: above 0 and at most 1 is right")
    for name, value in (("cost_usd", outcome.cost_usd), ("latency_s", outcome.latency_s or 0.0)):
        if not math.isfinite(value) or value < 0:
            raise ValueError(f"{name} is {value}: a finite number of at least 0 is right")
    if not isinstance(json.loads(outcome.detail), dict):
        raise ValueError("an outcome's detail must be a JSON object")


def _as_record(row: tuple[Any, ...]) -> OutcomeRecord:
    record = OutcomeRecord(*row)
    return replace(record, example_ids=tuple(json.loads(row[6])), served=bool(record.served))
