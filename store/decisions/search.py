"""Finds requests in the log by what they were: newest first, page by page, looking through a bounded part at once."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import Any, Literal

from store.database import Database
from store.decisions.requests import COLUMNS, as_record
from store.decisions.texts import RequestTextLog
from store.records import RequestRecord

Way = Literal[
    "", "hit", "exact", "semantic", "offloaded", "reference", "few_shot", "direct", "failed_over", "failed"
]
"""hit: from the cache, as an exact repeat or for a similar question (exact, semantic). offloaded: as decided, by another
engine than the model's reference; reference: by that one, or by anybody where the model is not served here. few_shot,
direct: by an engine with examples, without. failed_over: by another engine than was decided on. failed: by none."""
LOOKED_THROUGH = 20_000
"""Rows that one page may look at: some tens of milliseconds."""
_LOOKED_BESIDE = 2_000
_WORDS_AT_ONCE = 500
_MOST_ROUNDS = 4

_WAYS: dict[Way, str] = {
    "": "TRUE",
    "hit": "outcome = 'hit'",
    "exact": "outcome = 'hit' AND policy <> 'semantic'",
    "semantic": "outcome = 'hit' AND policy = 'semantic'",
    "offloaded": "outcome = 'answered' AND failed_over = ''",
    "reference": "outcome = 'answered' AND failed_over = ''",
    "few_shot": "outcome <> 'hit' AND example_count > 0 AND failed_over = ''",
    "direct": "outcome <> 'hit' AND example_count = 0 AND failed_over = ''",
    "failed_over": "outcome = 'answered' AND failed_over <> ''",
    "failed": "outcome NOT IN ('hit', 'answered')",
}


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which requests. Whatever is empty or None does not matter."""

    tenant: str = ""
    key_id: str = ""
    model: str = ""
    engine: str = ""
    way: Way = ""
    status: int | None = None
    """An HTTP status, or its first digit for all that begin with it."""
    reason: str = ""
    since_s: float | None = None
    until_s: float | None = None
    least_usd: float | None = None
    example: int | None = None
    """Requests that this example was sent with."""
    session: str = ""
    """The digest of a conversation, as rows have it."""
    end_user: str = ""
    """The digest of an end user, likewise."""
    completion_id: str = ""
    references: tuple[tuple[str, str], ...] = ()
    """(served model, its reference engine): what `way` tells offloaded answers by."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a page ended: the next one goes on behind it."""

    at_s: float
    row_id: int


@dataclass(frozen=True, slots=True)
class Found:
    """One page."""

    rows: tuple[RequestRecord, ...]
    """Newest first."""
    next: Place | int | None
    """Where to go on; an int for a search by words. None: there is nothing more."""
    looked_back_to_s: float | None
    """Set when the page is short because so many were looked through: nothing later than this is missing in it."""
    first: Place | None = None
    """Where the page begins; None where it is empty, and for a search by words."""


class RequestSearch:
    """Over the log and the texts. Not for tenants: it finds everybody's requests."""

    def __init__(self, db: Database) -> None:
        self._db = db
        self._texts = RequestTextLog(db)

    def page(
        self,
        wanted: Wanted,
        *,
        limit: int,
        before: Place | None = None,
        looked_through: int = LOOKED_THROUGH,
    ) -> Found:
        """The next `limit` requests, by time; behind `looked_through` of them nothing is found."""
        query, values = page_query(wanted, limit=limit + 1, looked=looked_through, before=before)
        rows = self._db.read().execute(query, values).fetchall()
        places = [Place(row[-1], row[-2]) for row in rows]
        found = tuple(as_record(row[:-2]) for row in rows[:limit])
        first = places[0] if places else None
        if len(rows) > limit:
            return Found(found, places[limit - 1], None, first)
        query, values = _last_looked_query(wanted, looked_through, before)
        last = self._db.read().execute(query, values).fetchone()
        if last is None:
            return Found(found, None, None, first)
        return Found(found, Place(*last), last[0], first)

    def newer(
        self, wanted: Wanted, *, limit: int, after: Place, looked_through: int = LOOKED_THROUGH
    ) -> tuple[tuple[RequestRecord, ...], Place | None]:
        """The `limit` requests that came next after a place, newest first, and the place of the newest; (), None for none.

        Looks at no more than `looked_through` requests.
        """
        query, values = page_query(wanted, limit=limit, looked=looked_through, before=None, after=after)
        rows = self._db.read().execute(query, values).fetchall()
        if not rows:
            return (), None
        return tuple(as_record(row[:-2]) for row in reversed(rows)), Place(rows[-1][-1], rows[-1][-2])

    def place_of(self, id: str) -> Place | None:
        """Where a request stands in the log; None where it does not."""
        read = self._db.read()
        row = read.execute("SELECT started_at_s, row_id FROM requests WHERE id = ?", (id,)).fetchone()
        return None if row is None else Place(*row)

    def beside(
        self, wanted: Wanted, id: str, *, looked_through: int = _LOOKED_BESIDE
    ) -> tuple[str | None, str | None]:
        """Ids of the request before and the one after this one in time, among those wanted; None where none is near."""
        place = self.place_of(id)
        if place is None:
            return None, None
        older = self.page(wanted, limit=1, before=place, looked_through=looked_through).rows
        newer, _ = self.newer(wanted, limit=1, after=place, looked_through=looked_through)
        return (older[0].id if older else None), (newer[0].id if newer else None)

    def with_words(self, wanted: Wanted, text: str, *, limit: int, before: int | None = None) -> Found:
        """The next `limit` requests whose question or answer has these words, the latest first, each before its latest exact
        repeats."""
        found: list[RequestRecord] = []
        for _ in range(_MOST_ROUNDS):
            places = self._texts.search(text, before=before, limit=_WORDS_AT_ONCE)
            repeats = self._texts.repeats([place for place, _ in places])
            rows = self._by_ids(
                wanted, [id for _, id in places] + [id for ids in repeats.values() for id in ids]
            )
            for place, id in places:
                group = [rows[each] for each in (id, *repeats.get(place, ())) if each in rows]
                if found and len(found) + len(group) > limit:
                    return Found(tuple(found), before, None)
                found += group[:limit]
                before = place
            if len(places) < _WORDS_AT_ONCE:
                return Found(tuple(found), None, None)
        return Found(tuple(found), before, found[-1].started_at_s if found else None)

    def tenants(self, limit: int = 200) -> list[str]:
        """Tenants with requests, in order; costs one step in an index each."""
        rows = self._db.read().execute(_TENANTS, (limit,))
        return [tenant for (tenant,) in rows.fetchall() if tenant is not None]

    def _by_ids(self, wanted: Wanted, ids: list[str]) -> dict[str, RequestRecord]:
        condition, values = _filter(replace(wanted, example=None))
        bounds, more = _bounds(wanted, None)
        rows = self._db.read().execute(
            f"SELECT {COLUMNS} FROM requests WHERE id IN (SELECT value FROM json_each(:ids))"  # noqa: S608
            f" AND {bounds} AND {condition}",
            {"ids": json.dumps(ids), **values, **more},
        )
        return {record.id: record for record in map(as_record, rows.fetchall())}


def page_query(
    wanted: Wanted, *, limit: int, looked: int, before: Place | None, after: Place | None = None
) -> tuple[str, dict[str, Any]]:
    """The query of a page and its values: rows of COLUMNS, then row_id and started_at_s.

    The latest first; with `after` the earliest of those that came after that place.
    """
    bounds, values = _bounds(wanted, before, after)
    condition, more = _filter(wanted)
    order = "started_at_s DESC, row_id DESC" if after is None else "started_at_s, row_id"
    # SQLite walks the inner rows one by one and stops as soon as the outer ones are enough.
    return (
        f"SELECT {COLUMNS}, row_id, started_at_s AS at_s FROM (SELECT * FROM requests WHERE {bounds}"  # noqa: S608
        f" ORDER BY {order} LIMIT :looked) WHERE {condition} LIMIT :limit",
        {**values, **more, "looked": looked, "limit": limit},
    )


def _last_looked_query(wanted: Wanted, looked: int, before: Place | None) -> tuple[str, dict[str, Any]]:
    bounds, values = _bounds(wanted, before)
    return (
        f"SELECT started_at_s, row_id FROM requests WHERE {bounds}"  # noqa: S608 - our own constants
        " ORDER BY started_at_s DESC, row_id DESC LIMIT 1 OFFSET :skipped",
        {**values, "skipped": looked - 1},
    )


def _bounds(wanted: Wanted, before: Place | None, after: Place | None = None) -> tuple[str, dict[str, Any]]:
    """What an index answers by itself."""
    parts = ["TRUE"]
    values: dict[str, Any] = {}
    if wanted.tenant:
        # The plus: not by the tenant's index where a narrower one can answer.
        narrower = wanted.session or wanted.end_user or wanted.completion_id
        parts.append("+tenant = :tenant" if narrower else "tenant = :tenant")
        values["tenant"] = wanted.tenant
    for name in ("session", "end_user", "completion_id"):
        if value := getattr(wanted, name):
            # The second part: an index of such rows only can answer it.
            parts.append(f"{name} = :{name} AND {name} <> ''")
            values[name] = value
    if wanted.since_s is not None:
        parts.append("started_at_s >= :since")
        values["since"] = wanted.since_s
    if wanted.until_s is not None:
        parts.append("started_at_s < :until")
        values["until"] = wanted.until_s
    if before is not None:
        parts.append("started_at_s <= :at AND (started_at_s < :at OR row_id < :row)")
        values |= {"at": before.at_s, "row": before.row_id}
    if after is not None:
        parts.append("started_at_s >= :after AND (started_at_s > :after OR row_id > :after_row)")
        values |= {"after": after.at_s, "after_row": after.row_id}
    return " AND ".join(parts), values


def _filter(wanted: Wanted) -> tuple[str, dict[str, Any]]:
    """What has to be looked at row by row."""
    parts = [_WAYS[wanted.way]]
    values: dict[str, Any] = {}
    if wanted.way in ("offloaded", "reference"):
        condition, values = _offloaded(wanted.references)
        parts.append(condition if wanted.way == "offloaded" else f"NOT ({condition})")
    for name in ("key_id", "model", "engine", "reason"):
        value = getattr(wanted, name)
        if value:
            parts.append(f"{name} = :{name}")
            values[name] = value
    if wanted.status is not None:
        digits = wanted.status < 10
        parts.append("status / 100 = :status" if digits else "status = :status")
        values["status"] = wanted.status
    if wanted.least_usd is not None:
        parts.append("cost_usd >= :least")
        values["least"] = wanted.least_usd
    if wanted.example is not None:
        parts.append(
            "example_count > 0 AND :example IN (SELECT CAST(value AS INTEGER) FROM json_each(example_ids))"
        )
        values["example"] = wanted.example
    return " AND ".join(f"({part})" for part in parts), values


def _offloaded(references: tuple[tuple[str, str], ...]) -> tuple[str, dict[str, Any]]:
    """Whether another engine than the model's reference answered."""
    values: dict[str, Any] = {}
    parts = []
    for place, (model, engine) in enumerate(references):
        parts.append(f"(model = :served{place} AND engine <> :reference{place})")
        values |= {f"served{place}": model, f"reference{place}": engine}
    return " OR ".join(parts) or "FALSE", values


# Walks from one tenant to the next by the index, where DISTINCT would read every entry.
_TENANTS = (
    "WITH RECURSIVE walk (tenant) AS (SELECT min(tenant) FROM requests UNION ALL"
    " SELECT (SELECT min(tenant) FROM requests WHERE tenant > walk.tenant) FROM walk WHERE walk.tenant IS NOT NULL)"
    " SELECT tenant FROM walk LIMIT ?"
)
