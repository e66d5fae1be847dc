"""What was paid off-peak outside any run of replay, one row per request: near misses, warmed prefixes, private examples."""

from __future__ import annotations

import sqlite3
import time
from concurrent.futures import Future

from store.jobs.replay_records import ReplaySpent, SpendLine
from store.sqlite.database import Database


class ReplaySideCosts:
    """Reads and writes them. Every write's future resolves after its commit."""

    def __init__(self, db: Database) -> None:
        self._db = db

    def book(self, tenant: str, engine: str, purpose: str, cost_usd: float, tokens: int = 0) -> Future[None]:
        """Note one request that was paid for. `purpose` is a word for the report, such as warm or private_write."""
        now_s = time.time()

        def insert(connection: sqlite3.Connection) -> None:
            connection.execute(
                "INSERT INTO replay_side_costs (tenant, engine, purpose, cost_usd, tokens, asked_at_s)"
                " VALUES (?, ?, ?, ?, ?, ?)",
                (tenant, engine, purpose, cost_usd, tokens, now_s),
            )

        return self._db.write(insert)

    def spend(self, *, since_s: float = 0.0, tenant: str | None = None) -> list[SpendLine]:
        """US dollars and tokens by engine and purpose; of all tenants where none is named."""
        rows = self._db.read().execute(
            "SELECT engine, purpose, count(*), sum(cost_usd), sum(tokens) FROM replay_side_costs"
            " WHERE asked_at_s >= :since AND (:tenant IS NULL OR tenant = :tenant)"
            " GROUP BY engine, purpose ORDER BY engine, purpose",
            {"since": since_s, "tenant": tenant},
        )
        return [
            SpendLine(engine, purpose, asks, ReplaySpent(usd, tokens, 0.0, 0.0, 0))
            for engine, purpose, asks, usd, tokens in rows.fetchall()
        ]
