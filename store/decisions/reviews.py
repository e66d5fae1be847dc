"""What reviewers said of sampled answers, and which answers they are asked about. Holds no text.

Whether an answer is sampled follows from its request's id and the share that was in force when it was asked, so its
probability is that share exactly: whoever reviews, whenever, and in what order.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Literal

from store.database import Connection, Database
from store.tenant_scope import ALL, TenantScope

Verdict = Literal["good", "bad", "corrected", "skip"]
VERDICTS: tuple[Verdict, ...] = ("good", "bad", "corrected", "skip")
OFFLOADED_SHARE, REFERENCE_SHARE = 0.2, 0.05
"""What is sampled until somebody chooses otherwise."""
NEVER_S = 1e15
"""Later than any time; SQLite has no literal for infinity."""


@dataclass(frozen=True, slots=True)
class Shares:
    """Which shares of answers are sampled, for requests from a time on."""

    offloaded: float = OFFLOADED_SHARE
    """Of answers that another engine than the reference gave, 0 to 1."""
    reference: float = REFERENCE_SHARE
    from_s: float = 0.0
    user: str = ""
    """Who chose them; empty: nobody."""


@dataclass(frozen=True, slots=True)
class Review:
    """One reviewer's verdict on one answer."""

    tenant: str
    request_id: str
    at_s: float
    user: str
    verdict: Verdict
    probability: float
    """With which the answer was sampled."""


@dataclass(frozen=True, slots=True)
class Answered:
    """An answer that may be reviewed."""

    tenant: str
    request_id: str
    at_s: float
    model: str
    engine: str


@dataclass(frozen=True, slots=True)
class Reviewed:
    """A verdict beside what else is known of the answer."""

    tenant: str
    request_id: str
    at_s: float
    user: str
    verdict: Verdict
    probability: float
    model: str
    """Empty where the request is not in the log any more; likewise the next."""
    engine: str
    judged: float | None
    """Quality by the judge, 0 to 1; None where it was not judged."""


class Reviews:
    """Verdicts, one per answer, and the shares that are sampled."""

    def __init__(self, db: Database) -> None:
        self._db = db

    def note(self, review: Review) -> Future[bool]:
        """Keep a verdict; False where somebody gave one already, which stays. Raises StoreBusy."""
        row = (
            *(review.tenant, review.request_id, review.at_s, review.user),
            *(review.verdict, review.probability),
        )
        return self._db.write(
            lambda connection: (
                connection.execute(
                    'INSERT INTO reviews (tenant, request_id, at_s, "user", verdict, probability)'
                    " VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (tenant, request_id) DO NOTHING",
                    row,
                ).rowcount
                > 0
            )
        )

    def withdraw(self, tenant: str, request_id: str, user: str) -> Future[bool]:
        """Take one's own verdict back; whether there was one. The answer is asked about again."""
        return self._db.write(
            lambda connection: (
                connection.execute(
                    'DELETE FROM reviews WHERE tenant = ? AND request_id = ? AND "user" = ?',
                    (tenant, request_id, user),
                ).rowcount
                > 0
            )
        )

    def of(self, tenant: str, request_id: str) -> Review | None:
        """The verdict on an answer, or None."""
        row = (
            self._db.read()
            .execute(_SELECT + " WHERE tenant = ? AND request_id = ?", (tenant, request_id))
            .fetchone()
        )
        return Review(*row) if row is not None else None

    def answered(self, *, since_s: float, limit: int) -> list[Answered]:
        """The latest answers that engines gave, newest first: no repeats, failures, or stand-ins' answers.

        Looks through `limit` requests.
        """
        rows = self._db.read().execute(ANSWERED, (since_s, limit))
        return [Answered(*row) for row in rows.fetchall()]

    def known(self, answers: Sequence[Answered]) -> set[tuple[str, str]]:
        """(tenant, request id) of those that somebody gave a verdict on."""
        rows = self._db.read().execute(
            "SELECT tenant, request_id FROM reviews WHERE request_id IN (SELECT value FROM json_each(?))",
            (json.dumps([each.request_id for each in answers]),),
        )
        return {(tenant, id) for tenant, id in rows.fetchall()}

    def given(
        self,
        *,
        tenant: str | None = None,
        since_s: float = 0.0,
        until_s: float = NEVER_S,
        limit: int = 5_000,
    ) -> list[Reviewed]:
        """The latest verdicts of [since_s, until_s), newest first, with the engine that answered and the judge's word."""
        asked = {"tenant": tenant, "since": since_s, "until": until_s, "limit": limit}
        rows = self._db.read().execute(GIVEN, asked)
        return [Reviewed(*row) for row in rows.fetchall()]

    def shares(self) -> list[Shares]:
        """What was sampled from when on, the first first: the default ones until somebody chose others."""
        return _shares(self._db.read())

    def choose(
        self, shares: Shares, *, check: Callable[[Shares], None] = lambda latest: None
    ) -> Future[Shares]:
        """Sample these shares of the requests from `from_s` on; earlier ones keep the share that was in force then.

        Gives the shares before. `check` gets them inside the transaction. The future raises what it raises, and ValueRefused
        for a share outside 0 to 1.
        """

        def insert(connection: Connection) -> Shares:
            self._db.hold(connection, "review_shares")
            before = _shares(connection)[-1]
            check(before)
            connection.execute(
                'INSERT INTO review_shares (from_s, "user", offloaded, reference) VALUES (?, ?, ?, ?)',
                (shares.from_s, shares.user, shares.offloaded, shares.reference),
            )
            return before

        return self._db.write(insert)

    def trim(self, before_s: float, limit: int = 10_000, *, tenants: TenantScope = ALL) -> Future[int]:
        """Delete verdicts of these tenants older than `before_s`, at most `limit` at once; gives how many."""
        return self._delete(
            "DELETE FROM reviews WHERE (tenant, request_id) IN (SELECT tenant, request_id FROM reviews"  # noqa: S608
            f" WHERE at_s < ?{tenants.condition} ORDER BY at_s LIMIT ?)",
            (before_s, *tenants.values, limit),
        )

    def forget_tenant(self, tenant: str) -> Future[int]:
        """Delete every verdict on a tenant's answers; gives how many."""
        return self._delete("DELETE FROM reviews WHERE tenant = ?", (tenant,))

    def forget_contributor(self, tenant: str, contributor: str) -> Future[int]:
        """Delete the verdicts on answers to one contributor; gives how many. To be asked before their choices go.

        Raises ValueError for an empty contributor.
        """
        if not contributor:
            raise ValueError("an empty contributor is nobody: name one, or forget the tenant")
        return self._delete(
            "DELETE FROM reviews WHERE tenant = ? AND request_id IN"
            " (SELECT request_id FROM choices WHERE tenant = ? AND contributor = ? AND contributor <> '')",
            (tenant, tenant, contributor),
        )

    def _delete(self, statement: str, values: Sequence[object]) -> Future[int]:
        return self._db.write(
            lambda connection: connection.execute(statement, values).rowcount,
            after=lambda _: self._db.scrub_soon(),
        )


def _shares(connection: Connection) -> list[Shares]:
    rows = connection.execute(
        'SELECT offloaded, reference, from_s, "user" FROM review_shares ORDER BY from_s, id'
    )
    return [Shares(), *(Shares(*row) for row in rows.fetchall())]


def share_of(answer: Answered, shares: Sequence[Shares], reference: str) -> float:
    """The share that was in force for an answer when it was asked; `reference`: its model's."""
    now = next((each for each in reversed(shares) if each.from_s <= answer.at_s), shares[0])
    return now.reference if answer.engine == reference else now.offloaded


def is_sampled(secret: bytes, answer: Answered, share: float) -> bool:
    """Whether an answer is among the sampled `share`: a coin that nobody can turn, the same at every look."""
    said = f"{answer.tenant}\0{answer.request_id}".encode()
    drawn = hashlib.blake2b(said, key=secret[:64], digest_size=7, person=b"review").digest()
    return int.from_bytes(drawn, "big") < share * 2**56


_SELECT = 'SELECT tenant, request_id, at_s, "user", verdict, probability FROM reviews'
ANSWERED = (
    "SELECT tenant, id, started_at_s, model, engine FROM (SELECT tenant, id, started_at_s, model, engine, outcome,"
    " failed_over FROM requests WHERE started_at_s >= ? ORDER BY started_at_s DESC LIMIT ?) AS latest"
    " WHERE outcome = 'answered' AND failed_over = '' AND engine <> '' ORDER BY started_at_s DESC"
)
GIVEN = (
    'SELECT r.tenant, r.request_id, r.at_s, r."user", r.verdict, r.probability,'
    " coalesce(q.model, c.model, ''), coalesce(q.engine, c.engine, ''),"
    " (SELECT avg(o.quality) FROM outcomes o WHERE o.tenant = r.tenant AND o.request_id = r.request_id"
    "  AND o.source = 'judge' AND o.served = 1)"
    " FROM (SELECT * FROM reviews WHERE at_s >= :since AND at_s < :until AND (:tenant IS NULL OR tenant = :tenant)"
    "  ORDER BY at_s DESC LIMIT :limit) AS r"
    " LEFT JOIN choices c ON c.tenant = r.tenant AND c.request_id = r.request_id"
    # A policy that looks at no request has no choice in the log.
    " LEFT JOIN requests q ON q.id = r.request_id AND q.tenant = r.tenant ORDER BY r.at_s DESC"
)
