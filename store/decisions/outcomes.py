"""How good answers turned out to be: a log that feedback, judges and labels append to and learners read, joined to choices.

The future of a write resolves after its commit, so whoever acknowledges an outcome then can be killed at any moment and
has lost nothing. A power cut may take the last ones, unless Store.sync is called.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass, fields, replace
from typing import Any

from store.answers.wrong_answers import drop_answers
from store.database import Connection, Database
from store.decisions.choices import rows_where
from store.decisions.costs import CostsOf, keep_costs, kept_usd
from store.decisions.quality_rollups import QUALITY
from store.decisions.reviews import Reviews
from store.records import ChoiceRecord, OutcomeRecord
from store.sums import log_changed
from store.tenant_scope import ALL, TenantScope


@dataclass(frozen=True, slots=True)
class Experience:
    """One choice, and everything that became known of how good answers to its request were."""

    row_id: int
    """Its place among the choices: where to go on reading."""
    choice: ChoiceRecord
    outcomes: tuple[OutcomeRecord, ...]
    """In the order in which they came; of the served answer, and of others asked for comparison."""


class Outcomes:
    """The log of outcomes. An outcome once noted never changes."""

    def __init__(self, db: Database) -> None:
        self._db = db
        self.feedback = FeedbackLog(db)
        """What people said, from which outcomes follow."""
        self.reviews = Reviews(db)
        """What reviewers said of sampled answers."""

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
            _SELECT + " WHERE id > :id AND id <= :settled AND (:tenant IS NULL OR tenant = :tenant)"
            " AND (:model IS NULL OR model = :model) ORDER BY id LIMIT :limit",
            {
                "id": id,
                "settled": self._db.settled("outcomes"),
                "tenant": tenant,
                "model": model,
                "limit": limit,
            },
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
        return self._db.last_id("outcomes")

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

    def judged_and_rated(self, tenant: str, model: str, limit: int = 1000) -> list[tuple[str, float, float]]:
        """Of the latest served answers to a tenant and served model that people rated and a judge compared: the judgement's
        detail and quality, and the quality that people found."""
        rows = self._db.read().execute(
            "SELECT judged.detail, judged.quality, rated.quality FROM outcomes AS rated JOIN outcomes AS judged"
            " ON judged.tenant = rated.tenant AND judged.request_id = rated.request_id"
            " AND judged.engine = rated.engine WHERE rated.tenant = ? AND rated.model = ?"
            " AND rated.source = 'user' AND rated.served = 1 AND judged.source = 'judge' AND judged.served = 1"
            " ORDER BY rated.id DESC LIMIT ?",
            (tenant, model, limit),
        )
        return list(rows.fetchall())

    def spent_usd(self, since_s: float, tenant: str | None = None) -> float:
        """Dollars spent on judges, and on answers asked for comparison, since a time."""
        row = (
            self._db.read()
            .execute(
                "SELECT coalesce(sum(cost_usd), 0) FROM outcomes WHERE at_s >= :since"
                " AND (:tenant IS NULL OR tenant = :tenant)",
                {"since": since_s, "tenant": tenant},
            )
            .fetchone()
        )
        return float(row[0]) + kept_usd(self._db.read(), "judge", since_s, tenant)

    def trim(self, before_s: float, limit: int = 10_000, *, tenants: TenantScope = ALL) -> Future[int]:
        """Delete these tenants' outcomes older than `before_s`, at most `limit` at once; gives how many."""

        def delete(connection: Connection) -> int:
            return connection.execute(
                "DELETE FROM outcomes WHERE id IN (SELECT id FROM outcomes WHERE at_s < ?"  # noqa: S608
                f"{tenants.condition} ORDER BY at_s LIMIT ?)",
                (before_s, *tenants.values, limit),
            ).rowcount

        return self._db.write(delete)

    def forget_tenant(self, tenant: str) -> Future[int]:
        """Delete every outcome of a tenant, and the sums of their qualities; gives how many.

        What they cost is kept (store.decisions.costs).
        """

        def delete(connection: Connection) -> int:
            log_changed(connection, "outcomes")
            QUALITY.forget_tenant(connection, tenant)
            return _delete(connection, "tenant = ?", (tenant,))

        return self._db.write(delete)

    def forget_contributor(self, tenant: str, contributor: str) -> Future[int]:
        """Delete the outcomes of one contributor's requests; gives how many. To be asked before their choices go.

        Raises ValueError for an empty contributor.
        """
        if not contributor:
            raise ValueError("an empty contributor is nobody: name one, or forget the tenant")

        def delete(connection: Connection) -> int:
            return _delete(
                connection,
                "tenant = ? AND request_id IN"
                " (SELECT request_id FROM choices WHERE tenant = ? AND contributor = ? AND contributor <> '')",
                (tenant, tenant, contributor),
            )

        return self._db.write(delete)


def _delete(connection: Connection, where: str, values: tuple[object, ...]) -> int:
    keep_costs(connection, _COSTS, where, values)
    return connection.execute(f"DELETE FROM outcomes WHERE {where}", values).rowcount  # noqa: S608 - constants


_COSTS = CostsOf(
    "judge", "outcomes", "at_s", prompt_tokens="prompt_tokens", completion_tokens="completion_tokens"
)


def insert(connection: Connection, outcome: OutcomeRecord) -> OutcomeRecord:
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


@dataclass(frozen=True, slots=True)
class FeedbackRecord:
    """One feedback to one request's answer."""

    tenant: str
    key: str
    """Unique per tenant: the same again adds nothing."""
    content_digest: str
    """Of everything that was said: tells a repetition from another feedback under the same key."""
    request_id: str
    contributor: str
    """Who gave it, as of Example.contributor."""
    at_s: float
    score: float | None = None
    """0 to 1."""
    thumb: str = ""
    """up, down or nothing."""
    preferred_over: str = ""
    """The request whose answer was worse, or nothing."""
    correction: str = ""
    """The id of the example that a corrected answer became, or nothing."""
    comment: str = ""
    author: str = ""
    """The operator who gave it on the admin pages; empty for feedback over the API."""
    id: int = 0
    """0 before it is stored."""


class EnoughFeedback(Exception):
    """An answer has as many feedbacks as it may have."""


class FeedbackLog:
    """What people said of answers: one row per feedback, committed together with the outcomes that follow from it.

    Every look-up names a tenant. Comments are text of a person's and go with that person; nobody learns from them.
    """

    def __init__(self, db: Database) -> None:
        self._db = db

    def give(
        self,
        feedback: FeedbackRecord,
        follows: Sequence[OutcomeRecord],
        *,
        wrong: bool = False,
        most: int = 16,
    ) -> Future[tuple[FeedbackRecord, bool]]:
        """Keep a feedback and the outcomes that follow, together or not at all; gives it, and whether it is new.

        `wrong`: with it goes what would be given again of the answer. The same (tenant, key) again gives the first back
        and notes nothing. The future raises EnoughFeedback where there are `most` on the answer already. Raises StoreBusy,
        and ValueError for outcomes that are none (see Outcomes.note).
        """
        for outcome in follows:
            check(outcome)

        def give(connection: Connection) -> tuple[FeedbackRecord, bool]:
            added = (
                connection.execute(
                    _INSERT_FEEDBACK, [getattr(feedback, name) for name in _FEEDBACK_NAMES]
                ).rowcount
                > 0
            )
            if added:
                (count,) = connection.execute(_COUNT, (feedback.tenant, feedback.request_id)).fetchone()
                if count > most:
                    raise EnoughFeedback(f"there are {most} feedbacks on this answer already")
                for outcome in follows:
                    insert(connection, outcome)
                if wrong:
                    drop_answers(connection, feedback.tenant, requests=[feedback.request_id])
            row = connection.execute(
                _SELECT_FEEDBACK + " WHERE tenant = ? AND key = ?", (feedback.tenant, feedback.key)
            ).fetchone()
            return FeedbackRecord(*row), added

        return self._db.write(give)

    def find(self, tenant: str, key: str) -> FeedbackRecord | None:
        """The tenant's feedback with this key, or None."""
        row = (
            self._db.read()
            .execute(_SELECT_FEEDBACK + " WHERE tenant = ? AND key = ?", (tenant, key))
            .fetchone()
        )
        return FeedbackRecord(*row) if row is not None else None

    def of(self, tenant: str, request_id: str) -> list[FeedbackRecord]:
        """All feedback to one request of the tenant's, in the order in which it came."""
        rows = self._db.read().execute(
            _SELECT_FEEDBACK + " WHERE tenant = ? AND request_id = ? ORDER BY id", (tenant, request_id)
        )
        return [FeedbackRecord(*row) for row in rows.fetchall()]

    def that_made(self, tenant: str, correction: str) -> FeedbackRecord | None:
        """The tenant's latest feedback whose correction became the example of this request id; None where there is none."""
        which = " WHERE tenant = ? AND correction = ? AND correction <> '' ORDER BY id DESC LIMIT 1"
        row = self._db.read().execute(_SELECT_FEEDBACK + which, (tenant, correction)).fetchone()
        return FeedbackRecord(*row) if row is not None else None

    def trim(self, before_s: float, limit: int = 10_000, *, tenants: TenantScope = ALL) -> Future[int]:
        """Delete feedback of these tenants older than `before_s`, at most `limit` at once; gives how many."""
        return self._delete(
            "DELETE FROM feedback WHERE id IN (SELECT id FROM feedback WHERE at_s < ?"  # noqa: S608
            f"{tenants.condition} ORDER BY at_s LIMIT ?)",
            before_s,
            *tenants.values,
            limit,
        )

    def forget_tenant(self, tenant: str) -> Future[int]:
        """Delete all feedback of a tenant; gives how many."""
        return self._delete("DELETE FROM feedback WHERE tenant = ?", tenant)

    def forget_contributor(self, tenant: str, contributor: str) -> Future[int]:
        """Delete what one contributor said, and what was said of answers to them; gives how many.

        Raises ValueError for an empty contributor.
        """
        if not contributor:
            raise ValueError("an empty contributor is nobody: name one, or forget the tenant")
        return self._delete(
            "DELETE FROM feedback WHERE tenant = ?1 AND (contributor = ?2 OR request_id IN"
            " (SELECT request_id FROM choices WHERE tenant = ?1 AND contributor = ?2 AND contributor <> ''))",
            tenant,
            contributor,
        )

    def _delete(self, statement: str, *values: Any) -> Future[int]:
        return self._db.write(
            lambda connection: connection.execute(statement, values).rowcount,
            after=lambda _: self._db.scrub_soon(),
        )


_FEEDBACK_NAMES = tuple(field.name for field in fields(FeedbackRecord) if field.name != "id")
_SELECT_FEEDBACK = f"SELECT {', '.join(_FEEDBACK_NAMES)}, id FROM feedback"  # noqa: S608 - a constant
_COUNT = "SELECT count(*) FROM feedback WHERE tenant = ? AND request_id = ?"
_INSERT_FEEDBACK = (
    f"INSERT INTO feedback ({', '.join(_FEEDBACK_NAMES)})"  # noqa: S608 - a constant
    f" VALUES ({', '.join('?' * len(_FEEDBACK_NAMES))}) ON CONFLICT (tenant, key) DO NOTHING"
)
