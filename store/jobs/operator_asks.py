"""Engines that operators asked by hand: when, which, and what it cost. Holds no text."""

from __future__ import annotations

from concurrent.futures import Future
from dataclasses import astuple, dataclass

from store.database import Connection, Database
from store.decisions.costs import CostsOf, keep_costs, kept_usd


@dataclass(frozen=True, slots=True)
class OperatorAsk:
    """One engine asked what a client had asked."""

    at_s: float
    user: str
    """The operator's name."""
    tenant: str
    request_id: str
    engine: str
    with_examples: bool
    cost_usd: float
    prompt_tokens: int
    completion_tokens: int
    latency_s: float


class OperatorAsks:
    """A log of such requests, and what they cost."""

    def __init__(self, db: Database) -> None:
        self._db = db

    def note(self, ask: OperatorAsk) -> Future[None]:
        """Keep one. Raises StoreBusy."""
        row = astuple(ask)

        def insert(connection: Connection) -> None:
            connection.execute(_INSERT, row)

        return self._db.write(insert)

    def spent_usd(self, since_s: float, tenant: str | None = None) -> float:
        """What asking by hand has cost since then in US dollars, about one tenant's requests or all. Reads by an index."""
        row: tuple[float] = (
            self._db.read()
            .execute(
                "SELECT coalesce(sum(cost_usd), 0.0) FROM operator_asks WHERE at_s >= :since"
                " AND (:tenant IS NULL OR tenant = :tenant)",
                {"since": since_s, "tenant": tenant},
            )
            .fetchone()
        )
        return row[0] + kept_usd(self._db.read(), "manual_queries", since_s, tenant)

    def forget_tenant(self, tenant: str) -> Future[int]:
        """Delete what names a tenant's requests; gives how many. What they cost is kept (store.decisions.costs)."""

        def delete(connection: Connection) -> int:
            keep_costs(connection, _COSTS, "tenant = ?", (tenant,))
            return connection.execute("DELETE FROM operator_asks WHERE tenant = ?", (tenant,)).rowcount

        return self._db.write(delete)


_COSTS = CostsOf(
    "manual_queries",
    "operator_asks",
    "at_s",
    engine="engine",
    prompt_tokens="prompt_tokens",
    completion_tokens="completion_tokens",
)

_INSERT = (
    'INSERT INTO operator_asks (at_s, "user", tenant, request_id, engine, with_examples, cost_usd, prompt_tokens,'
    " completion_tokens, latency_s) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
)
