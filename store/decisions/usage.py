"""The books: what requests used and cost, summed by hour, and by end user and day. Holds no content.

Every sum is written together with the request's row, in one transaction: nothing has to catch up, and what is not kept as
a row (a request that asked for it) is in the sums all the same. What the gateway asks of its own accord stands on lines of
its own.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass, fields
from typing import Any, Literal, NamedTuple, get_args

from store.database import Connection, Database, Rows
from store.plain import plain
from store.records import RequestRecord
from store.sums import DAY_S, HOUR_S, MINUTE_S, Sums

_KEPT_S = 400 * DAY_S
_MOST_NAMES = 10_000
_MOST_REMEMBERED = 50_000
"""Names of all tenants together. One that was forgotten counts once more."""
OTHERS = "(others)"
"""Stands for the end users, or the models, of a day beyond the first 10,000."""

Dimension = Literal["day", "tenant", "key", "user", "model", "engine", "api"]
DIMENSIONS: tuple[Dimension, ...] = get_args(Dimension)
Line = Literal["answer", "component", "judge", "shadow", "replay", "manual_queries", "warm"]
"""answer: clients' requests; component: what steps of their workflows asked of components, by whose name in place of an
engine's, and of no end user's. The others the gateway asks of its own accord: verdicts of a judge, answers to compare with,
replay and all that is prepared off-peak, what an operator asked on the admin pages, prompts computed early."""


class Amounts(NamedTuple):
    """Sums over requests."""

    requests: int = 0
    hits: int = 0
    """Answered from memory."""
    failed: int = 0
    prompt_tokens: int = 0
    cached_tokens: int = 0
    completion_tokens: int = 0
    images: int = 0
    cost_usd: float = 0.0
    unpriced: int = 0
    """Requests whose cost nobody knows; they are missing in `cost_usd`."""
    estimated: int = 0
    """Requests whose tokens were estimated."""
    example_tokens: int = 0
    """Of the prompts', those of examples that were sent along."""
    examples_usd: float = 0.0
    """The part of `cost_usd` for them."""
    reference_usd: float = 0.0
    """What the reference engine would have charged, of the requests for which that is known."""
    reckoned_usd: float = 0.0
    """What was paid for the same requests."""

    def plus(self, other: Amounts) -> Amounts:
        """Both together."""
        return Amounts._make(mine + theirs for mine, theirs in zip(self, other, strict=True))


@dataclass(slots=True)
class Used:
    """What one request used, and who is to be shown it."""

    at_s: float
    tenant: str
    amounts: Amounts
    line: Line = "answer"
    key_id: str = ""
    end_user: str = ""
    """Its digest; empty where nobody was named."""
    model: str = ""
    engine: str = ""
    api: str = ""


@dataclass(frozen=True, slots=True)
class UsageSum:
    """The sums of what has its dimensions in common. Those that were not asked for are empty."""

    line: Line
    amounts: Amounts
    day: str = ""
    """As 2026-11-23, in UTC."""
    tenant: str = ""
    key: str = ""
    """The key's id."""
    user: str = ""
    """The end user's digest."""
    model: str = ""
    engine: str = ""
    api: str = ""


class UsageBooks:
    """Books what requests used, and sums it up."""

    def __init__(self, db: Database) -> None:
        self._db = db
        self._bounds = Bounds()

    def book(self, used: Used) -> Future[None]:
        """Add what has no row of its own to the sums. Raises StoreBusy."""
        used = self._bounds.kept(used)
        return self._db.write(lambda connection: add_usage(self._db, connection, used), patient=True)

    def sums(
        self,
        by: Sequence[Dimension] = (),
        *,
        since_s: float = 0.0,
        until_s: float = 1e11,
        tenant: str | None = None,
        key_id: str | None = None,
        end_user: str | None = None,
    ) -> list[UsageSum]:
        """Sums of [since_s, until_s) by line and what else is asked for, the dearest first. Raises ValueError.

        Both times are rounded down to whole hours; to whole days (UTC) where it goes by end user, or one is named. The lines
        of the gateway's own accord know neither key nor end user nor API.
        """
        if unknown := [name for name in by if name not in DIMENSIONS]:
            raise ValueError(f"{unknown[0]!r} is none of {', '.join(DIMENSIONS)}")
        of_users = "user" in by or end_user is not None
        span_s = DAY_S if of_users else HOUR_S
        since, until = int(since_s) // span_s * span_s, int(until_s) // span_s * span_s
        chosen = ("line", *(_COLUMN_OF[name] for name in by))
        rows = USAGE.read(
            self._db.read(), chosen, span_s, since, until, tenant=tenant, key_id=key_id, end_user=end_user
        )
        if key_id is None and end_user is None:
            values = {"since": since, "until": until, "tenant": tenant}
            rows += self._db.read().execute(_overheads(by), values).fetchall()
        summed: dict[tuple[Any, ...], Amounts] = {}
        for row in rows:
            names, amounts = tuple(row[: len(chosen)]), Amounts(*row[len(chosen) :])
            summed[names] = amounts.plus(summed[names]) if names in summed else amounts
        found = [_as_sum(by, *one) for one in summed.items()]
        return sorted(
            found, key=lambda one: (one.line != "answer", -one.amounts.cost_usd, -one.amounts.requests)
        )

    def over_time(
        self,
        span_s: int,
        since_s: float,
        until_s: float,
        *,
        tenant: str | None = None,
        key_id: str | None = None,
        model: str | None = None,
    ) -> dict[int, Amounts]:
        """Sums over clients' requests of [since_s, until_s) by start; of one tenant, key or model if named.

        `span_s`: whole hours. The times are rounded down to whole hours.
        """
        rows = USAGE.read(
            self._db.read(),
            (_start(span_s),),
            HOUR_S,
            int(since_s) // HOUR_S * HOUR_S,
            until_s,
            line="answer",
            tenant=tenant,
            key_id=key_id,
            model=model,
        )
        return {start_s: Amounts(*amounts) for start_s, *amounts in rows}

    def overheads_over_time(
        self, span_s: int, since_s: float, until_s: float, *, tenant: str | None = None
    ) -> dict[int, float]:
        """Dollars of the gateway's own lines (judging, replay and so on) of [since_s, until_s) by start.

        `span_s`: whole hours. The times are rounded down to whole hours.
        """
        since, until = int(since_s) // HOUR_S * HOUR_S, int(until_s)
        where = "" if tenant is None else " AND tenant = :tenant"
        parts = [
            f"SELECT start_s AS at_s, cost_usd AS usd FROM usage_sums WHERE span_s = {HOUR_S} AND line <> 'answer'"  # noqa: S608
            f" AND start_s >= :since AND start_s < :until{where}"
        ]
        for elsewhere in _ELSEWHERE:
            _, table, time_, dollars = elsewhere[:4]
            parts.append(
                f"SELECT {time_} AS at_s, {dollars} AS usd FROM {table} WHERE {time_} >= :since"  # noqa: S608
                f" AND {time_} < :until{where}"
            )
        rows = self._db.read().execute(
            f"SELECT CAST(at_s AS INTEGER) / :span * :span, sum(usd) FROM ({' UNION ALL '.join(parts)}) AS parts"  # noqa: S608
            " GROUP BY 1",
            {"span": span_s, "since": since, "until": until, "tenant": tenant},
        )
        return {start_s: float(usd) for start_s, usd in rows.fetchall()}


class Bounds:
    """Keeps few names apart: clients make up end users and models, and every name has rows of its own."""

    def __init__(self, most: int = _MOST_NAMES, remembered: int = _MOST_REMEMBERED) -> None:
        self._most = most
        self._remembered = remembered
        self._day = 0
        self._seen: OrderedDict[tuple[str, str, str], None] = OrderedDict()
        self._counts: OrderedDict[tuple[str, str], int] = OrderedDict()

    def kept(self, used: Used) -> Used:
        """The same, with `OTHERS` in the place of names that are too many in one day and tenant."""
        day = int(used.at_s) // DAY_S
        if day > self._day:
            self._day = day
            self._seen.clear()
            self._counts.clear()
        end_user, model = (
            self._name(used.tenant, "user", used.end_user),
            self._name(used.tenant, "model", used.model),
        )
        if end_user is used.end_user and model is used.model:
            return used
        values = {field.name: getattr(used, field.name) for field in fields(Used)}
        return Used(**values | {"end_user": end_user, "model": model})

    def _name(self, tenant: str, kind: str, name: str) -> str:
        known = tenant, kind, name
        if not name or known in self._seen:
            return name
        count = self._counts.get((tenant, kind), 0)
        if count >= self._most:
            return OTHERS
        self._seen[known] = None
        self._counts[tenant, kind] = count + 1
        # Without gateway keys a client makes up its tenant, too.
        for kept in (self._seen, self._counts):
            if len(kept) > self._remembered:
                kept.popitem(last=False)
        return name


def usage_of(record: RequestRecord) -> Used:
    """What a row of the log says, without what the rows of a run's steps say."""
    cost_usd, reference_usd = record.cost_usd, record.reference_cost_usd
    reckoned = cost_usd is not None and reference_usd is not None
    return Used(
        at_s=record.started_at_s,
        tenant=record.tenant,
        key_id=record.key_id,
        end_user=record.end_user,
        model=plain(record.model),
        engine=record.engine,
        api=record.api,
        amounts=Amounts(
            requests=1,
            hits=int(record.outcome == "hit"),
            failed=int(record.outcome not in ("hit", "answered")),
            prompt_tokens=0 if record.sums_up else record.prompt_tokens,
            cached_tokens=0 if record.sums_up else record.cached_tokens,
            completion_tokens=0 if record.sums_up else record.completion_tokens,
            images=record.images,
            cost_usd=cost_usd or 0.0,
            unpriced=int(cost_usd is None),
            estimated=int(record.usage_estimated),
            example_tokens=record.example_tokens,
            examples_usd=record.examples_usd,
            reference_usd=(reference_usd or 0.0) if reckoned else 0.0,
            reckoned_usd=(cost_usd or 0.0) if reckoned else 0.0,
        ),
    )


def add_usage(db: Database, connection: Connection, used: Used, *, only_if: Rows | None = None) -> None:
    """Add to the sums, inside a job of the writer; `only_if`: where that statement changed a row."""
    at_s, amounts = int(used.at_s), used.amounts
    where = used.key_id, used.model, used.engine, used.api
    hour = HOUR_S, at_s // HOUR_S * HOUR_S, used.line, used.tenant, "", *where
    db.add(connection, USAGE.insert, hour, amounts, only_if)
    if used.line == "answer":
        day = DAY_S, at_s // DAY_S * DAY_S, used.line, used.tenant, used.end_user, *where
        db.add(connection, USAGE.insert, day, amounts, only_if)


USAGE = Sums(
    "usage_sums",
    ("line", "tenant", "end_user", "key_id", "model", "engine", "api"),
    Amounts._fields,
    {HOUR_S: _KEPT_S, DAY_S: _KEPT_S},
    tenant_gone={
        "key_id": "''",
        "end_user": "''",
        # Models that have sums by themselves are served here; other names clients made up.
        "model": f"CASE WHEN model IN (SELECT model FROM request_rollups) THEN model ELSE '{OTHERS}' END",  # noqa: S608
    },
)
"""By hour without end users, and clients' requests by day with them."""
_COLUMN_OF: dict[Dimension, str] = {
    "day": "start_s / 86400",
    "tenant": "tenant",
    "key": "key_id",
    "user": "end_user",
    "model": "model",
    "engine": "engine",
    "api": "api",
}


def _start(span_s: int) -> str:
    return f"start_s / {int(span_s)} * {int(span_s)}"


_UNDER_WAY = "CASE WHEN state IN ('asked', 'unknown') THEN most_usd ELSE 0.0 END"


def _kept(line: str) -> tuple[str, ...]:
    """What was paid about rows that are deleted or never were: see store.decisions.costs."""
    rows = f"(SELECT * FROM cost_sums WHERE span_s = {MINUTE_S} AND line = '{line}') AS kept_{line}"  # noqa: S608
    return (line, rows, "start_s", "amount", "prompt_tokens", "completion_tokens", "requests")


_ELSEWHERE: tuple[tuple[str, ...], ...] = (
    (
        "replay",
        "replay_asks",
        "asked_at_s",
        f"cost_usd + {_UNDER_WAY}",
        "prompt_tokens",
        "completion_tokens",
        "1",
    ),
    ("manual_queries", "operator_asks", "at_s", "cost_usd", "prompt_tokens", "completion_tokens", "1"),
    *(_kept(line) for line in ("replay", "manual_queries", "warm")),
)
"""Where the lines are that have tables of their own: (line, table, time, dollars, prompt tokens, completion tokens,
requests)."""


def _overheads(by: Sequence[Dimension]) -> str:
    parts = []
    for line, table, time_, dollars, prompt, completion, requests in _ELSEWHERE:
        known = {"day": f"CAST({time_} AS INTEGER) / 86400", "tenant": "tenant", "engine": "engine"}
        chosen = ", ".join(known.get(name, "''") + f" AS d{place}" for place, name in enumerate(by))
        amounts = {
            "requests": f"coalesce(sum({requests}), 0)",
            "prompt_tokens": f"coalesce(sum({prompt}), 0)",
            "completion_tokens": f"coalesce(sum({completion}), 0)",
            "cost_usd": f"coalesce(sum({dollars}), 0.0)",
        }
        summed = ", ".join(f"{amounts.get(name, '0')} AS {name}" for name in Amounts._fields)
        groups = "".join(f", {place + 2}" for place in range(len(by)))
        parts.append(
            f"SELECT '{line}' AS line{', ' if by else ''}{chosen}, {summed} FROM {table}"  # noqa: S608 - constants
            f" WHERE {time_} >= :since AND {time_} < :until AND (:tenant IS NULL OR tenant = :tenant) GROUP BY 1{groups}"
        )
    names = ", ".join(["line", *(f"d{place}" for place in range(len(by)))])
    summed = ", ".join(f"sum({name})" for name in Amounts._fields)
    return f"SELECT {names}, {summed} FROM ({' UNION ALL '.join(parts)}) AS parts GROUP BY {names}"  # noqa: S608


def _as_sum(by: Sequence[Dimension], names: Sequence[Any], amounts: Amounts) -> UsageSum:
    found: dict[str, str] = dict(zip(by, names[1:], strict=True))
    if "day" in found:
        found["day"] = _day(int(found["day"]))
    return UsageSum(names[0], amounts, **found)


def _day(number: int) -> str:
    from datetime import UTC, datetime

    return datetime.fromtimestamp(number * DAY_S, UTC).strftime("%Y-%m-%d")
