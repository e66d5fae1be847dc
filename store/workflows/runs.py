"""Runs of applications in the database, shared by every process of the data folder.

Writes give a future that resolves after the commit, and raise StoreBusy or StoreClosed at once; what else they raise is the
future's. They are kept in the order in which they were handed over. Reads take microseconds. What names a tenant never gives
another's.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from typing import Concatenate, ParamSpec, TypeVar, get_args

from store.database import Connection, Database
from store.workflows import assets, beginning, going, going_on
from store.workflows.assets import room_of
from store.workflows.beginning import NO_LIMITS
from store.workflows.records import (
    Begun,
    Claim,
    Limits,
    NewRun,
    News,
    NewStep,
    NewVariable,
    Resolution,
    RunChange,
    RunState,
    RunSummary,
    Sharer,
    TenantUse,
    Variable,
    WholeRun,
)
from store.workflows.rows import (
    CLAIMED_BY_ANOTHER,
    HELD,
    RUN,
    STEP,
    VARIABLE,
    as_resolution,
    as_run,
    as_step,
    as_variable,
    ids_json,
)
from store.workflows.values import as_text

P = ParamSpec("P")
T = TypeVar("T")


class WorkflowRuns:
    """Runs, steps, variables, leases, and the log of changes."""

    def __init__(self, db: Database) -> None:
        self._db = db
        self.reads = db.reads
        self.assets = assets.Assets(db)

    # ---- a run's life

    def begin(
        self,
        claim: Claim,
        run: NewRun,
        steps: Sequence[NewStep],
        variables: Sequence[NewVariable],
        limits: Limits = NO_LIMITS,
    ) -> Future[Begun]:
        """Keep a run with all its steps, claimed, and variables, or nothing of it.

        The future raises VariableExists, IdempotencyConflict, TooManyRuns and TooManyBytes.
        """
        return self._held(room_of(run.tenant), beginning.begin, claim, run, steps, variables, limits)

    def extend(
        self,
        claim: Claim,
        tenant: str,
        run_id: str,
        steps: Sequence[NewStep],
        variables: Sequence[NewVariable],
        *,
        now_s: float,
        limits: Limits = NO_LIMITS,
    ) -> Future[None]:
        """Add steps, claimed, to a live run that no other worker has claimed.

        The future raises NoSuchRun where it is not the tenant's, has ended or is another worker's; VariableExists and
        TooManyBytes.
        """
        return self._held(
            room_of(tenant), beginning.extend, claim, tenant, run_id, steps, variables, now_s, limits
        )

    def save(self, claim: Claim, changes: Sequence[RunChange]) -> Future[frozenset[str]]:
        """Write what happened to runs, each `RunChange` whole, all in one transaction.

        A step moves only while its worker has claimed it; one that has ended is claimed by nobody. A variable that has
        ended stays as it is. Gives the runs that are gone, or another worker's: nothing of what happened to them is kept.
        """
        return self._write(going_on.save, claim, changes)

    def append(self, worker: str, variable_id: str, offset: int, text: str) -> Future[None]:
        """Add to the text of a streaming variable, from `offset` characters on, so that other workers can read it.

        Only wanted once somebody elsewhere streams it. Dropped where another worker has claimed the run or the variable has
        ended.
        """
        return self._write(going_on.append, worker, variable_id, offset, text)

    def renew(self, claim: Claim) -> Future[None]:
        """Hold on to all steps that the worker has claimed."""
        return self._write(going_on.renew, claim)

    def claim(self, claim: Claim, limit: int = 100) -> Future[tuple[str, ...]]:
        """Claim what is due: steps whose claim is over by the database's clock. Gives their runs.

        All open steps of a run go to one worker, so that one evaluates its graph at a time. Variables that were streaming
        are pending again, with one more `attempt`. Costs one read where nothing is due.
        """
        due = self._db.read().execute(_DUE, (claim.for_s,)).fetchone()
        if due is None:
            nothing: Future[tuple[str, ...]] = Future()
            nothing.set_result(())
            return nothing
        return self._held("due steps", going_on.take, claim, limit)

    def request_cancel(self, tenant: str, run_id: str) -> Future[bool]:
        """Have a live run's owner cancel it (change `cancel`, Run.cancel_asked); False where the tenant has none such."""
        return self._write(going_on.request_cancel, tenant, run_id)

    def resolve(self, tenant: str, run_id: str, step: str, resolution: Resolution) -> Future[bool]:
        """Have a live run's owner go on with a step that is `unknown` (change `resolve`, Step.resolution).

        Gone once the step is in another state. False where the tenant has no such step, and for a value of a run that is
        not stored.
        """
        return self._write(going_on.resolve, tenant, run_id, step, resolution)

    # ---- variables

    def put(
        self,
        tenant: str,
        variable: NewVariable,
        *,
        now_s: float,
        keep_s: float,
        contributor: str = "",
        limits: Limits = NO_LIMITS,
    ) -> Future[str]:
        """Declare or set a variable that no step produces; gives its id, which is an earlier one's where it was declared.

        It expires `keep_s` after this, not before the runs that read it have ended. The future raises VariableExists where
        the name is taken by one that is written, or that a step produces, and TooManyBytes.
        """
        return self._held(
            room_of(tenant), beginning.put, tenant, variable, now_s, keep_s, contributor, limits
        )

    def note_get(self, tenant: str, variable_id: str, criteria: str, *, stream: bool) -> Future[None]:
        """Tell the variable's owner that somebody waits for it (change `get`), and note it in the run's `gets`."""
        return self._write(going_on.note_get, tenant, variable_id, criteria, stream)

    def variable(self, tenant: str, variable_id: str, *, now_s: float) -> Variable | None:
        """One variable, or None where it is absent, another tenant's or expired."""
        return self.variables(tenant, [variable_id], now_s=now_s).get(variable_id)

    def variables(self, tenant: str, variable_ids: Sequence[str], *, now_s: float) -> dict[str, Variable]:
        """Those of them that are there, by id, in one query."""
        rows = self._db.read().execute(
            _BY_ID,
            {"ids": ids_json(variable_ids), "tenant": tenant, "now": now_s},
        )
        return {row[0]: as_variable(row) for row in rows.fetchall()}

    def named(self, tenant: str, app: str, names: Sequence[str], *, now_s: float) -> dict[str, Variable]:
        """Variables of an app by name, in one query; those that are not there are left out."""
        rows = self._db.read().execute(
            _BY_NAME,
            {"tenant": tenant, "app": app, "names": ids_json(names), "now": now_s},
        )
        return {found.name: found for row in rows.fetchall() for found in [as_variable(row)]}

    def text(self, tenant: str, variable_id: str, after: int = 0) -> str:
        """What is kept of a streaming variable's text from `after` characters on; empty where nothing is."""
        row = (
            self._db.read()
            .execute(
                "SELECT value FROM variables WHERE id = ? AND tenant = ? AND state = 'streaming' AND value IS NOT NULL",
                (variable_id, tenant),
            )
            .fetchone()
        )
        return "" if row is None else as_text(row[0])[after:]

    # ---- what others did

    def news(self, worker: str, run_ids: Sequence[str]) -> News:
        """What others did to these runs of the worker, and want of them: three queries, however many runs."""
        ids, read = (ids_json(run_ids),), self._db.read()
        runs = read.execute(
            f"SELECT r.id, r.cancel_asked, r.gets, {CLAIMED_BY_ANOTHER} FROM workflow_runs r"  # noqa: S608 - a constant
            " WHERE r.id IN (SELECT value FROM json_each(?))",
            (worker, *ids),
        ).fetchall()
        streamed = read.execute(
            "SELECT id FROM variables WHERE streamed = 1 AND state IN ('pending', 'streaming')"
            " AND run_id IN (SELECT value FROM json_each(?))",
            ids,
        ).fetchall()
        resolved = read.execute(
            "SELECT run_id, step, resolution FROM workflow_steps WHERE state = 'unknown' AND resolution IS NOT NULL"
            " AND run_id IN (SELECT value FROM json_each(?))",
            ids,
        ).fetchall()
        decided = ((run, step, as_resolution(resolution)) for run, step, resolution in resolved)
        return News(
            frozenset(id for id, *_ in runs),
            frozenset(id for id, *_, lost in runs if lost),
            frozenset(id for id, cancelled, *_ in runs if cancelled),
            {id: json.loads(gets) for id, _, gets, _ in runs},
            frozenset(id for (id,) in streamed),
            [(run, step, how) for run, step, how in decided if how is not None],
        )

    def version(self) -> bytes | int:
        """Differs from the last one seen whenever anybody may have written: a microsecond, to be asked before `news`."""
        return self._db.data_version()

    # ---- runs

    def run(self, run_id: str, tenant: str | None = None) -> WholeRun | None:
        """One run with everything; None where it is absent, or another's than the tenant named."""
        read = self._db.read()
        found = read.execute(RUN + " WHERE r.id = ?", (run_id,)).fetchone()
        if found is None:
            return None
        run = as_run(found)
        if tenant is not None and run.tenant != tenant:
            return None
        steps = read.execute(STEP + " WHERE s.run_id = ? ORDER BY s.position", (run_id,)).fetchall()
        variables = read.execute(VARIABLE + " WHERE v.run_id = ? ORDER BY v.rowid", (run_id,)).fetchall()
        return WholeRun(run, tuple(map(as_step, steps)), tuple(map(as_variable, variables)))

    def runs(
        self,
        *,
        tenant: str | None = None,
        app: str | None = None,
        workflow: str | None = None,
        states: Sequence[RunState] = (),
        before: tuple[float, str] | None = None,
        limit: int = 50,
    ) -> list[RunSummary]:
        """The latest runs, newest first; `before`: (created_at_s, id) of the last one of the page before."""
        conditions = {
            "r.tenant = :tenant": tenant is not None,
            "r.app = :app AND r.app <> ''": app is not None,
            "r.workflow = :workflow AND r.workflow <> ''": workflow is not None,
            "r.state = :state": len(states) == 1,
            "r.state IN (SELECT value FROM json_each(:states))": len(states) > 1,
            "(r.created_at_s, r.id) < (:before_s, :before_id)": before is not None,
        }
        where = " AND ".join(text for text, wanted in conditions.items() if wanted) or "TRUE"
        read = self._db.read()
        rows = read.execute(
            f"{RUN} WHERE {where} ORDER BY r.created_at_s DESC, r.id DESC LIMIT :limit",
            {
                "tenant": tenant,
                "app": app,
                "workflow": workflow,
                "state": states[0] if states else None,
                "states": ids_json(states),
                "before_s": before[0] if before else None,
                "before_id": before[1] if before else None,
                "limit": limit,
            },
        ).fetchall()
        found = list(map(as_run, rows))
        sums = read.execute(
            "SELECT run_id, state, count(*), sum(prompt_tokens), sum(cached_tokens), sum(completion_tokens),"
            " sum(cost_usd) FROM workflow_steps"
            " WHERE run_id IN (SELECT value FROM json_each(?))"
            " GROUP BY run_id, state",
            (ids_json(run.id for run in found),),
        ).fetchall()
        return [
            RunSummary(
                run,
                {state: count for _, state, count, *_ in own},
                *(sum(each[place] for each in own) for place in range(3, 7)),
            )
            for run in found
            for own in [[each for each in sums if each[0] == run.id]]
        ]

    def sharers(self, batches: Sequence[str]) -> list[Sharer]:
        """The steps of any tenant's runs that went in these batches: for people who may see them all."""
        rows = self._db.read().execute(
            "SELECT s.batch, r.tenant, s.run_id, s.step, s.items FROM workflow_steps s"
            " JOIN workflow_runs r ON r.id = s.run_id WHERE s.batch <> ''"
            " AND s.batch IN (SELECT value FROM json_each(?)) ORDER BY s.batch, s.run_id, s.position",
            (ids_json(batches),),
        )
        return [Sharer(*row) for row in rows.fetchall()]

    def undecided(self, limit: int = 10) -> list[tuple[str, str]]:
        """(run id, step) of steps that are `unknown` and wait for somebody, of any tenant's runs."""
        rows = self._db.read().execute(
            "SELECT run_id, step FROM workflow_steps WHERE state = 'unknown' AND resolution IS NULL"
            " ORDER BY run_id, step LIMIT ?",
            (limit,),
        )
        return rows.fetchall()

    def counts(self, *, since_s: float = 0.0, tenant: str | None = None) -> Mapping[RunState, int]:
        """How many runs that began since then are in which state."""
        read = self._db.read()
        states: tuple[RunState, ...] = get_args(RunState)
        # By an index each; one statement for all of them would read every run.
        counted: dict[RunState, int] = {
            state: read.execute(_COUNT, {"state": state, "since": since_s, "tenant": tenant}).fetchone()[0]
            for state in states
        }
        return {state: count for state, count in counted.items() if count}

    def use(self, tenant: str) -> TenantUse:
        """What the tenant has at the moment."""
        read = self._db.read()
        return TenantUse(beginning.live_runs(read, tenant), beginning.total_bytes(read, tenant))

    # ---- away

    def forget_run(self, tenant: str, run_id: str) -> Future[bool]:
        """Delete a run, cancelling it where it goes on; False where there is none of that tenant."""
        return self._db.write(
            lambda connection: going.forget_run(connection, tenant, run_id), after=self._scrub
        )

    def forget_app(self, tenant: str, app: str) -> Future[int]:
        """Cancel and delete an app's runs, and its variables; gives how many runs and variables set by themselves."""
        return self._forget("tenant = ? AND app = ? AND app <> ''", (tenant, app))

    def forget_tenant(self, tenant: str) -> Future[int]:
        """Cancel and delete everything of a tenant.

        Gives how many runs, variables set by themselves, versions of workflows and texts of collections.
        """
        return self._forget("tenant = ?", (tenant,), with_assets=True)

    def forget_contributor(self, tenant: str, contributor: str) -> Future[int]:
        """As `forget_tenant`, of every run with a step of one contributor. Raises ValueError for an empty one."""
        if not contributor:
            raise ValueError("an empty contributor is nobody: name one, or forget the tenant")
        return self._forget(
            "tenant = ?1 AND contributor = ?2 AND contributor <> ''",
            (tenant, contributor),
            runs="tenant = ?1 AND (contributor = ?2 OR id IN"
            " (SELECT run_id FROM workflow_steps WHERE contributor = ?2 AND contributor <> ''))",
            with_assets=True,
        )

    def expire(self, now_s: float, limit: int = 500) -> Future[int]:
        """Delete values, bodies and contexts whose time is over.

        Gives how many runs and variables: call again while it gives `limit`. What stays has no text.
        """
        return self._db.write(lambda connection: going.expire(connection, now_s, limit), after=self._scrub)

    def trim(self, before_s: float, limit: int = 500) -> Future[int]:
        """Delete runs that ended before then, at most `limit`; gives how many: call again while it gives `limit`."""
        return self._db.write(lambda connection: going.trim(connection, before_s, limit))

    def _write(
        self, job: Callable[Concatenate[Connection, P], T], *args: P.args, **more: P.kwargs
    ) -> Future[T]:
        return self._db.write(lambda connection: job(connection, *args, **more))

    def _held(
        self, what: str, job: Callable[Concatenate[Connection, P], T], *args: P.args, **more: P.kwargs
    ) -> Future[T]:
        """Write what nobody else may at the same time; of a tenant's room: whoever adds to it."""

        def write(connection: Connection) -> T:
            self._db.hold(connection, what)
            return job(connection, *args, **more)

        return self._db.write(write)

    def _forget(
        self,
        which: str,
        values: tuple[str, ...],
        *,
        runs: str | None = None,
        with_assets: bool = False,
    ) -> Future[int]:
        def forget(connection: Connection) -> int:
            of_assets = assets.forget(connection, *values) if with_assets else 0
            return of_assets + going.forget(connection, runs or which, which, values)

        return self._db.write(forget, after=self._scrub)

    def _scrub(self, deleted: int) -> None:
        if deleted:
            self._db.scrub_soon()


_DUE = (
    "SELECT 1 FROM workflow_steps WHERE claimed_until_s < now_s() UNION ALL SELECT 1 FROM workflow_runs r"
    " WHERE r.state = 'running' AND r.created_at_s < now_s() - ? AND NOT EXISTS (SELECT 1 FROM workflow_steps s"
    " WHERE s.run_id = r.id AND s.claimed_until_s IS NOT NULL) LIMIT 1"
)
_COUNT = (
    "SELECT count(*) FROM workflow_runs WHERE state = :state AND created_at_s >= :since"
    " AND (:tenant IS NULL OR tenant = :tenant)"
)
_BY_ID = f"{VARIABLE} WHERE v.id IN (SELECT value FROM json_each(:ids)) AND v.tenant = :tenant AND {HELD}"  # noqa: S608
_BY_NAME = (
    f"{VARIABLE} WHERE v.tenant = :tenant AND v.app = :app AND v.app <> ''"  # noqa: S608 - constants
    f" AND v.name IN (SELECT value FROM json_each(:names)) AND {HELD}"
)
