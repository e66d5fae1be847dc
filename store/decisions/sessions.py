"""Conversations: requests that belong together, the one with the latest request first. For operators, of all tenants."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from store.database import Database
from store.decisions.kept_details import KeptDetails
from store.decisions.session_ids import is_named

LOOKED_THROUGH = 10_000
"""Requests that one page may look at."""


@dataclass(frozen=True, slots=True)
class Session:
    """One conversation, as far as it was looked through."""

    id: str
    """The digest that its requests have in common."""
    tenant: str
    first_s: float
    last_s: float
    """When its first and its last request began; Unix seconds."""
    requests: int
    hits: int
    failed: int
    prompt_tokens: int
    completion_tokens: int
    cost_usd: float
    last_request: str
    """Its id."""
    model: str
    """Of the last request."""

    @property
    def named(self) -> bool:
        """Whether the client named it; else its requests begin alike, and come from the same sender."""
        return is_named(self.id)


@dataclass(frozen=True, slots=True)
class SessionPage:
    """One page."""

    rows: tuple[Session, ...]
    """The one with the latest request first."""
    next: float | None
    """`before` of the next page; None: there is nothing more."""


@dataclass(frozen=True, slots=True)
class LatestAnswer:
    """The latest answer of a conversation."""

    engine: str
    prompt_tokens: int
    started_at_s: float
    """When its request came; Unix seconds."""


class Sessions:
    """Reads them. The requests of one are found by `Wanted(session=...)`."""

    def __init__(self, db: Database) -> None:
        self._db = db

    def page(
        self,
        *,
        limit: int = 50,
        before_s: float | None = None,
        tenant: str = "",
        end_user: str = "",
        least_requests: int = 1,
        looked_through: int = LOOKED_THROUGH,
    ) -> SessionPage:
        """The next `limit` of those whose last request began before `before_s`, among `looked_through` requests.

        Of a session that has older requests than those only the later ones are counted.
        """
        values = {
            "tenant": tenant,
            "end_user": end_user,
            "before": before_s,
            "looked": looked_through,
            "least": least_requests,
            "limit": limit + 1,
        }
        rows = [Session(*row) for row in self._db.read().execute(_query(values), values).fetchall()]
        if len(rows) > limit:
            return SessionPage(tuple(rows[:limit]), rows[limit - 1].last_s)
        last = (
            self._db.read().execute(_last_looked(values), values | {"looked": looked_through - 1}).fetchone()
        )
        return SessionPage(tuple(rows), None if last is None else last[0])

    def get(self, tenant: str, id: str) -> Session | None:
        """One of a tenant's, of its latest requests up to `LOOKED_THROUGH`; None where the log has none of it."""
        row = (
            self._db.read()
            .execute(_ONE, {"session": id, "tenant": tenant, "looked": LOOKED_THROUGH})
            .fetchone()
        )
        return Session(*row) if row is not None else None

    def latest_answer(self, tenant: str, id: str, model: str, since_s: float) -> LatestAnswer | None:
        """The latest answer to a tenant's for this model, if there is one since then (seconds since 1970)."""
        row = self._db.read().execute(
            "SELECT engine, prompt_tokens, started_at_s FROM requests WHERE session = ? AND session <> ''"
            " AND tenant = ? AND model = ? AND started_at_s >= ? AND outcome = 'answered' AND engine <> ''"
            " ORDER BY started_at_s DESC LIMIT 1",
            (id, tenant, model, since_s),
        )
        found = row.fetchone()
        return LatestAnswer(*found) if found is not None else None

    def names(self, sessions: Iterable[Session]) -> dict[tuple[str, str], str]:
        """Content: what clients call them, by (tenant, id), as far as their last requests' texts are kept."""
        wanted = {one.last_request: one for one in sessions}
        rows = self._db.read().execute(_DETAILS, {"ids": json.dumps(list(wanted))})
        found = {}
        for tenant, request_id, details in rows.fetchall():
            session = wanted[request_id]
            name = KeptDetails.unpacked(details).session
            if name and session.tenant == tenant:
                found[tenant, session.id] = name
        return found


# A call of a workflow says what the rows of its steps say (store.records.RequestRecord.sums_up).
_FIELDS = (
    "session, tenant, started_at_s, outcome, cost_usd,"
    " CASE WHEN run <> '' AND step = '' THEN 0 ELSE prompt_tokens END AS prompt_tokens,"
    " CASE WHEN run <> '' AND step = '' THEN 0 ELSE completion_tokens END AS completion_tokens"
)
_SUMS = (
    "session, tenant, min(started_at_s) AS first_s, max(started_at_s) AS last_s, count(*) AS requests,"
    " sum(CASE WHEN outcome = 'hit' THEN 1 ELSE 0 END) AS hits,"
    " sum(CASE WHEN outcome IN ('hit', 'answered') THEN 0 ELSE 1 END) AS failed,"
    " sum(prompt_tokens) AS prompt_tokens, sum(completion_tokens) AS completion_tokens, sum(cost_usd) AS cost_usd"
)
_OF_LAST = (
    "(SELECT r.{} FROM requests r WHERE r.session = s.session AND r.session <> '' AND r.tenant = s.tenant"
    " AND r.started_at_s = s.last_s ORDER BY r.row_id DESC LIMIT 1)"
)
_SHOWN = (
    "s.session, s.tenant, s.first_s, s.last_s, s.requests, s.hits, s.failed, s.prompt_tokens, s.completion_tokens,"
    f" s.cost_usd, {_OF_LAST.format('id')}, {_OF_LAST.format('model')}"
)
_ONE = (
    f"SELECT {_SHOWN} FROM (SELECT {_SUMS} FROM (SELECT {_FIELDS} FROM requests"  # noqa: S608 - constants
    " WHERE session = :session AND session <> '' AND tenant = :tenant ORDER BY started_at_s DESC LIMIT :looked) latest"
    " GROUP BY session, tenant) s"
)
_DETAILS = (
    "SELECT t.tenant, t.request_id, t.details FROM json_each(:ids) AS wanted JOIN requests q ON q.id = wanted.value"
    " JOIN request_texts t ON t.tenant = q.tenant AND t.request_id = q.id WHERE t.details IS NOT NULL"
)


def _query(values: Mapping[str, object]) -> str:
    # What an index bounds is grouped; a session that has later requests was on an earlier page.
    earlier = (
        " AND NOT EXISTS (SELECT 1 FROM requests later WHERE later.session = s.session"
        " AND later.session <> '' AND later.tenant = s.tenant AND later.started_at_s >= :before)"
    )
    return (
        f"SELECT {_SHOWN} FROM (SELECT {_SUMS} FROM (SELECT {_FIELDS} FROM requests WHERE {_bounds(values)}"  # noqa: S608
        " ORDER BY started_at_s DESC LIMIT :looked) latest WHERE session <> '' GROUP BY session, tenant) s"
        f" WHERE s.requests >= :least{earlier if values['before'] is not None else ''}"
        " ORDER BY s.last_s DESC, s.session LIMIT :limit"
    )


def _last_looked(values: Mapping[str, object]) -> str:
    return (
        f"SELECT started_at_s FROM requests WHERE {_bounds(values)}"  # noqa: S608 - our own constants
        " ORDER BY started_at_s DESC LIMIT 1 OFFSET :looked"
    )


def _bounds(values: Mapping[str, object]) -> str:
    parts = ["TRUE" if values["before"] is None else "started_at_s < :before"]
    if values["tenant"]:
        parts.append("tenant = :tenant")
    if values["end_user"]:
        parts.append("end_user = :end_user AND end_user <> ''")
    return " AND ".join(parts)
