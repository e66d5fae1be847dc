"""Replay's runs, the steps of their plans, what was asked of engines for each step, and what that cost.

Two runs never go on at once: the database forbids it, whatever becomes of the lease. A request to an engine is noted
before it is sent and its answer is committed with its cost, so that a kill repeats nothing that was paid for; what was
under way then counts as spent to an unknown extent. Knows no engine and no example.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from typing import Any

from store.database import Connection, Database
from store.decisions.costs import COSTS, CostsOf, keep_costs, kept_lines
from store.jobs.replay_effects import ReplayEffects
from store.jobs.replay_records import (
    AskState,
    NewAsk,
    NewStep,
    ReplayBudget,
    ReplayRun,
    ReplaySpent,
    ReplayStep,
    RunState,
    SpendLine,
    StepKind,
    StepState,
)
from store.sums import MINUTE_S, by_span


class AnotherReplayRuns(Exception):
    """A run goes on already, in this process or another."""


class NotThatRun(Exception):
    """There is no such run, or its state does not allow this. The text says which."""


class ReplayJobs:
    """Runs and their steps. Every write's future resolves after its commit."""

    def __init__(self, db: Database) -> None:
        self._db = db
        self.asks = ReplayAsks(db)
        """What the runs asked of engines, and what that cost."""
        self.side_costs = ReplaySideCosts(db)
        """What was paid off-peak outside any run."""
        self.effects = ReplayEffects(db)
        """What runs changed, and what became of requests before and after."""

    def spend(self, *, since_s: float = 0.0, tenant: str | None = None) -> list[SpendLine]:
        """Everything that was paid off-peak, in runs and outside them, by engine and purpose; a pair may come again."""
        return [
            *self.asks.spend(since_s=since_s, tenant=tenant),
            *(
                SpendLine(
                    one.engine, one.purpose, one.requests, ReplaySpent(one.cost_usd, one.tokens, 0.0, 0.0, 0)
                )
                for one in kept_lines(self._db.read(), "replay", since_s, tenant)
            ),
        ]

    # ---- runs

    def want(
        self,
        tenant: str,
        budget: ReplayBudget,
        *,
        asked_by: str,
        by_user: str = "",
        steps: Sequence[NewStep] = (),
    ) -> Future[int]:
        """Ask for a run; gives its id. Whoever runs replays takes it up with `begin`. Raises StoreBusy.

        `steps`: its plan, where it has one already. `by_user`: who asked for it on the admin pages.
        """

        def want(connection: Connection) -> int:
            run_id = _insert_run(connection, tenant, budget, asked_by, by_user)
            if steps:
                _insert_plan(connection, run_id, steps)
            return run_id

        return self._db.write(want)

    def begin(self, run_id: int) -> Future[ReplayRun]:
        """Take up a run that is wanted, or go on with one that ended before its plan did.

        The future raises AnotherReplayRuns while another goes on, NotThatRun for one that cannot be begun.
        """

        def begin(connection: Connection) -> ReplayRun:
            self._db.hold(connection, _HELD)
            run = _run(connection, run_id)
            if run is None:
                raise NotThatRun(f"there is no run {run_id}; `understudy learn replay list` shows them")
            if run.state in ("running", "paused"):
                raise AnotherReplayRuns(f"run {run_id} goes on already")
            if run.state == "undone":
                raise NotThatRun(f"run {run_id} was reverted; start a new one")
            now_s = time.time()
            if connection.execute(_ANY_GOES_ON).fetchone() is not None:
                raise AnotherReplayRuns("another run goes on; two never do at once")
            connection.execute(
                "UPDATE replay_runs SET state = 'running', started_at_s = coalesce(started_at_s, ?),"
                " ended_at_s = NULL, stop_asked = 0, note = '' WHERE id = ?",
                (now_s, run_id),
            )
            begun = _run(connection, run_id)
            assert begun is not None
            return begun

        return self._db.write(begin)

    def widen(self, run_id: int, budget: ReplayBudget) -> Future[None]:
        """Give a run another budget: all of it, what was spent before included."""
        return self._db.write(
            lambda connection: _execute(
                connection,
                "UPDATE replay_runs SET budget_usd = ?, budget_tokens = ?, budget_s = ? WHERE id = ?",
                (budget.usd, budget.tokens, budget.seconds, run_id),
            )
        )

    def goes_on(self, run_id: int, state: RunState, note: str = "") -> Future[None]:
        """Say how a run goes on: running, or paused and why."""
        return self._db.write(
            lambda connection: _execute(
                connection,
                "UPDATE replay_runs SET state = ?, note = ? WHERE id = ? AND state IN ('running', 'paused')",
                (state, note, run_id),
            )
        )

    def end(self, run_id: int, state: RunState, note: str = "") -> Future[None]:
        """Say how a run ended."""
        return self._db.write(
            lambda connection: _execute(
                connection,
                "UPDATE replay_runs SET state = ?, note = ?, ended_at_s = ?, stop_asked = 0 WHERE id = ?",
                (state, note, time.time(), run_id),
            )
        )

    def interrupt_dead(self) -> Future[list[int]]:
        """Give up runs whose process is gone; gives their ids. Only for whoever holds replay's lease: none can be alive.

        What they had asked and not been answered is counted as spent to an unknown extent.
        """

        def give_up(connection: Connection) -> list[int]:
            dead = [
                id
                for (id,) in connection.execute(
                    "SELECT id FROM replay_runs WHERE state IN ('running', 'paused')"
                ).fetchall()
            ]
            now_s = time.time()
            connection.execute(
                "UPDATE replay_asks SET state = 'unknown', ended_at_s = ? WHERE state = 'asked'", (now_s,)
            )
            connection.execute(
                "UPDATE replay_runs SET state = 'interrupted', ended_at_s = ?, note = 'its process ended'"
                " WHERE state IN ('running', 'paused')",
                (now_s,),
            )
            return dead

        return self._db.write(give_up)

    def ask_to_stop(self, run_id: int) -> Future[bool]:
        """Have a run stop before its next request to an engine; False if it does not go on. A wanted one ends at once."""

        def stop(connection: Connection) -> bool:
            changed = connection.execute(
                "UPDATE replay_runs SET stop_asked = 1 WHERE id = ? AND state IN ('running', 'paused')",
                (run_id,),
            ).rowcount
            changed += connection.execute(
                "UPDATE replay_runs SET state = 'stopped', note = 'taken back', ended_at_s = ?"
                " WHERE id = ? AND state = 'wanted'",
                (time.time(), run_id),
            ).rowcount
            return changed > 0

        return self._db.write(stop)

    def run(self, run_id: int) -> ReplayRun | None:
        """One run, or None."""
        return _run(self._db.read(), run_id)

    def runs(
        self, *, limit: int = 50, tenant: str | None = None, states: Sequence[RunState] = ()
    ) -> list[ReplayRun]:
        """The latest runs, newest first; of one tenant, in some states, if named."""
        rows = self._db.read().execute(
            _RUN  # noqa: S608 - our own constants
            + " WHERE (:tenant IS NULL OR tenant = :tenant)"
            " AND (:states = '[]' OR state IN (SELECT value FROM json_each(:states))) ORDER BY id DESC LIMIT :limit",
            {"tenant": tenant, "states": json.dumps(list(states)), "limit": limit},
        )
        return [_as_run(row) for row in rows.fetchall()]

    # ---- steps

    def plan(self, run_id: int, steps: Sequence[NewStep]) -> Future[int]:
        """Give a run its plan, in order; gives how many steps it has. One that has a plan keeps it."""

        def insert(connection: Connection) -> int:
            (count,) = connection.execute(
                "SELECT count(*) FROM replay_steps WHERE run_id = ?", (run_id,)
            ).fetchone()
            if count:
                return int(count)
            _insert_plan(connection, run_id, steps)
            return len(steps)

        return self._db.write(insert)

    def steps(self, run_id: int) -> list[ReplayStep]:
        """A run's steps in the order of its plan."""
        rows = self._db.read().execute(_STEP + " WHERE run_id = ? ORDER BY position", (run_id,))
        return [_as_step(row) for row in rows.fetchall()]

    def progress(self, run_id: int) -> dict[StepState, int]:
        """How many of a run's steps are in which state."""
        rows = self._db.read().execute(
            "SELECT state, count(*) FROM replay_steps WHERE run_id = ? GROUP BY state", (run_id,)
        )
        return dict(rows.fetchall())

    def results(self, kind: StepKind, tenant: str) -> dict[tuple[str, str], int]:
        """What came of all steps of a kind for a tenant so far: what a planner may expect of the next.

        By (engine whose answer it was, result); the engine is empty where the step did not note it.
        """
        rows = self._db.read().execute(
            "SELECT coalesce(json_extract(detail, '$.source'), ''), result, count(*) FROM replay_steps"
            " WHERE tenant = ? AND kind = ? AND state = 'done' GROUP BY 1, 2",
            (tenant, kind),
        )
        return {(source, result): count for source, result, count in rows.fetchall()}

    def replayed_since(self, tenant: str, since_s: float) -> set[tuple[StepKind, int]]:
        """(kind, example id) of what was done since then, and so need not be done again."""
        rows = self._db.read().execute(
            "SELECT kind, example_id FROM replay_steps WHERE tenant = ? AND state = 'done' AND changed_at_s >= ?",
            (tenant, since_s),
        )
        return set(rows.fetchall())

    def finish(
        self, step_id: int, state: StepState, result: str, detail: Mapping[str, Any] | None = None
    ) -> Future[None]:
        """Say what became of a step."""
        return self._db.write(
            lambda connection: finish_step(connection, step_id, state, result, detail or {})
        )

    def trim(self, before_s: float) -> Future[int]:
        """Delete runs that ended, and costs outside runs that were paid, before then; gives how many runs.

        What they did can still be undone, example by example.
        """

        def trim(connection: Connection) -> int:
            return connection.execute(
                "DELETE FROM replay_runs WHERE ended_at_s < ? AND state NOT IN ('running', 'paused')",
                (before_s,),
            ).rowcount

        return self._db.write(trim)

    def forget_tenant(self, tenant: str) -> Future[None]:
        """Delete a tenant's steps and what was asked for them, runs that were the tenant's alone, costs outside runs.

        What all that cost is kept (store.decisions.costs).
        """

        def forget(connection: Connection) -> None:
            for costs in _COSTS:
                keep_costs(connection, costs, "tenant = ?", (tenant,))
            for table in ("replay_asks", "replay_steps", "replay_runs"):
                connection.execute(f"DELETE FROM {table} WHERE tenant = ?", (tenant,))  # noqa: S608

        return self._db.write(forget)


def finish_step(
    connection: Connection, step_id: int, state: StepState, result: str, detail: Mapping[str, Any]
) -> None:
    """Note a step's result, inside the caller's write job; the answers that a done or skipped step bought are emptied."""
    connection.execute(
        "UPDATE replay_steps SET state = ?, result = ?, detail = ?, changed_at_s = ? WHERE id = ?",
        (state, result, json.dumps(detail, separators=(",", ":")), time.time(), step_id),
    )
    if state in ("done", "skipped"):
        connection.execute("UPDATE replay_asks SET text = '' WHERE step_id = ? AND text <> ''", (step_id,))


def _insert_run(
    connection: Connection, tenant: str, budget: ReplayBudget, asked_by: str, by_user: str
) -> int:
    id: int = connection.execute(
        "INSERT INTO replay_runs (tenant, asked_by, state, created_at_s, budget_usd, budget_tokens, budget_s, by_user)"
        " VALUES (?, ?, 'wanted', ?, ?, ?, ?, ?) RETURNING id",
        (tenant, asked_by, time.time(), budget.usd, budget.tokens, budget.seconds, by_user),
    ).fetchone()[0]
    return id


def _insert_plan(connection: Connection, run_id: int, steps: Sequence[NewStep]) -> None:
    now_s = time.time()
    connection.executemany(
        "INSERT INTO replay_steps (run_id, position, tenant, kind, example_id, state, gain,"
        " expected_effect, expected_usd, expected_tokens, expected_s, changed_at_s)"
        " VALUES (?, ?, ?, ?, ?, 'planned', ?, ?, ?, ?, ?, ?)",
        [
            (
                *(run_id, position, step.tenant, step.kind, step.example_id, step.gain),
                *(step.expected_effect, step.expected_usd),
                *(step.expected_tokens, step.expected_s, now_s),
            )
            for position, step in enumerate(steps)
        ],
    )


def _execute(connection: Connection, statement: str, values: tuple[Any, ...]) -> None:
    connection.execute(statement, values)


def _run(connection: Connection, run_id: int) -> ReplayRun | None:
    row = connection.execute(_RUN + " WHERE id = ?", (run_id,)).fetchone()
    return None if row is None else _as_run(row)


def _as_run(row: Sequence[Any]) -> ReplayRun:
    return ReplayRun(*(*row[:7], ReplayBudget(*row[7:10]), bool(row[10]), *row[11:]))


def _as_step(row: Sequence[Any]) -> ReplayStep:
    return ReplayStep(*row[:3], *(NewStep(*row[3:11]), *row[11:]))


_RUN = (
    "SELECT id, tenant, asked_by, state, created_at_s, started_at_s, ended_at_s, budget_usd,"
    " budget_tokens, budget_s, stop_asked, note, by_user FROM replay_runs"
)
_STEP = (
    "SELECT id, run_id, position, tenant, kind, example_id, gain, expected_effect, expected_usd,"
    " expected_tokens, expected_s, state, result, detail, changed_at_s FROM replay_steps"
)


class BudgetSpent(Exception):
    """The next request might cost more than is left. The text says how much that is, and of what budget."""


class StopAsked(Exception):
    """A person asked the run to stop, or it does not go on any more."""


class ReplayAsks:
    """What runs ask of engines. Every write's future resolves after its commit."""

    def __init__(self, db: Database) -> None:
        self._db = db

    def note(self, ask: NewAsk) -> Future[int]:
        """Note a request before it is sent, if the budget allows for the most it can cost; gives its id.

        Its step is `asked` from then on. The future raises BudgetSpent, or StopAsked. Money is counted and set aside in one
        transaction, so that a budget holds whoever asks at the same time.
        """

        def insert(connection: Connection) -> int:
            self._db.hold(connection, _HELD)
            row = connection.execute(_GOES_ON, (ask.run_id,)).fetchone()
            if row is None:
                raise StopAsked
            _check_budget(ReplayBudget(*row), _spent(connection, ask.run_id), ask)
            now_s = time.time()
            connection.execute(
                "UPDATE replay_steps SET state = 'asked', changed_at_s = ? WHERE id = ? AND state = 'planned'",
                (now_s, ask.step_id),
            )
            id: int = connection.execute(
                "INSERT INTO replay_asks (run_id, step_id, tenant, key, engine, purpose, state, most_usd, most_tokens,"
                " asked_at_s) VALUES (?, ?, ?, ?, ?, ?, 'asked', ?, ?, ?) RETURNING id",
                (
                    *(ask.run_id, ask.step_id, ask.tenant, ask.key, ask.engine, ask.purpose),
                    *(ask.most_usd, ask.most_tokens, now_s),
                ),
            ).fetchone()[0]
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

        def update(connection: Connection) -> None:
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
            " AND (:tenant IS NULL OR tenant = :tenant) AND (CAST(:run AS INTEGER) IS NULL OR run_id = :run)"
            " GROUP BY engine, purpose ORDER BY engine, purpose",
            {"since": since_s, "tenant": tenant, "run": run_id},
        )
        return [SpendLine(row[0], row[1], row[2], ReplaySpent(*row[3:])) for row in rows.fetchall()]


def _spent(connection: Connection, run_id: int) -> ReplaySpent:
    row = connection.execute(_SUMS + " FROM replay_asks WHERE run_id = ?", (run_id,)).fetchone()
    return ReplaySpent(*row[1:])


def _check_budget(budget: ReplayBudget, spent: ReplaySpent, ask: NewAsk) -> None:
    # A hair of tolerance: sums of floats must not forbid what adds up to exactly the budget.
    if budget.usd is not None and spent.most_usd + ask.most_usd > budget.usd * (1 + 1e-9):
        left = f"${max(0.0, budget.usd - spent.most_usd):.3g} of its ${budget.usd:g} are left"
        raise BudgetSpent(f"{left}, and its next request may cost up to ${ask.most_usd:.3g}")
    tokens = spent.tokens + spent.unknown_tokens
    if budget.tokens is not None and tokens + ask.most_tokens > budget.tokens:
        left = f"{max(0, budget.tokens - tokens)} of its {budget.tokens} tokens are left"
        raise BudgetSpent(f"{left}, and its next request may take up to {ask.most_tokens}")
    if budget.seconds is not None and spent.seconds >= budget.seconds:
        raise BudgetSpent(f"its {budget.seconds:g} s of engines' time are spent")


_COSTS = (
    CostsOf(
        "replay",
        "replay_asks",
        "asked_at_s",
        "cost_usd + CASE WHEN state IN ('asked', 'unknown') THEN most_usd ELSE 0.0 END",
        "engine",
        "purpose",
        "prompt_tokens",
        "completion_tokens",
    ),
)
_HELD = "replay"
_ANY_GOES_ON = "SELECT 1 FROM replay_runs WHERE state IN ('running', 'paused')"
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


class ReplaySideCosts:
    """What is paid off-peak outside any run. Every write's future resolves after its commit."""

    def __init__(self, db: Database) -> None:
        self._db = db

    def book(self, tenant: str, engine: str, purpose: str, cost_usd: float, tokens: int = 0) -> Future[None]:
        """Note one request that was paid for. `purpose` is a word for the report, such as near_miss or warm."""
        (minute,) = by_span((MINUTE_S,), time.time())
        added = {(*minute, "replay", tenant, engine, purpose): (1, tokens, 0, cost_usd)}
        return self._db.write(lambda connection: COSTS.add(connection, added))
