"""What was paid about rows that are deleted by now: a deletion changes no total.

Whoever deletes such rows calls `keep_costs` in the same job; whoever sums them up adds what was kept. Holds no content.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future
from typing import NamedTuple

from store.database import Connection, Database
from store.decisions.rollups import DAY_S, DELETED

_KEPT_S = 400 * DAY_S
_MINUTE_S = 60


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
        f"INSERT INTO kept_costs ({_COLUMNS}) SELECT tenant, CAST({costs.at_s} AS INTEGER) / {_MINUTE_S} * {_MINUTE_S},"  # noqa: S608
        f" '{costs.line}', {costs.engine}, {costs.purpose}, count(*), coalesce(sum({costs.prompt_tokens}), 0),"
        f" coalesce(sum({costs.completion_tokens}), 0), coalesce(sum({costs.cost_usd}), 0.0)"
        f" FROM {costs.table} WHERE {where} AND {costs.cost_usd} > 0 GROUP BY 1, 2, 4, 5{_ON_CONFLICT}",
        tuple(values),
    )


def kept_usd(connection: Connection, line: str, since_s: float, tenant: str | None = None) -> float:
    """What was kept of a line since then, in US dollars; of one tenant if named (`DELETED`: of all that were deleted)."""
    return sum(one.cost_usd for one in kept_lines(connection, line, since_s, tenant))


def kept_lines(
    connection: Connection, line: str, since_s: float, tenant: str | None = None
) -> list[KeptLine]:
    """The same by engine and purpose."""
    rows = connection.execute(
        "SELECT engine, purpose, sum(requests), sum(cost_usd), sum(prompt_tokens + completion_tokens) FROM kept_costs"
        " WHERE line = :line AND start_s >= :since AND (:tenant IS NULL OR tenant = :tenant)"
        " GROUP BY engine, purpose ORDER BY engine, purpose",
        {"line": line, "since": int(since_s) // _MINUTE_S * _MINUTE_S, "tenant": tenant},
    )
    return [KeptLine(*row) for row in rows.fetchall()]


class KeptCosts:
    """What becomes of them when their tenant is deleted, and when they are old."""

    def __init__(self, db: Database) -> None:
        self._db = db

    def forget_tenant(self, tenant: str) -> Future[None]:
        """From now on a tenant's costs are those of deleted tenants together. To be asked last of all that forget it."""

        def move(connection: Connection) -> None:
            columns = _COLUMNS.replace("tenant", f"'{DELETED}'", 1)
            connection.execute(
                f"INSERT INTO kept_costs ({_COLUMNS}) SELECT {columns} FROM kept_costs WHERE tenant = ?{_ON_CONFLICT}",  # noqa: S608
                (tenant,),
            )
            connection.execute("DELETE FROM kept_costs WHERE tenant = ?", (tenant,))

        return self._db.write(move)

    def trim(self, now_s: float) -> Future[int]:
        """Drop what is older than 400 days; gives how many rows."""
        return self._db.write(
            lambda connection: (
                connection.execute(
                    "DELETE FROM kept_costs WHERE start_s < ?", (int(now_s - _KEPT_S),)
                ).rowcount
            )
        )


_COLUMNS = "tenant, start_s, line, engine, purpose, requests, prompt_tokens, completion_tokens, cost_usd"
_ON_CONFLICT = " ON CONFLICT (tenant, start_s, line, engine, purpose) DO UPDATE SET " + ", ".join(
    f"{name} = kept_costs.{name} + excluded.{name}"
    for name in ("requests", "prompt_tokens", "completion_tokens", "cost_usd")
)
