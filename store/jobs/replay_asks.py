"""What replay asked of engines and paid for: noted before it is asked, so that a kill repeats nothing that was paid for.

An answer is committed with its cost before anything else happens. What was under way when a process was killed is counted as
spent to an unknown extent, and said. Knows no engine and no example.
"""

from __future__ import annotations

import sqlite3
import time
from concurrent.futures import Future

from store.jobs.replay_records import AskState, NewAsk, ReplayBudget, ReplaySpent, SpendLine
from store.sqlite.database import Database


class BudgetSpent(Exception):
    """The next request might cost more than is left. The text says of what."""


class StopAsked(Exception):
    """A person asked the run to stop, or it does not go on any more."""


class ReplayAsks:
    """Reads and writes them. Every write's future resolves after its commit."""

    def __init__(self, db: Database) -> None:
        self._db = db

    def note(self, ask: NewAsk) -> Future[int]:
        """Note a request before it is sent, if the budget allows for the most it can cost; gives its id.

        Its step is `asked` from then on. The future raises BudgetSpent, or StopAsked. Money is counted and set aside in one
        transaction, so that a budget holds whoever asks at the same time.
        """

        def insert(connection: sqlite3.Connection) -> int:
            row = connection.execute(_GOES_ON, (ask.run_id,)).fetchone()
            if row is None:
                raise StopAsked
            _check_budget(ReplayBudget(*row), _spent(connection, ask.run_id), ask)
            now_s = time.time()
            connection.execute(
                "UPDATE replay_steps SET state = 'asked', changed_at_s = ? WHERE id = ? AND state = 'planned'",
                (now_s, ask.step_id),
            )
            id = connection.execute(
                "INSERT INTO replay_asks (run_id, step_id, tenant, key, engine, purpose, state, most_usd, most_tokens,"
                " asked_at_s) VALUES (?, ?, ?, ?, ?, ?, 'asked', ?, ?, ?)",
                (
                    *(ask.run_id, ask.step_id, ask.tenant, ask.key, ask.engine, ask.purpose),
                    *(ask.most_usd, ask.most_tokens, now_s),
                ),
            ).lastrowid
            assert id is not None
            return id

        return self._db.write(insert)

    def answered(
        self,
        ask_id: int,
        state: AskState,
        *,
        cost_usd: float,
        prompt_tokens: int = 0,
        completion_tokens: int = 0,
        latency_s: float = 0.0,
        text: str = "",
    ) -> Future[None]:
        """Note what became of a request: what it cost, and what has to be remembered of its answer."""

        def update(connection: sqlite3.Connection) -> None:
            connection.execute(
                "UPDATE replay_asks SET state = ?, cost_usd = ?, prompt_tokens = ?, completion_tokens = ?, latency_s = ?,"
                " text = ?, ended_at_s = ? WHERE id = ?",
                (state, cost_usd, prompt_tokens, completion_tokens, latency_s, text, time.time(), ask_id),
            )

        return self._db.write(update)

    def paid(self, step_id: int) -> dict[str, str]:
        """What a step has bought already: key to what was remembered of the answer."""
        rows = self._db.read().execute(
            "SELECT key, text FROM replay_asks WHERE step_id = ? AND state = 'paid'", (step_id,)
        )
        return dict(rows.fetchall())

    def spent(self, run_id: int) -> ReplaySpent:
        """What a run has spent so far; what is under way counts as unknown."""
        return _spent(self._db.read(), run_id)

    def cost_by_step(self, run_id: int) -> dict[int, float]:
        """Dollars that are known to have been spent, by step of a run."""
        rows = self._db.read().execute(
            "SELECT step_id, sum(cost_usd) FROM replay_asks WHERE run_id = ? GROUP BY step_id", (run_id,)
        )
        return dict(rows.fetchall())

    def spend(
        self, *, since_s: float = 0.0, tenant: str | None = None, run_id: int | None = None
    ) -> list[SpendLine]:
        """What replay spent, by engine and purpose: replay's own line in every report of costs."""
        rows = self._db.read().execute(
            "SELECT engine, purpose, "  # noqa: S608 - our own constants
            + _SUMS.removeprefix("SELECT ")
            + " FROM replay_asks WHERE asked_at_s >= :since"
            " AND (:tenant IS NULL OR tenant = :tenant) AND (:run IS NULL OR run_id = :run)"
            " GROUP BY engine, purpose ORDER BY engine, purpose",
            {"since": since_s, "tenant": tenant, "run": run_id},
        )
        return [SpendLine(row[0], row[1], row[2], ReplaySpent(*row[3:])) for row in rows.fetchall()]


def _spent(connection: sqlite3.Connection, run_id: int) -> ReplaySpent:
    row = connection.execute(_SUMS + " FROM replay_asks WHERE run_id = ?", (run_id,)).fetchone()
    return ReplaySpent(*row[1:])


def _check_budget(budget: ReplayBudget, spent: ReplaySpent, ask: NewAsk) -> None:
    # A hair of tolerance: sums of floats must not forbid what adds up to exactly the budget.
    if budget.usd is not None and spent.most_usd + ask.most_usd > budget.usd * (1 + 1e-9):
        raise BudgetSpent("dollars")
    if budget.tokens is not None and spent.tokens + spent.unknown_tokens + ask.most_tokens > budget.tokens:
        raise BudgetSpent("tokens")
    if budget.seconds is not None and spent.seconds >= budget.seconds:
        raise BudgetSpent("minutes")


_GOES_ON = (
    "SELECT budget_usd, budget_tokens, budget_s FROM replay_runs"
    " WHERE id = ? AND stop_asked = 0 AND state IN ('running', 'paused')"
)
_UNDER_WAY = "CASE WHEN state IN ('asked', 'unknown') THEN "
_SUMS = (
    "SELECT count(*), coalesce(sum(cost_usd), 0.0), coalesce(sum(prompt_tokens + completion_tokens), 0),"
    f" coalesce(sum(latency_s), 0.0), coalesce(sum({_UNDER_WAY} most_usd ELSE 0.0 END), 0.0),"
    f" coalesce(sum({_UNDER_WAY} most_tokens ELSE 0 END), 0)"
)
