"""Runs replays, one at a time whichever process asks: plans, takes the plan's steps a few at a time, resumes, takes back.

The process may die at any moment. Whoever takes the same run up again goes on where it was: a step that is done is not done
again, and what was paid for is not paid for again.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import structlog

from engines.asking import NotAnswered
from learning.alone import alone
from learning.replay.asking import Asking, Gate, MayGoOn, ReplayMetrics, always
from learning.replay.material import NotReplayable
from learning.replay.plan import Order, Planner
from store import Store
from store.examples.versions import Undone
from store.jobs.leases import LeaseOver, NotAlone
from store.jobs.replay_jobs import AnotherReplayRuns, BudgetSpent, NotThatRun, ReplayJobs, StopAsked
from store.jobs.replay_records import (
    NewStep,
    ReplayBudget,
    ReplayRun,
    ReplaySpent,
    ReplayStep,
    RunState,
    StepKind,
)

log = structlog.get_logger(__name__)

LEASE = "replay"
"""The lease of the process that carries out a job."""
_PROGRESS_S = 5.0
_PAUSED_AFTER_S = 0.25
_GIVE_UP_AFTER = 8
"""Steps without an answer in a row: the engine is down, and the rest of the plan would fare no better."""
_UNFINISHED: tuple[RunState, ...] = ("interrupted", "stopped", "failed", "running", "paused")
"""A run whose process was killed still seems to be running; only its lease tells: see Replay.take_up."""

StepWork = Callable[[ReplayStep, Asking], Awaitable[str]]
"""Does one kind of step, finishes it in the store (ReplayJobs.finish), and gives the result's code.

Raises NotReplayable and what Asking.ask raises. Called again after a kill, it asks the same under the same keys."""


@dataclass(frozen=True, slots=True)
class Progress:
    """The progress of a job."""

    run_id: int
    state: RunState
    done: int
    steps: int
    spent: ReplaySpent


Watch = Callable[[Progress], Awaitable[None]]
"""Is told how far a run is, whenever that changes and every few seconds."""


class ReplayRunner:
    """Carries out planned runs, one at a time, on the event loop. Whoever calls `run` holds replay's lease (Replay)."""

    def __init__(
        self,
        jobs: ReplayJobs,
        work: Mapping[StepKind, StepWork],
        metrics: ReplayMetrics,
        *,
        order: Callable[[Sequence[ReplayStep]], Order] = Order,
        in_flight: int = 4,
        pause_above: float = 0.8,
        progress_s: float = _PROGRESS_S,
    ) -> None:
        """`order`: from all steps of a run to their order. `in_flight`: steps at once. `pause_above`: utilisation above
        which an engine is not asked."""
        self._jobs = jobs
        self._work = dict(work)
        self._metrics = metrics
        self._order = order
        self._in_flight = in_flight
        self._pause_above = pause_above
        self._progress_s = progress_s

    async def run(
        self,
        run_id: int,
        may_go_on: MayGoOn = always,
        progress: Watch | None = None,
    ) -> ReplayRun:
        """Carry a planned run out, as far as it goes; gives it as it is then.

        `may_go_on` is awaited before each request to an engine. Cancelling leaves the run interrupted: `run` goes on with
        it. Raises AnotherReplayRuns, NotThatRun and what the store raises; a step's own failure is logged and passed over.
        """
        ended: tuple[RunState, str] = ("interrupted", "its process was stopped")
        try:
            run = await asyncio.wrap_future(self._jobs.begin(run_id))
        except asyncio.CancelledError:
            # It may have begun all the same, and nobody else can be at work: whoever calls this holds replay's lease.
            await asyncio.shield(asyncio.wrap_future(self._jobs.interrupt_dead()))
            raise
        try:
            steps = await asyncio.to_thread(self._jobs.steps, run_id)
            left = await asyncio.to_thread(self._order, steps)
            state = _Running(run, left, len(steps), Gate(may_go_on, self._pause_above))
            log.info("replay_began", run=run_id, steps=len(steps), left=len(left))
            async with asyncio.TaskGroup() as group:
                watching = group.create_task(self._watch(state, progress), name="replay watch")
                async with asyncio.TaskGroup() as workers:
                    for number in range(self._in_flight):
                        workers.create_task(self._work_off(state), name=f"replay {number}")
                if state.refused:
                    # What the others had set aside for their requests is settled now, and may be enough.
                    await self._work_off(state)
                watching.cancel()
            ended = state.ended()
        except BaseExceptionGroup as errors:
            ended = ("failed", type(errors.exceptions[0]).__name__)
            raise
        finally:
            self._metrics.running.set(0)
            self._metrics.left.set(0)
            log.info("replay_ended", run=run_id, state=ended[0], note=ended[1])
            # Awaited here, so that whoever cancelled it reads how it ended; not to be cancelled itself, once it is queued.
            await asyncio.shield(asyncio.wrap_future(self._jobs.end(run_id, *ended)))
        if progress is not None:
            await progress(await self._progress(state, ended[0]))
        found = await asyncio.to_thread(self._jobs.run, run_id)
        assert found is not None
        return found

    async def _work_off(self, state: _Running) -> None:
        while not state.over and state.unanswered < _GIVE_UP_AFTER:
            step = await state.next()
            if step is None:
                return
            paid = await asyncio.to_thread(self._jobs.asks.paid, step.id)
            asking = Asking(self._jobs, step, state.gate, self._metrics, paid)
            try:
                result = await self._done(step, asking)
                state.unanswered = 0
            except BudgetSpent as spent:
                # Others may still have what they need of it; this worker looks no further.
                state.short_of = str(spent)
                state.refused.append(step)
                return
            except StopAsked:
                state.over = "a person stopped it"
                return
            except NotAnswered as error:
                # The step stays as it is: going on with the run asks again for what is missing.
                state.unanswered += 1
                state.failed += 1
                log.warning("replay_unanswered", run=state.run.id, step=step.id, reason=str(error))
                continue
            except LeaseOver:
                raise
            except Exception as error:
                state.failed += 1
                log.error("replay_step_failed", run=state.run.id, step=step.id, error=error)
                continue
            state.done += 1
            await state.note(step, result)
            self._metrics.steps.labels(step.plan.kind, result).inc()

    async def _done(self, step: ReplayStep, asking: Asking) -> str:
        try:
            return await self._work[step.plan.kind](step, asking)
        except NotReplayable as error:
            await asyncio.wrap_future(self._jobs.finish(step.id, "skipped", str(error)))
            return str(error)

    async def _watch(self, state: _Running, progress: Watch | None) -> None:
        """Keep the run's row, the gauges and whoever watches up to date."""
        paused_since, said = 0.0, 0.0
        clock = asyncio.get_running_loop().time
        told: tuple[RunState, int] | None = None
        while True:
            now = clock()
            waiting = state.gate.waiting > 0
            paused_since = (paused_since or now) if waiting else 0.0
            now_state: RunState = "paused" if waiting and now - paused_since >= _PAUSED_AFTER_S else "running"
            self._metrics.running.set(0.5 if now_state == "paused" else 1)
            self._metrics.left.set(len(state.left))
            if told is None or told[0] != now_state:
                log.info("replay_state", run=state.run.id, state=now_state, done=state.done)
                note = "waits for low traffic" if now_state == "paused" else ""
                await asyncio.wrap_future(self._jobs.goes_on(state.run.id, now_state, note))
            if told != (now_state, state.done) or now - said >= self._progress_s:
                told, said = (now_state, state.done), now
                if progress is not None:
                    await progress(await self._progress(state, now_state))
            await asyncio.sleep(_PAUSED_AFTER_S)

    async def _progress(self, state: _Running, now: RunState) -> Progress:
        spent = await asyncio.to_thread(self._jobs.asks.spent, state.run.id)
        return Progress(
            state.run.id, now, state.steps - len(state.left) - len(state.refused), state.steps, spent
        )


@dataclass(slots=True)
class _Running:
    """The state of a run that is being carried out."""

    run: ReplayRun
    left: Order
    steps: int
    gate: Gate
    done: int = 0
    failed: int = 0
    unanswered: int = 0
    """In a row."""
    over: str = ""
    """Why nothing more is begun."""
    short_of: str = ""
    """The budget's lack when it last refused a request."""
    refused: list[ReplayStep] = field(default_factory=list)
    """Steps that were begun, and whose next request the budget did not allow for."""
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Whoever asks for the next step, or changes the order: one at a time, on a thread."""

    async def next(self) -> ReplayStep | None:
        """The step to take up now."""
        async with self.turn:
            return self.refused.pop(0) if self.refused else await asyncio.to_thread(self.left.take)

    async def note(self, step: ReplayStep, result: str) -> None:
        """Note what came of a step: it may change which comes next."""
        async with self.turn:
            await asyncio.to_thread(self.left.came_of, step, result)

    def ended(self) -> tuple[RunState, str]:
        """Return the final state, and its reason in a few words."""
        if self.unanswered >= _GIVE_UP_AFTER:
            return "failed", "the engines gave no answer"
        why = self.over or (self.short_of if self.refused else "")
        if why:
            return "stopped", why
        return "done", f"{self.failed} steps got no answer" if self.failed else ""


class Replay:
    """Plans and carries out replays over an open store with an index."""

    def __init__(
        self,
        store: Store,
        planner: Planner,
        runner: ReplayRunner,
    ) -> None:
        self.store = store
        self.jobs = store.jobs.replay
        self.planner = planner
        self._runner = runner

    async def plan(self, budget: ReplayBudget, tenant: str = "") -> list[NewStep]:
        """Plan the steps of a job for a tenant, or for all, best first. Asks no engine and changes nothing."""
        return await asyncio.to_thread(self.planner.plan, budget, tenant)

    async def run(
        self,
        budget: ReplayBudget,
        tenant: str = "",
        *,
        asked_by: str = "command",
        may_go_on: MayGoOn = always,
        progress: Watch | None = None,
    ) -> ReplayRun:
        """Plan and run. Raises AnotherReplayRuns while any process runs one, and what the store raises."""
        async with self._only_one():
            await asyncio.wrap_future(self.jobs.interrupt_dead())
            run_id = await asyncio.wrap_future(self.jobs.want(tenant, budget, asked_by=asked_by))
            return await self._planned_and_run(run_id, budget, tenant, may_go_on, progress)

    async def take_up(
        self,
        run_id: int,
        may_go_on: MayGoOn = always,
        *,
        progress: Watch | None = None,
        budget: ReplayBudget | None = None,
    ) -> ReplayRun:
        """Run what somebody wanted, or go on with a run that ended before its plan did. `budget`: another one from now on.

        Raises AnotherReplayRuns, NotThatRun.
        """
        async with self._only_one():
            await asyncio.wrap_future(self.jobs.interrupt_dead())
            run = await asyncio.to_thread(self.jobs.run, run_id)
            if run is None:
                raise NotThatRun(f"there is no run {run_id}; `understudy learn replay list` shows them")
            if budget is not None:
                await asyncio.wrap_future(self.jobs.widen(run_id, budget))
            return await self._planned_and_run(run_id, budget or run.budget, run.tenant, may_go_on, progress)

    def unfinished(self, tenant: str | None = None) -> ReplayRun | None:
        """The latest run that ended before its plan did, or still goes on. Blocks."""
        for run in self.jobs.runs(limit=20, tenant=tenant, states=_UNFINISHED):
            left = self.jobs.progress(run.id)
            if any(left.get(state) for state in ("planned", "asked", "paid")):
                return run
        return None

    async def _planned_and_run(
        self,
        run_id: int,
        budget: ReplayBudget,
        tenant: str,
        may_go_on: MayGoOn,
        progress: Watch | None,
    ) -> ReplayRun:
        if not await asyncio.to_thread(self.jobs.progress, run_id):
            await asyncio.wrap_future(self.jobs.plan(run_id, await self.plan(budget, tenant)))
        ended = await self._runner.run(run_id, may_go_on, progress)
        spent = await asyncio.to_thread(self.jobs.asks.spent, run_id)
        log.info(
            "replay_spent",
            run=run_id,
            usd=round(spent.usd, 6),
            unknown_usd=round(spent.unknown_usd, 6),
            tokens=spent.tokens,
            engines_s=round(spent.seconds, 1),
        )
        return ended

    @asynccontextmanager
    async def _only_one(self) -> AsyncIterator[None]:
        try:
            async with alone(self.store.jobs.leases, LEASE):
                yield
        except NotAlone:
            raise AnotherReplayRuns("another process runs a replay on this store") from None


async def take_back_run(store: Store, run_id: int) -> Undone:
    """Undo all that a run did to the bank: old answers come back, examples that it wrote go.

    What a person changed since stays. Raises NotThatRun for a run that is not there or still goes on.
    """
    run = await asyncio.to_thread(store.jobs.replay.run, run_id)
    if run is None:
        raise NotThatRun(f"there is no run {run_id}; `understudy learn replay list` shows them")
    if run.state in ("running", "paused", "wanted"):
        raise NotThatRun(f"run {run_id} is {run.state}: stop it first")
    done = await asyncio.wrap_future(store.examples.versions.undo_run(run_id))
    await asyncio.wrap_future(
        store.jobs.replay.end(run_id, "undone", f"{done.left} changed since and left alone")
    )
    return done


async def take_back_example(store: Store, tenant: str, example_id: int) -> Undone:
    """Give an example the answer it had before its last replay."""
    return await asyncio.wrap_future(store.examples.versions.undo_example(tenant, example_id))
