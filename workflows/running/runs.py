"""Carries runs out: a step is asked the moment its inputs are there, and its answer becomes variables that others read.

    begin or extend -> rows committed -> ids told -> steps asked as they are due -> values to consumers, gets and the store

State is in the store: any worker answers a get, and when one dies another claims its steps. For the event loop's thread.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import time
import weakref
from collections.abc import Callable, Collection, Container, Coroutine, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any

import structlog
from cachetools import TTLCache

from engines.errors import EngineError, RequestError
from engines.off_loop import off_loop
from engines.placement import Placement
from store.errors import StoreError
from store.workflows.records import (
    Begun,
    Claim,
    Failure,
    Limits,
    NewRun,
    News,
    NewStep,
    NewVariable,
    NoSuchRun,
    Resolution,
    Run,
    RunChange,
    RunEnd,
    WholeRun,
)
from store.workflows.runs import WorkflowRuns
from workflows.criteria import Criteria
from workflows.errors import WorkflowError
from workflows.graph import Graph, Step
from workflows.names import StepId, VariableId, new_id
from workflows.progress import Changes, Progress, RunState, StepState, VariableState
from workflows.progress import Failure as WhyFailed
from workflows.running.asking import StepAsker, refused
from workflows.running.cell import Cell
from workflows.running.claims import Claims
from workflows.running.counting import UNCOUNTED, Uncounted
from workflows.running.door import Caller, Door
from workflows.running.elsewhere import Elsewhere
from workflows.running.flows import Flows
from workflows.running.knobs import RunKnobs
from workflows.running.live import (
    LiveRun,
    kept_step,
    row_of,
    stored_failure,
    stored_value,
    value_of,
    variables_of,
)
from workflows.running.means import Means
from workflows.running.new_graph import NewGraph
from workflows.running.primitives import CHAT, most_attempts
from workflows.running.restoring import lost_with_its_worker, outside_of, restored
from workflows.running.saving import Saving, done
from workflows.running.workflow import NewWorkflow
from workflows.transform import Value

log = structlog.get_logger(__name__)

LOST = "run_lost"
"""The code of a failure in this worker's memory only: another worker carries the run on."""
_UNDER_WAY = frozenset({StepState.QUEUED, StepState.RUNNING, StepState.UNKNOWN})
_WITHOUT_VALUE = frozenset({StepState.FAILED, StepState.CANCELLED})
_ENDED = frozenset({StepState.DONE, StepState.FAILED, StepState.CANCELLED, StepState.SKIPPED})
_GETS = 4096
_NOTED_S = 5.0
_MOVED_EVERY_S = 0.02
"""Each time all waiting steps of a run are looked at, however many calls joined it meanwhile."""


class Runs:
    """See the module. Steps are asked by `door`. `shared`: other workers use the same store.

    `now` gives Unix seconds. `start`, then use it inside the same loop, then `aclose`.
    """

    def __init__(
        self,
        door: Door,
        store: WorkflowRuns,
        knobs: RunKnobs,
        *,
        owner: str | None = None,
        now: Callable[[], float] = time.time,
        shared: bool = True,
        metrics: Uncounted = UNCOUNTED,
        move: Callable[[Callable[[Placement], Placement]], None] = lambda placed_anew: None,
        means: Means | None = None,
    ) -> None:
        """`move` is engines.registry.Registry.move. `means`: None if there are no workflows."""
        self.store = store
        self.knobs = knobs
        worker = owner or f"{os.getpid()}-{secrets.token_hex(8)}"
        self.claim = Claim(worker, knobs.lease_s)
        self.now = now
        self._shared = shared
        self._limits = Limits(knobs.max_runs, knobs.max_total_bytes)
        self._live: dict[str, LiveRun] = {}
        self._open: dict[tuple[str, str], LiveRun] = {}
        self._cells: weakref.WeakValueDictionary[VariableId, Cell] = weakref.WeakValueDictionary()
        """The cells of the variables that the steps of its runs write."""
        self._noted: TTLCache[tuple[VariableId, Criteria, bool], bool] = TTLCache(_GETS, _NOTED_S)
        """Gets that the processes that carry their runs out were told of lately."""
        self._tasks: set[asyncio.Task[Any]] = set()
        self._closing = False
        self._metrics = metrics
        self._asker = StepAsker(door, knobs)
        self._flows = Flows(means, knobs, self._asker, self.apply, self._stop)
        self._move = move
        self._moved: dict[str, LiveRun] = {}
        """Runs whose objectives have changed since waiting steps were last placed anew."""
        self._moving: asyncio.TimerHandle | None = None
        self._saving = Saving(
            store,
            self.claim,
            now,
            kept=self._kept,
            lost=self.drop,
            failed=metrics.not_saved,
        )
        self._elsewhere = Elsewhere(
            store,
            worker,
            now,
            every_s=knobs.poll_s,
            live=self._live,
            told=self._told,
        )
        self.claims = Claims(store, self.claim, self._live, self._carry_on)

    # ---- its own life

    @property
    def door(self) -> Door:
        """Return the door by which steps are asked."""
        return self._asker.door

    def start(self) -> None:
        """Begin to follow other processes, and to hold on to runs. Inside the running loop."""
        if self._shared:
            self.spawn(self.claims.keep(), "claims of steps")
            self.spawn(self._elsewhere.follow(), "runs elsewhere")

    async def aclose(self, grace_s: float = 5.0) -> None:
        """Ask no more steps, let those under way come to their end for a while, and leave the rest to other processes."""
        self._closing = True
        if self._moving is not None:
            self._moving.cancel()
        steps = [task for run in self._live.values() for task in run.tasks.values()]
        if steps and grace_s:
            await asyncio.wait(steps, timeout=grace_s)
        await self._saving.all_kept()
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        await self._saving.all_kept()
        if self._live and self._shared:
            # What is left is due at once.
            await done(self.store.renew(Claim(self.claim.worker, 0.0)))

    def spawn(self, work: Coroutine[Any, Any, Any], name: str, *, awaited: bool = False) -> asyncio.Task[Any]:
        """A task that ends with this executor, at the latest. `awaited`: somebody is told what it raises."""
        task = asyncio.get_running_loop().create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard if awaited else self._spawned_ended)
        return task

    def _spawned_ended(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("run_task_failed", task=task.get_name(), error=type(error).__name__)

    @property
    def live(self) -> Mapping[str, LiveRun]:
        """The runs that this process carries out, by id."""
        return self._live

    # ---- runs begin and grow

    async def begin(self, new: NewGraph) -> LiveRun | Begun:
        """Keep a run and carry it out; what was begun before, where its idempotency key was used before.

        Raises what WorkflowRuns.begin and Graph.add do, WorkflowError for a budget of dollars beside an engine without a
        price, and KeyError for a variable that is not there. A background run goes on where the caller is cancelled.
        """
        if new.budget.usd is not None:
            self._check_priced(new)
        task = self.spawn(self._begin(new), "begin a run", awaited=True)
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            if not new.background or new.attached is not None:
                task.add_done_callback(self._cancel_begun)
            raise

    def _check_priced(self, new: NewGraph) -> None:
        declared = new.flow.definition.steps.values()
        models = {each.model for each in declared} | {str(step.chat.get("model") or "") for step in new.steps}
        for model in sorted(filter(None, models)):
            for engine, price in self.door.prices(model).items():
                if not price.known:
                    raise WorkflowError(
                        f"The run's dollars are limited, and the engine '{engine}' of '{model[:100]}' has no price.",
                        param="budget.usd",
                        code="unpriced",
                    )

    def _cancel_begun(self, task: asyncio.Task[LiveRun | Begun]) -> None:
        if not task.cancelled() and task.exception() is None and isinstance(run := task.result(), LiveRun):
            self.cancel(run)

    async def _begin(self, new: NewGraph) -> LiveRun | Begun:
        caller, now, flow = new.caller, self.now(), new.flow
        graph = Graph(() if new.added is not None else new.steps)
        outside = await self._outside(caller, graph, new.steps, flow.given)
        if any(cell.private for cell in outside.values()):
            caller = caller.stored_nowhere()
        row = _row(new, caller, now, self.knobs.keep_values_s)
        known = {id: cell for id, cell in outside.items() if cell.ended}
        progress = Progress(
            graph,
            values={id: cell.value for id, cell in known.items() if cell.value is not None},
            failures={id: _why_not(cell) for id, cell in known.items() if cell.value is None},
            gets=new.gets,
            made=self.cells_of(row),
        )
        run = LiveRun(row, progress, flow=flow)
        rows = await off_loop(new.size_bytes, _rows, new, caller, run.no_store)
        variables = variables_of(new.steps, "" if flow.declared else run.app, row.end_user)
        begun = await done(self.store.begin(self.claim, row, rows, variables, self._limits))
        if begun.repeated:
            return begun
        if run.app and not flow.declared:
            self._open[run.tenant, run.app] = run
        changes = progress.begin() if new.added is None else progress.grow(new.added)
        self._take_up(run, new.steps, caller, outside, new.attached)
        self._carry(run)
        for criteria in set(new.gets.values()):
            self._got_outside(run, criteria)
        self.apply(run, changes)
        return run

    def _carry(self, run: LiveRun) -> None:
        """A run is carried out here from now on."""
        self._live[run.id] = run
        self._elsewhere.wake()
        self._metrics.live(1)
        self._limit_wait(run)
        if run.row.budget.seconds is not None:
            self.limit_time(run, run.row.created_at_s + run.row.budget.seconds - self.now())
        self._flows.began(run)

    def cells_of(self, row: NewRun | Run) -> Callable[[VariableId, str], Cell]:
        """Return a maker of the cells of a run's variables, for `Progress`."""

        def made(id: VariableId, name: str) -> Cell:
            cell = self._cells[id] = Cell(
                id,
                name,
                row.tenant,
                app=row.app,
                run=row.id,
                end_user=row.end_user,
                private=row.no_store,
            )
            return cell

        return made

    async def begin_workflow(self, new: NewWorkflow) -> LiveRun | Begun:
        """Keep a run of a workflow and carry it out; see NewWorkflow for what it raises and how the run is read."""
        plans = await self._flows.planned(new)
        return await self.begin(self._flows.graph_of(new, plans))

    async def resolve(self, tenant: str, id: str, step: StepId, resolution: Resolution) -> bool:
        """Go on with a step that is `unknown`, whoever carries its run out; False if the tenant has none such."""
        run = self._here(tenant, id)
        if run is None or run.ended is not None:
            return await done(self.store.resolve(tenant, id, step, resolution))
        if run.progress.steps.get(step) is not StepState.UNKNOWN:
            return False
        self._resolved(run, step, resolution)
        await self._saving.all_kept()
        return True

    def _resolved(self, run: LiveRun, step: StepId, resolution: Resolution) -> None:
        if run.progress.steps.get(step) is StepState.UNKNOWN:
            if resolution.how == "retry":
                run.step(step, attempts=0)
            value = "" if resolution.value is None else value_of(resolution.value)
            self.apply(run, run.progress.resolve(step, resolution.how, value))

    def open_run(self, tenant: str, app: str) -> LiveRun | None:
        """The app's run under way here that further calls may join."""
        run = self._open.get((tenant, app)) if app else None
        if run is None or not run.goes_on or run.progress.cancelled:
            return None
        return run if len(run.graph.steps) < self.knobs.max_steps else None

    async def submit(self, new: NewGraph) -> LiveRun | Begun:
        """Add steps to the app's run that is under way here, or begin one. Raises as `begin` does."""
        run = self.open_run(new.caller.tenant, new.app)
        if run is None or new.idempotency_key or run.no_store != new.caller.no_store:
            return await self.begin(new)
        task = self.spawn(self._extend(run, new), "extend a run", awaited=True)
        try:
            extended = await asyncio.shield(task)
        except asyncio.CancelledError:
            if new.attached is not None:
                task.add_done_callback(lambda _: self.cancel_step(run, new.steps[0].id))
            raise
        return run if extended else await self.begin(new)

    async def _extend(self, run: LiveRun, new: NewGraph) -> bool:
        """Extend the run; False if it is over by now.

        Once rows are written the answer is yes, so that nobody submits them a second time.
        """
        if not run.goes_on:
            # Since it was found: nothing of this may be written, for nobody would carry it out.
            return False
        caller = new.caller
        outside = await self._outside(caller, run.graph, new.steps)
        if any(cell.private for cell in outside.values()) and not run.no_store:
            return False
        run.growing += 1
        try:
            rows = await off_loop(new.size_bytes, _rows, new, caller, run.no_store)
            variables = variables_of(new.steps, run.app, run.row.end_user)
            try:
                await done(
                    self.store.extend(
                        self.claim,
                        run.tenant,
                        run.id,
                        rows,
                        variables,
                        now_s=self.now(),
                        limits=self._limits,
                    )
                )
            except NoSuchRun:
                return False
            run.graph.add(*new.steps)
            if run.lost:
                # Whoever carries the run on has read these steps with it; if it was forgotten, so were they.
                if new.attached is not None:
                    run.attached[new.attached] = asyncio.Event()
                    run.attached[new.attached].set()
                return True
            changes = run.progress.added()
            self._take_up(run, new.steps, caller, outside, new.attached)
            for id, criteria in new.gets.items():
                run.progress.got(id, criteria)
                self._got_outside(run, criteria)
            self._objectives_changed(run)
            self.apply(run, changes)
            return True
        finally:
            run.growing -= 1
            over = run.goes_on and run.progress.state != RunState.RUNNING
            if over and not run.growing:
                self._end(run, run.progress.state)
                self._saving.note(run)

    def _take_up(
        self,
        run: LiveRun,
        steps: tuple[Step, ...],
        caller: Caller,
        outside: Mapping[VariableId, Cell],
        attached: StepId | None,
    ) -> None:
        run.callers |= dict.fromkeys((step.id for step in steps), caller)
        if attached is not None:
            run.attached[attached] = asyncio.Event()
        for cell in outside.values():
            self._read(run, cell)

    def _read(self, run: LiveRun, cell: Cell) -> None:
        """Have a run told of a variable that another makes, or nobody does, once that has ended."""
        if cell not in run.reading and not run.progress.of(cell.id).ended:
            run.reading[cell] = self.spawn(self._read_outside(run, cell), f"read for {run.id}")

    async def _read_outside(self, run: LiveRun, cell: Cell) -> None:
        ended = cell
        with suppress(StoreError):
            ended = await self.until_ended(cell)
        del run.reading[cell]
        if not run.goes_on:
            return
        run.objectives = None
        if ended.value is not None:
            self.apply(run, run.progress.value(cell.id, ended.value))
        else:
            self.apply(run, run.progress.lost(cell.id, _why_not(ended)))

    async def _outside(
        self, caller: Caller, graph: Graph, steps: tuple[Step, ...], given: Container[VariableId] = ()
    ) -> dict[VariableId, Cell]:
        """The variables that the steps read, none of the graph writes and nobody gave. Raises KeyError for one that is not
        there."""
        made = {id for step in steps for id in step.writes.values()}
        wanted = {id for step in steps for id in step.reads.values()} - made
        found = {}
        for id in wanted:
            if graph.producer(id) is None and id not in given:
                cell = await self.find(caller.tenant, id, caller.end_user)
                if cell is None:
                    raise KeyError(id)
                found[id] = cell
        return found

    # ---- variables

    async def find(self, tenant: str, id: VariableId, end_user: str = "") -> Cell | None:
        """A variable by its id; None if the tenant, or its end user, has none such. Hold on to it while you wait."""
        cell = self._cells.get(id) or await self._elsewhere.watch(tenant, id)
        return cell if cell is not None and (cell.tenant, cell.end_user) == (tenant, end_user) else None

    async def until_ended(self, cell: Cell) -> Cell:
        """Return when it has ended and that is committed, also where another process carries its run on meanwhile."""
        while True:
            await cell.until_ended(kept=True)
            if cell.failure is None or cell.failure.code != LOST:
                return cell
            found = await self.find(cell.tenant, cell.id, cell.end_user)
            if found is None or found is cell:
                return cell
            cell = found

    async def named(self, tenant: str, app: str, names: Collection[str]) -> dict[str, VariableId]:
        """Ids of an app's variables by name; those that are not there are left out."""
        found = await self.store.reads(self.store.named, tenant, app, list(names), now_s=self.now())
        return {name: variable.id for name, variable in found.items()}

    def got(self, cell: Cell, criteria: Criteria, *, stream: bool = False) -> None:
        """Somebody asks for a variable."""
        if cell.ended:
            return
        run = self._live.get(cell.run)
        if run is not None and cell.id in run.cells:
            if run.progress.got(cell.id, criteria):
                self._objectives_changed(run)
                self._got_outside(run, criteria)
        elif self._shared and cell.run and (noted := (cell.id, criteria, stream)) not in self._noted:
            # Who asks again and again says nothing new.
            self._noted[noted] = True
            with suppress(StoreError):
                self.store.note_get(cell.tenant, cell.id, str(criteria), stream=stream)

    def _got_outside(self, run: LiveRun, criteria: Criteria) -> None:
        """Somebody asks for what a run makes, and so for what it reads of other runs."""
        for cell in list(run.reading):
            self.got(cell, criteria)

    async def put(
        self, tenant: str, app: str, name: str, value: Value | None, contributor: str, end_user: str = ""
    ) -> VariableId:
        """Declare or set a variable that no step produces. Raises VariableExists and TooManyBytes."""
        given = None if value is None else stored_value(value)
        new = NewVariable(new_id("var"), name, app, value=given, end_user=end_user)
        id = await done(
            self.store.put(
                tenant,
                new,
                now_s=self.now(),
                keep_s=self.knobs.keep_values_s,
                contributor=contributor,
                limits=self._limits,
            )
        )
        cell = self._elsewhere.watched(id)
        if cell is not None and value is not None and not cell.ended:
            cell.become(value)
            cell.keep()
        return id

    # ---- runs end

    def cancel(self, run: LiveRun, code: str = "cancelled", message: str = "The run was cancelled.") -> None:
        """Cancel whatever of it has not ended."""
        if run.goes_on:
            if code != "cancelled":
                run.failure = Failure(code, message)
            self.apply(run, run.progress.cancel(code, message))

    def left(self, run: LiveRun) -> None:
        """The client of a run has left that ends with its client: cancel it, whoever carries it out."""
        if run.lost:
            self.spawn(self.request_cancel(run.tenant, run.id), "cancel a run elsewhere")
        else:
            self.cancel(run)

    def cancel_step(self, run: LiveRun, step: StepId) -> None:
        """A call's client has left: its step fails, and what depends on it."""
        if run.goes_on and step in run.graph.steps:
            self.apply(run, run.progress.refused(step, "cancelled", "Its client left."))

    def limit_time(self, run: LiveRun, left_s: float) -> None:
        """Cancel it when so many seconds have passed."""
        run.timers["over"] = asyncio.get_running_loop().call_later(
            max(0.0, left_s),
            self.cancel,
            run,
            "budget_exceeded",
            "The run took longer than its budget allows.",
        )

    def _limit_wait(self, run: LiveRun) -> None:
        """Cancel it once nothing of it went on for `max_wait_s`. What waits for an operator's word goes on waiting."""
        under_way = any(state in _UNDER_WAY for state in run.progress.steps.values())
        waits_s = 0.0 if under_way or not run.moved_at_s else self.now() - run.moved_at_s
        left_s = self.knobs.max_wait_s - waits_s
        if left_s <= 0:
            message = f"Nothing of it went on for {self.knobs.max_wait_s:g} s (workflows.max_wait_s)."
            self.cancel(run, "wait_too_long", message)
        else:
            run.timers["waits"] = asyncio.get_running_loop().call_later(left_s, self._limit_wait, run)

    def _is_over(self, run: LiveRun) -> None:
        """Nothing waits for its time any more, or needs its vectors."""
        for timer in run.timers.values():
            timer.cancel()
        self._flows.ended(run)

    def _here(self, tenant: str, id: str) -> LiveRun | None:
        """The tenant's run of that id, if it is carried out here."""
        run = self._live.get(id)
        return run if run is not None and run.tenant == tenant else None

    async def request_cancel(self, tenant: str, id: str) -> bool:
        """Cancel a run, whoever carries it out; False if the tenant has none such that goes on."""
        run = self._here(tenant, id)
        if run is not None and run.ended is None:
            self.cancel(run)
            await self._saving.all_kept()
            return True
        return await done(self.store.request_cancel(tenant, id))

    async def forget_run(self, tenant: str, id: str) -> bool:
        """Cancel and delete a run."""
        run = self._here(tenant, id)
        if run is not None:
            await self._end_all([run])
        return await done(self.store.forget_run(tenant, id))

    async def forget_app(self, tenant: str, app: str) -> int:
        """Cancel and delete what an app has."""
        await self._end_all([run for run in self._live.values() if (run.tenant, run.app) == (tenant, app)])
        return await done(self.store.forget_app(tenant, app))

    async def _end_all(self, runs: Sequence[LiveRun]) -> None:
        """Cancel runs that are about to be deleted, and let go of them: values that are stored nowhere would stay."""
        for run in runs:
            self.cancel(run)
        await self._saving.all_kept()
        for run in runs:
            self._let_go(run)

    def drop(self, run: LiveRun) -> None:
        """Another process carries it out by now, or it is gone: stop, and write nothing more of it."""
        if run.lost:
            return
        run.lost = True
        self._is_over(run)
        for task in list(run.tasks.values()):
            task.cancel()
        for event in run.attached.values():
            event.set()
        for cell in run.cells.values():
            if not cell.kept:
                # Also one that had ended: its end is not committed, and the other process asks its step again.
                cell.fail(WhyFailed(LOST, "Another process carries this run on; ask again.", (cell.name,)))
                cell.keep()
        self._release(run.id)
        for watcher in run.watchers:
            watcher(Changes())

    def _let_go(self, run: LiveRun) -> None:
        """It is about to be deleted; one that a call is about to join has not ended yet."""
        if run.ended is None:
            self.drop(run)
        else:
            self._release(run.id)

    def _release(self, id: str) -> None:
        run = self._live.pop(id, None)
        if run is None:
            return
        if run.ended is None:
            self._metrics.live(-1)
        if self._open.get((run.tenant, run.app)) is run:
            del self._open[run.tenant, run.app]
        for task in run.reading.values():
            task.cancel()
        for variable in run.cells:
            self._cells.pop(variable, None)

    # ---- what happens

    def apply(self, run: LiveRun, changes: Changes) -> None:
        """Carry out what an event brought about."""
        changes = self._flows.grown(run, changes)
        run.moved_at_s = self.now()
        run.told(id for id in changes.variables if id in run.cells)
        for step, step_state in changes.steps.items():
            self._step_is(run, step, step_state)
        for step in changes.stop:
            if (task := run.tasks.get(step)) is not None and task is not asyncio.current_task():
                task.cancel()
        for step in changes.start:
            self._start(run, step)
        if changes.ended is not None and not run.growing:
            self._end(run, changes.ended)
        if run.dirty:
            got = not run.progress.gets.keys().isdisjoint(changes.variables)
            self._saving.note(run, soon=run.row.background or run.ended is not None or got)
        for watcher in run.watchers:
            watcher(changes)

    def _step_is(self, run: LiveRun, step: StepId, state: StepState) -> None:
        if state is StepState.QUEUED:
            run.step(step, ready_at_s=run.moved_at_s)
        elif state is StepState.UNKNOWN:
            run.step(step)
        elif state in _ENDED:
            written = filter(None, map(run.progress.find, run.graph.steps[step].writes.values()))
            failures = (each.failure for each in written if state in _WITHOUT_VALUE)
            why = next(filter(None, failures), None)
            failure = None if why is None else stored_failure(why)
            run.step(step, ended_at_s=run.moved_at_s, failure=failure)
            self._metrics.step(run.steps[step].rank, str(state))
            if run.objectives is not None:
                run.objectives.ended(step)
            if (event := run.attached.get(step)) is not None:
                event.set()

    def _start(self, run: LiveRun, step: StepId) -> None:
        if self._closing or run.progress.steps[step] is not StepState.QUEUED:
            return
        if (event := run.attached.get(step)) is not None:
            event.set()
            return
        attempts = run.steps[step].attempts if step in run.steps else 0
        if (refusal := self._never_asked(run, step, attempts)) is not None:
            self._soon(run, partial(run.progress.refused, step, *refusal))
            return
        if (spent := self._over_budget(run)) is not None:
            self._stop(run, "budget_exceeded", spent)
            return
        run.progress.running(step)
        run.step(step, attempts=attempts + 1, queued_at_s=self.now())
        task = run.tasks[step] = self.spawn(self._carry_out(run, step), f"step {run.id} {step}")
        task.add_done_callback(lambda task: run.tasks.get(step) is task and run.tasks.pop(step))

    def _never_asked(self, run: LiveRun, step: StepId, attempts: int) -> tuple[str, str] | None:
        """Code and message for a step that was asked in a process that ended, and cannot be asked here."""
        if step in run.left:
            return "cancelled", "The process that its client was connected to ended."
        if attempts >= most_attempts(run.graph.steps[step]):
            return "interrupted", f"It was under way in {attempts} processes that ended."
        plan = run.graph.steps[step]
        if plan.primitive != CHAT or not run.callers[step].credential_lost:
            return None
        model = plan.chat.get("model")
        if self.door.may_ask(model if isinstance(model, str) else ""):
            return None
        message = "Its process ended, and with it the client's credential, which is stored nowhere."
        return "credential_lost", message

    def _soon(self, run: LiveRun, event: Callable[[], Changes]) -> None:
        """Have an event happen after the one that is being carried out."""

        def happen() -> None:
            if run.goes_on:
                self.apply(run, event())

        asyncio.get_running_loop().call_soon(happen)

    def _over_budget(self, run: LiveRun) -> str | None:
        budget, spent = run.row.budget, run.spent
        if budget.usd is not None and spent.usd >= budget.usd:
            return f"The run's budget of {budget.usd:g} USD is spent."
        if budget.tokens is not None and spent.tokens >= budget.tokens:
            return f"The run's budget of {budget.tokens} tokens is spent."
        return None

    async def _carry_out(self, run: LiveRun, step: StepId) -> None:
        changes = await self._flows.carry_out(run, step, self._saving.all_kept, self._said)
        if run.goes_on:
            self.apply(run, changes)
            if (refusal := self._over_budget(run)) is not None and run.ended is None:
                self.cancel(run, "budget_exceeded", refusal)

    async def call(self, run: LiveRun, step: StepId, client: Any) -> bool:
        """Carry out the attached step of a client's own request; False, and nothing is sent, where it may not be asked.

        `client` is the door's: see Door.call.
        """
        try:
            await run.attached[step].wait()
            if run.lost or run.progress.steps[step] is not StepState.QUEUED:
                return False
            run.progress.running(step)
            run.step(step, attempts=1, queued_at_s=self.now())
            self._saving.note(run)
            changes = await self._asker.call(run, step, client, partial(self._said, run, step))
            if run.goes_on:
                self.apply(run, changes)
            return True
        except (RequestError, EngineError, WorkflowError) as error:
            if run.goes_on:
                self.apply(run, run.progress.refused(step, *refused(error)))
            raise
        except BaseException:
            self.cancel_step(run, step)
            raise

    def _said(self, run: LiveRun, step: StepId, piece: str) -> None:
        """A piece of a step's answer came."""
        if run.steps[step].first_at_s is None:
            run.step(step, first_at_s=self.now())
        plan = run.graph.steps[step]
        if "splits" in plan.what:
            # Its value is a list: nobody reads it as it comes, but items of it may be worked on.
            return
        along = [plan.writes[output.name] for output in plan.outputs if not output.transforms]
        if plan.says is not None:
            along.append(plan.says)
        for variable in along:
            cell = run.cells[variable]
            if cell.ended:
                continue
            if cell.state is VariableState.PENDING:
                run.told([cell.id])
                self._saving.note(run, soon=False)
            cell.say(piece)

    def _end(self, run: LiveRun, state: RunState) -> None:
        run.ended, run.ended_at_s = state, self.now()
        if run.flow.declared and (why_failed := run.progress.why()) is not None:
            run.failure = run.failure or stored_failure(why_failed)
        self._metrics.live(-1)
        self._is_over(run)
        steps, graph = run.steps, run.graph

        def took_s(step: StepId) -> float:
            one = steps.get(step)
            if one is None or one.ended_at_s is None or one.queued_at_s is None:
                return 0.0
            return max(0.0, one.ended_at_s - one.queued_at_s)

        stages = max((graph.depth(step) for step in graph.steps), default=0)
        run.end(
            RunEnd(str(state), run.ended_at_s, run.failure, graph.critical_path(took_s), stages)  # type: ignore[arg-type]
        )

    def _kept(self, run: LiveRun, change: RunChange, committed: bool) -> None:
        """A change is committed; or a store that fails has not taken it, and whoever waits is told all the same."""
        for end in change.variables:
            if (cell := run.cells.get(end.id)) is None:
                continue
            if change.end is not None:
                cell.expires_at_s = change.end.at_s + run.row.keep_values_s
            cell.keep()
        if change.end is None or not committed:
            return
        for watcher in run.watchers:
            watcher(Changes(ended=run.ended))
        self._release(run.id)

    def _stop(self, run: LiveRun, code: str, message: str) -> None:
        """End it for a reason of its own, after the event that is being carried out."""
        run.failure = run.failure or Failure(code, message)
        self._soon(run, partial(run.progress.cancel, code, message))

    def _objectives_changed(self, run: LiveRun) -> None:
        """Something was asked for: also what waits for its engine may be more urgent now."""
        run.objectives = None
        self._moved[run.id] = run
        if self._moving is None:
            self._moving = asyncio.get_running_loop().call_later(_MOVED_EVERY_S, self._placed_anew)

    def _placed_anew(self) -> None:
        runs, self._moved, self._moving = self._moved, {}, None

        def placement_of(now: Placement) -> Placement:
            run = runs.get(now.run)
            return now if run is None else self._asker.placed_anew(run, now)

        self._move(placement_of)
        for run in runs.values():
            if run.dirty:
                self._saving.note(run)

    # ---- other processes

    def _told(self, news: News) -> None:
        """Act on what others did to runs that go on here."""
        for run in list(self._live.values()):
            if run.id not in news.there:
                self.cancel(run)
                self._let_go(run)
            elif run.id in news.lost:
                self.drop(run)
            elif run.ended is None:
                if run.id in news.cancelled:
                    self.cancel(run)
                for id, criteria in news.gets.get(run.id, {}).items():
                    if id in run.cells and run.progress.got(id, Criteria(criteria)):
                        self._objectives_changed(run)
                for id in news.streamed & run.cells.keys():
                    self._share(run.cells[id])
        for id, step, resolution in news.resolved:
            if id in self._live:
                self._resolved(self._live[id], step, resolution)

    def _share(self, cell: Cell) -> None:
        """Have its text stored as it comes, for those who read it elsewhere."""
        if not cell.shared and not cell.private:
            cell.shared = True
            self.spawn(self._elsewhere.store_text(cell), "store a stream")

    async def _carry_on(self, whole: WholeRun) -> None:
        """Carry on a run that another worker began."""
        if whole.run.no_store:
            await done(self.store.save(self.claim, [lost_with_its_worker(whole, self.now())]))
            return
        outside = await outside_of(whole, self.find)
        run = restored(whole, self.knobs.max_items, outside, self.door.caller, self.cells_of(whole.run))
        self._metrics.adopted()
        self._carry(run)
        for cell in outside.values():
            self._read(run, cell)
        for step, state in run.progress.steps.items():
            if state is StepState.UNKNOWN:
                run.step(step)
        self.apply(run, run.progress.begin())
        if run.ended is None and run.progress.state != RunState.RUNNING:
            self._end(run, run.progress.state)
            self._saving.note(run)
        if whole.run.cancel_asked:
            self.cancel(run)


def _why_not(cell: Cell) -> WhyFailed:
    """Why an outside variable that has ended cannot be read."""
    message = "Its value was stored nowhere (no-store), or is gone."
    return cell.failure or WhyFailed("not_stored", message, (cell.name or cell.id,))


def _row(new: NewGraph, caller: Caller, now_s: float, keep_values_s: float) -> NewRun:
    flow = new.flow
    return NewRun(
        new.id or new_id("run"),
        caller.tenant,
        now_s,
        key_id=caller.key_id or "",
        contributor=caller.contributor,
        app=new.app,
        no_store=caller.no_store,
        background=new.background,
        gets={id: str(criteria) for id, criteria in new.gets.items() if id.startswith("var_")},
        budget=new.budget,
        keep_values_s=keep_values_s,
        context={} if caller.no_store else flow.context(caller),
        idempotency_key=new.idempotency_key,
        idempotency_hash=new.idempotency_hash,
        workflow=flow.definition.name,
        version=flow.definition.version,
        end_user=caller.end_user,
    )


def _rows(new: NewGraph, caller: Caller, no_store: bool) -> list[NewStep]:
    if new.flow.declared:
        rows = [row_of(step) for step in new.steps]
    else:
        kept = {} if no_store else caller.kept()
        rows = [
            kept_step(step, caller, kept, attached=step.id == new.attached, no_store=no_store)
            for step in new.steps
        ]
    if no_store and rows:
        rows[0] = replace(rows[0], held_bytes=new.size_bytes)
    return rows
