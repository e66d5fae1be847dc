"""What was paid outside the log of requests: about rows that are gone, off-peak, and what judging and shadows may spend.

Whoever deletes rows that say what was paid calls `keep_costs` in the same job; whoever sums them up adds what was kept: a
deletion changes no total.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import NamedTuple

from store.database import Connection, Database
from store.sums import DAY_S, MINUTE_S, Sums, by_span

_MOMENT_S = 600
_SPENT = {_MOMENT_S: 3 * DAY_S, DAY_S: 400 * DAY_S}
COSTS = Sums(
    "cost_sums",
    ("line", "tenant", "engine", "purpose"),
    ("requests", "prompt_tokens", "completion_tokens", "amount"),
    {MINUTE_S: 400 * DAY_S, **_SPENT},
)
"""By minute what was paid, of a line; by the longer spans what was spent of a unit, such as usd, which stands as a line."""


class CostsOf(NamedTuple):
    """Where one line's costs are, as SQL: a table, or a query with a name, and what to take of its columns."""

    line: str
    table: str
    at_s: str
    cost_usd: str = "cost_usd"
    engine: str = "''"
    purpose: str = "''"
    prompt_tokens: str = "0"
    completion_tokens: str = "0"


class KeptLine(NamedTuple):
    """What was paid, by engine and purpose."""

    engine: str
    purpose: str
    requests: int
    cost_usd: float
    tokens: int


def keep_costs(connection: Connection, costs: CostsOf, where: str, values: Sequence[object]) -> None:
    """Keep the costs of the rows that `where` names, which the same job deletes afterwards."""
    # All of our own constants; `where` is a caller's.
    connection.execute(
        f"{COSTS.insert.into} SELECT {MINUTE_S},"  # noqa: S608
        f" CAST({costs.at_s} AS INTEGER) / {MINUTE_S} * {MINUTE_S}, '{costs.line}', tenant, {costs.engine},"
        f" {costs.purpose}, count(*), coalesce(sum({costs.prompt_tokens}), 0),"
        f" coalesce(sum({costs.completion_tokens}), 0), coalesce(sum({costs.cost_usd}), 0.0)"
        f" FROM {costs.table} WHERE {where} AND {costs.cost_usd} > 0 GROUP BY 2, 4, 5, 6{COSTS.insert.on_conflict}",
        tuple(values),
    )


def kept_usd(connection: Connection, line: str, since_s: float, tenant: str | None = None) -> float:
    """What was kept of a line since then, in US dollars; of one tenant if named (`DELETED`: of all that were deleted)."""
    return sum(one.cost_usd for one in kept_lines(connection, line, since_s, tenant))


def kept_lines(
    connection: Connection, line: str, since_s: float, tenant: str | None = None
) -> list[KeptLine]:
    """The same by engine and purpose."""
    rows = COSTS.read(
        connection,
        ("engine", "purpose"),
        MINUTE_S,
        since_s // MINUTE_S * MINUTE_S,
        amounts=("requests", "amount", "prompt_tokens + completion_tokens"),
        line=line,
        tenant=tenant,
    )
    return [KeptLine(*row) for row in rows]


@dataclass(frozen=True, slots=True)
class Cap:
    """Most that may have been spent since a time: rounded down to ten minutes, or to a day beyond three days ago."""

    since_s: float
    most: float
    tenant: str | None = None
    """None: by all tenants together."""


class Spending:
    """What comparing answers in the background has cost and what is set aside, in units that the caller names, such as usd.

    Every process reserves here before it spends.
    """

    def __init__(self, db: Database) -> None:
        self._db = db
        self.reads = db.reads
        """Has `spent` read for an event loop."""

    def reserve(
        self, tenant: str, unit: str, amount: float, at_s: float, caps: Sequence[Cap]
    ) -> Future[bool]:
        """Set an amount aside; False, and nothing is, where a cap would not hold. Exact among processes."""

        def write(connection: Connection) -> bool:
            self._db.hold(connection, "spending")
            for cap in caps:
                spent = _spent(connection, unit, cap.since_s, cap.tenant, at_s)
                # A hair of tolerance: sums of floats must not forbid what adds up to exactly the cap.
                if spent + amount > cap.most + 1e-9 * abs(cap.most):
                    return False
            _add(connection, tenant, unit, amount, at_s)
            return True

        return self._db.write(write)

    def settle(self, tenant: str, unit: str, reserved: float, spent: float, at_s: float) -> Future[None]:
        """Book what was spent of an amount that was reserved at `at_s`, and give the rest back."""

        def write(connection: Connection) -> None:
            self._db.hold(connection, "spending")
            _add(connection, tenant, unit, spent - reserved, at_s)

        return self._db.write(write)

    def spent(self, unit: str, since_s: float, now_s: float, tenant: str | None = None) -> float:
        """What was spent or set aside since a time, rounded down as in Cap; by one tenant if named."""
        return _spent(self._db.read(), unit, since_s, tenant, now_s)


def _spent(connection: Connection, unit: str, since_s: float, tenant: str | None, now_s: float) -> float:
    span_s = _MOMENT_S if since_s > now_s - _SPENT[_MOMENT_S] else DAY_S
    rows = COSTS.read(
        connection,
        ("line",),
        span_s,
        since_s // span_s * span_s,
        amounts=("amount",),
        line=unit,
        tenant=tenant,
    )
    return max(0.0, sum(float(amount) for _, amount in rows))


def _add(connection: Connection, tenant: str, unit: str, amount: float, at_s: float) -> None:
    spans = by_span(_SPENT, at_s)
    COSTS.add(connection, {(*span, unit, tenant, "", ""): (0, 0, 0, amount) for span in spans})
