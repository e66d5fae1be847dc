"""Runs a replay: takes the steps of its plan one after another, a few at a time, until they, the budget or the quiet end.

It may die at any moment. Whoever begins the same run again goes on where it was: a step that is done is not done again, and
what was paid for is not paid for again.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import structlog

from engines.asking import NotAnswered
from learning.replay.asking import Asking, Gate, MayGoOn, always
from learning.replay.metrics import ReplayMetrics
from store.jobs.replay_jobs import BudgetSpent, ReplayJobs, StopAsked
from store.jobs.replay_records import ReplayRun, ReplaySpent, ReplayStep, RunState, StepKind

log = structlog.get_logger(__name__)

_HEARTBEAT_S = 5.0
_PAUSED_AFTER_S = 0.25
_GIVE_UP_AFTER = 8
"""Steps without an answer in a row: the engine is down, and the rest of the plan would fare no better."""


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a run is."""

    run_id: int
    state: RunState
    done: int
    steps: int
    spent: ReplaySpent


class StepWork(Protocol):
    """Does one kind of step."""

    async def __call__(self, step: ReplayStep, asking: Asking) -> str:
        """Do it and say what came of it (ReplayJobs.finish); gives the result's code.

        Raises what Asking.ask raises. Called again after a kill, it asks the same under the same keys.
        """
        ...


class Order(Protocol):
    """Which step comes next; see learning.replay.order. Its methods may block."""

    def __len__(self) -> int: ...

    def take(self) -> ReplayStep | None: ...

    def came_of(self, step: ReplayStep, result: str) -> None: ...


class AsPlanned:
    """One step after another."""

    def __init__(self, steps: Sequence[ReplayStep]) -> None:
        """`steps`: all of the run, done or not."""
        self._left = deque(step for step in steps if step.state not in ("done", "skipped"))

    def __len__(self) -> int:
        return len(self._left)

    def take(self) -> ReplayStep | None:
        """The next."""
        return self._left.popleft() if self._left else None

    def came_of(self, step: ReplayStep, result: str) -> None:
        """Changes nothing."""


class ReplayRunner:
    """`run` one run at a time, on the event loop. Whoever calls it holds the lock of replay (store.jobs.exclusive)."""

    def __init__(
        self,
        jobs: ReplayJobs,
        work: Mapping[StepKind, StepWork],
        metrics: ReplayMetrics,
        *,
        order: Callable[[Sequence[ReplayStep]], Order] = AsPlanned,
        in_flight: int = 4,
        pause_above: float = 0.8,
        heartbeat_s: float = _HEARTBEAT_S,
    ) -> None:
        """`order`: from all steps of a run to their order. `in_flight`: steps at once. `pause_above`: utilisation above
        which an engine is not asked."""
        self._jobs = jobs
        self._work = dict(work)
        self._metrics = metrics
        self._order = order
        self._in_flight = in_flight
        self._pause_above = pause_above
        self._heartbeat_s = heartbeat_s

    async def run(
        self,
        run_id: int,
        may_go_on: MayGoOn = always,
        progress: Callable[[Progress], Awaitable[None]] | None = None,
    ) -> ReplayRun:
        """Carry a planned run out, as far as it goes; gives it as it is then.

        `may_go_on` is awaited before each request to an engine. Cancelling leaves the run interrupted: `run` goes on with
        it. Raises AnotherReplayRuns, NotThatRun and what the store raises; a step's own failure is logged and passed over.
        """
        run = await asyncio.wrap_future(self._jobs.begin(run_id))
        ended: tuple[RunState, str] = ("interrupted", "its process was stopped")
        try:
            steps = await asyncio.to_thread(self._jobs.steps, run_id)
            left = await asyncio.to_thread(self._order, steps)
            state = _Under(run, left, len(steps), Gate(may_go_on, self._pause_above))
            log.info("replay_began", run=run_id, steps=len(steps), left=len(left))
            async with asyncio.TaskGroup() as group:
                watching = group.create_task(self._watch(state, progress), name="replay watch")
                async with asyncio.TaskGroup() as workers:
                    for number in range(self._in_flight):
                        workers.create_task(self._work_off(state), name=f"replay {number}")
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

    async def _work_off(self, state: _Under) -> None:
        while not state.over and state.unanswered < _GIVE_UP_AFTER:
            step = await state.next()
            if step is None:
                return
            work = self._work.get(step.plan.kind)
            if work is None:
                continue
            paid = await asyncio.to_thread(self._jobs.asks.paid, step.id)
            try:
                result = await work(step, Asking(self._jobs, step, state.gate, self._metrics, paid))
                state.unanswered = 0
            except BudgetSpent as spent:
                # Others may still have what they need of it; this worker looks no further.
                state.short_of = f"the budget of {spent} is spent"
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
            except Exception as error:
                state.failed += 1
                log.error("replay_step_failed", run=state.run.id, step=step.id, error=error)
                continue
            state.done += 1
            await state.note(step, result)
            self._metrics.steps.labels(step.plan.kind, result).inc()

    async def _watch(self, state: _Under, progress: Callable[[Progress], Awaitable[None]] | None) -> None:
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
            if told != (now_state, state.done) or now - said >= self._heartbeat_s:
                if told is None or told[0] != now_state:
                    log.info("replay_state", run=state.run.id, state=now_state, done=state.done)
                told, said = (now_state, state.done), now
                note = "waits for quiet" if now_state == "paused" else ""
                await asyncio.wrap_future(self._jobs.alive(state.run.id, now_state, note))
                if progress is not None:
                    await progress(await self._progress(state, now_state))
            await asyncio.sleep(_PAUSED_AFTER_S)

    async def _progress(self, state: _Under, now: RunState) -> Progress:
        spent = await asyncio.to_thread(self._jobs.asks.spent, state.run.id)
        return Progress(state.run.id, now, state.steps - len(state.left), state.steps, spent)


@dataclass(slots=True)
class _Under:
    """A run under way."""

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
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Whoever asks for the next step, or changes the order: one at a time, on a thread."""

    async def next(self) -> ReplayStep | None:
        """The step to take up now."""
        async with self.turn:
            return await asyncio.to_thread(self.left.take)

    async def note(self, step: ReplayStep, result: str) -> None:
        """What came of a step may change which comes next."""
        async with self.turn:
            await asyncio.to_thread(self.left.came_of, step, result)

    def ended(self) -> tuple[RunState, str]:
        """How it ended, and why in a few words."""
        if self.unanswered >= _GIVE_UP_AFTER:
            return "failed", "the engines gave no answer"
        why = self.over or self.short_of
        if why:
            return "stopped", why
        return "done", f"{self.failed} steps got no answer" if self.failed else ""
