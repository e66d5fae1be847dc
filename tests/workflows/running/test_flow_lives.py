"""Runs of workflows that are cut off: by their client, by their process, by a store that fails, by what they may spend."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from concurrent.futures import Future
from contextlib import asynccontextmanager
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from multidict import CIMultiDict

from benchmarks.runs_store import OpenedRuns
from router.finished import Outcome
from store.errors import StoreFailed
from store.workflows.records import Claim, Resolution, RunBudget
from tests.patience import PATIENCE_S
from tests.workflows.definitions import (
    EMBEDDER,
    NOTIFY,
    Answers,
    answers,
    chat_messages,
    definition,
    definitions,
    doc_qa,
    inputs,
)
from tests.workflows.running.carried_out import KNOBS, TENANT, taken_over
from tests.workflows.running.declared_world import World, begun, chunk, finished, flows_over
from tests.workflows.running.test_flows import QUESTION, ended, over
from workflows.definition import Definition, Splits, StepSpec
from workflows.progress import StepState
from workflows.running.live import LiveRun
from workflows.running.runs import Runs
from workflows.transform import Transform
from workflows.unfolding import Unfolding

GOOD = 4
"""A seed with which every list of `doc_qa` is whole."""


async def when_(condition: Callable[[], object]) -> None:
    """Return once it holds."""
    async with asyncio.timeout(PATIENCE_S):
        while not condition():
            await asyncio.sleep(0)


def doc_qa_world(**more: Any) -> World:
    world = World(Answers(GOOD), **more)
    world.splits = {"queries": Splits("json")}
    return world


def telling(**more: Any) -> Definition:
    """A tool with effects between two chats."""
    return definition(
        StepSpec("first", "chat", messages=chat_messages("{{question}}"), reads=("question",), model="small"),
        StepSpec(
            "tell", "tool", reads=("first",), component=NOTIFY, args={"x": "{{first}}"}, effects=True, **more
        ),
        StepSpec("last", "chat", messages=chat_messages("{{tell}}"), reads=("tell",), model="small"),
    )


class Stuck(World):
    """The component `at` does not answer, until `free` is set."""

    def __init__(self, at: str, **more: Any) -> None:
        super().__init__(Answers(GOOD), **more)
        self.at = at
        self.free = asyncio.Event()

    async def pause(self, who: str) -> None:
        """Take for ever."""
        self.under_way[who] += 1
        try:
            if who == self.at:
                await self.free.wait()
        finally:
            self.under_way[who] -= 1


@pytest.mark.parametrize("at", ["chat", EMBEDDER, "reranker"])
async def test_what_is_under_way_for_a_cancelled_run_ends_at_once(at: str) -> None:
    world = Stuck(at)
    world.splits = {"queries": Splits("json")}
    async with flows_over(world) as runs:
        run = await begun(runs, doc_qa(), QUESTION)
        await when_(lambda: world.under_way[at])
        runs.cancel(run)
        await over(run)
        await asyncio.sleep(0)
        assert not world.under_way.total()
        assert run.ended == "cancelled"
        assert not run.tasks


async def cut_off(world: World, store: OpenedRuns, declared: Definition, when: Any) -> str:
    """A run whose process ends without a word once `when` holds; gives its id."""
    async with flows_over(world, store, owner="dead") as runs:
        run = await begun(runs, declared, QUESTION, background=True)
        await when_(lambda: when(run))
        await runs._saving.all_kept()
        for task in list(run.tasks.values()):
            task.cancel()
        run.lost = True
        return run.id


@asynccontextmanager
async def carried_on(world: World, store: OpenedRuns, id: str) -> AsyncIterator[tuple[Runs, LiveRun]]:
    """The run in the process that has taken it over."""
    async with flows_over(world, store, owner="other") as runs:
        await taken_over(runs, "dead")
        yield runs, runs.live[id]


async def test_a_run_is_carried_on_with_the_values_that_were_stored() -> None:
    store, world = OpenedRuns(), Stuck("reranker")
    world.splits = {"queries": Splits("json")}
    declared = doc_qa(passes=frozenset())
    id = await cut_off(world, store, declared, lambda run: world.under_way["reranker"])
    asked = world.asked.copy()
    alone = doc_qa_world()
    async with carried_on(second := doc_qa_world(), store, id) as (_, run):
        await over(run)
    assert run.ended == "done"
    assert not asked.keys() & second.asked.keys(), "a finished chat was asked again"
    assert not second.under_way.total()
    async with flows_over(alone) as whole:
        expected = await begun(whole, declared, QUESTION)
        await over(expected)
        assert run.cells[run.output].value == expected.cells[expected.output].value
    kept = store.run(id)
    assert kept is not None and kept.run.state == "done" and kept.run.workflow == declared.name
    assert not any(step.plan.primitive == "embed" and step.progress.attempts > 1 for step in kept.steps)


@pytest.mark.parametrize("how", ["retry", "skip", "value"])
async def test_a_tool_with_effects_that_was_cut_off_is_unknown_and_waits(how: Any) -> None:
    store, world = OpenedRuns(), Stuck(NOTIFY)
    id = await cut_off(world, store, telling(), lambda run: world.under_way[NOTIFY])
    assert world.effects == {f"{id}:tell": 1}
    async with carried_on(second := World(Answers(GOOD)), store, id) as (runs, run):
        await runs._saving.all_kept()
        await asyncio.sleep(0.05)
        assert run.ended is None and run.progress.steps["tell"] is StepState.UNKNOWN
        whole = store.run(id)
        assert whole is not None
        assert {step.plan.id: step.progress.state for step in whole.steps} == {
            "first": "done",
            "tell": "unknown",
            "last": "waiting",
        }
        assert not await runs.resolve("somebody else", id, "tell", Resolution(how, "told"))
        assert not await runs.resolve(TENANT, id, "last", Resolution(how, "told"))
        assert await runs.resolve(TENANT, id, "tell", Resolution(how, "told"))
        assert not await runs.resolve(TENANT, id, "tell", Resolution(how, "told"))
        await over(run)
        assert second.effects == ({f"{id}:tell": 1} if how == "retry" else {})
        assert str(run.ended) == ("failed" if how == "skip" else "done")
        if how == "skip":
            assert run.failure is not None and run.failure.code == "output_skipped"
        if how == "value":
            assert run.progress.values[run.flow.unfolding.variable("tell")] == "told"


async def test_an_idempotent_tool_that_was_cut_off_is_asked_again_under_the_same_key() -> None:
    store, world = OpenedRuns(), Stuck(NOTIFY)
    keys: list[str] = []

    class Noting(World):
        async def call(self, name: str, args: Any, work: Any, key: str, may_retry: bool) -> str:
            keys.append(key)
            assert may_retry
            return "told"

    id = await cut_off(world, store, telling(idempotent=True), lambda run: world.under_way[NOTIFY])
    async with carried_on(Noting(Answers(GOOD)), store, id) as (_, run):
        await over(run)
        assert run.ended == "done" and keys == [f"{id}:tell"]


async def test_no_effect_without_its_row() -> None:
    class Full(OpenedRuns):
        full = False

        def save(self, claim: Claim, changes: Any) -> Future[None]:
            if self.full and any(c.steps.get("tell") for c in changes):
                future: Future[None] = Future()
                future.set_exception(StoreFailed("the disk is full"))
                return future
            return super().save(claim, changes)

    store, world = Full(), World(Answers(GOOD))
    async with flows_over(world, store) as runs:
        store.full = True
        run = await begun(runs, telling(), QUESTION)
        await when_(lambda: run.ended)
        store.full = False
        await over(run)
        assert run.ended == "failed" and not world.effects
        cell = run.cells[run.flow.unfolding.variable("tell")]
        assert cell.failure is not None and cell.failure.code == "store_unavailable"


async def test_nothing_that_ran_on_items_is_stored_before_their_list_is_whole() -> None:
    store, world = OpenedRuns(), Halting()
    async with flows_over(world, store) as runs:
        run = await begun(runs, doc_qa(), QUESTION)
        await when_(lambda: "found.search[0]" in run.progress.ended)
        await runs._saving.all_kept()
        whole = store.run(run.id)
        assert whole is not None and not any(s.plan.id.startswith("found.") for s in whole.steps)
        world.go_on.set()
        await over(run)
        whole = store.run(run.id)
        assert whole is not None and run.ended == "done"
        states = {s.plan.id: s.progress.state for s in whole.steps}
        assert states["found.search[0]"] == "done" and set(states) == set(run.graph.steps)
        assert set(states.values()) == {"done"}


class Halting(World):
    """Writes a list of three, and pauses before the end of it."""

    def __init__(self, end: str = "]") -> None:
        super().__init__(Answers(GOOD))
        self.go_on = asyncio.Event()
        self.beginning, self.end = '["a", "b", "c"', end

    async def answer(self, asked: Any, send: Any) -> Any:
        """As World.answer."""
        if asked.placement.step != "queries":
            return await super().answer(asked, send)
        write = await send.begin(200, CIMultiDict({"Content-Type": "text/event-stream"}))
        await write(chunk({"choices": [{"index": 0, "delta": {"content": self.beginning}}]}))
        await self.go_on.wait()
        await write(chunk({"choices": [{"index": 0, "delta": {"content": self.end}}]}))
        await write(b"data: [DONE]\n\n")
        await send.end()
        return finished(asked, Outcome.ANSWERED, 200)


async def test_what_ran_on_items_of_a_list_that_fails_is_dropped() -> None:
    store, world = OpenedRuns(), Halting(end=" and so on")
    async with flows_over(world, store) as runs:
        run = await begun(runs, doc_qa(), QUESTION)
        await when_(lambda: "found.search[0]" in run.progress.ended)
        world.go_on.set()
        await over(run)
        await when_(lambda: not run.tasks)
        whole = store.run(run.id)
        assert whole is not None and run.ended == "failed"
        assert {s.plan.id for s in whole.steps} == {
            *("chunks", "index", "queries", "found", "top", "answer"),
            *(id for id in run.graph.steps if id.startswith("index.")),
        }
        assert all(cell.kept for cell in run.cells.values())


async def test_a_run_that_may_spend_no_more_is_cancelled_and_says_why() -> None:
    async with flows_over(doc_qa_world()) as runs:
        run = await begun(runs, doc_qa(), QUESTION, budget=RunBudget(tokens=7))
        await over(run)
        assert run.failure is not None and run.failure.code == "budget_exceeded"


async def test_a_run_that_grows_beyond_what_a_run_may_have_fails_and_says_why() -> None:
    declared = definition(StepSpec("each", "map", ("documents",), chat_messages("{{item}}"), model="small"))
    documents = [f"{n}" for n in range(KNOBS.max_steps - 1)]
    async with flows_over(World(Answers(GOOD))) as runs:
        run = await begun(runs, declared, {"question": "", "documents": documents})
        await over(run)
        assert run.ended == "done"
    declared = definition(
        StepSpec("lines", "transform", ("question",), transforms=(Transform("lines"),)),
        StepSpec("each", "map", ("lines",), chat_messages("{{item}}"), model="small"),
    )
    many = "\n".join(f"{n}" for n in range(KNOBS.max_steps))
    async with flows_over(World(Answers(GOOD))) as runs:
        run = await begun(runs, declared, {"question": many, "documents": []})
        await over(run)
        assert run.failure is not None and run.failure.code == "too_many_steps"


def __lines() -> Any:
    from workflows.transform import Transform

    return (Transform("lines"),)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(definitions(), inputs(), answers(), st.integers(0, 1 << 16), st.integers(0, 40))
def test_wherever_its_process_ends_a_run_comes_to_the_same_end(
    declared: Definition, given_: dict[str, Any], said: Answers, seed: int, turns: int
) -> None:
    splits = {name: spec.splits for name, spec in declared.steps.items() if spec.splits is not None}

    async def come_to_an_end() -> None:
        whole = await ended(World(said, seed), declared, given_)
        store, first, second = OpenedRuns(), World(said, seed), World(said, seed + 1)
        first.splits = second.splits = splits
        async with flows_over(first, store, owner="dead") as runs:
            run = await begun(runs, declared, given_, background=True)
            for _ in range(turns):
                await asyncio.sleep(0)
            for task in list(run.tasks.values()):
                task.cancel()
            over_already, run.lost = run.id not in runs.live, True
        if over_already:
            return
        done, there = _finished(store, run.id), store.run(run.id)
        assert there is not None
        ended_there = {s.plan.id for s in there.steps if s.progress.state in ("done", "failed", "cancelled")}
        async with carried_on(second, store, run.id) as (runs, again):
            waiting = [id for id, state in again.progress.steps.items() if state is StepState.UNKNOWN]
            assert all(again.graph.steps[step].effects for step in waiting)
            told = {key.partition(":")[2] for key in first.effects}
            assert told - ended_there <= set(waiting), "what was asked and has not ended is not known"
            for step in waiting:
                assert await runs.resolve(TENANT, run.id, step, Resolution("retry"))
            await over(again)
            cells = {name: again.cells[again.flow.unfolding.variable(name)] for name in declared.steps}
            assert str(again.ended) == whole.state
            assert {name: cell.value for name, cell in cells.items()} == whole.values
            failed = {name: c.failure.code for name, c in cells.items() if c.failure is not None}
            assert failed.keys() == whole.failed.keys()
            again_done = _finished(store, run.id)
            assert {step: again_done[step] for step in done} == done, "a finished step was asked again"
            effects = first.effects + second.effects
            effects.subtract(f"{run.id}:{step}" for step in waiting)
            assert max(effects.values(), default=1) <= 1, "an effect happened twice, and nobody had said so"

    asyncio.run(come_to_an_end())


def _finished(store: OpenedRuns, id: str) -> dict[str, int]:
    """How often each step was asked that has ended with a text."""
    whole = store.run(id)
    assert whole is not None
    stored = {v.step for v in whole.variables if v.state == "ready" and v.value is not None}
    return {s.plan.id: s.progress.attempts for s in whole.steps if s.plan.id in stored}


async def test_a_fault_of_ours_ends_a_run_that_would_wait_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any) -> Any:
        raise RuntimeError("a fault")

    monkeypatch.setattr(Unfolding, "ready", broken)
    async with flows_over(doc_qa_world()) as runs:
        run = await begun(runs, doc_qa(), QUESTION)
        await over(run)
        assert run.ended == "failed" and run.failure is not None and run.failure.code == "internal_error"


async def test_scores_that_are_no_numbers_fail_their_step_and_say_so() -> None:
    class Unsure(World):
        async def rerank(self, name: str, query: str, texts: Any, work: Any) -> list[float]:
            return [float("nan") for _ in texts]

    world = Unsure(Answers(GOOD))
    world.splits = {"queries": Splits("json")}
    async with flows_over(world) as runs:
        run = await begun(runs, doc_qa(), QUESTION)
        await over(run)
        cell = run.cells[run.flow.unfolding.variable("top")]
        assert cell.failure is not None and "no finite number" in cell.failure.message
