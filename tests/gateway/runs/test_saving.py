"""What happens to runs is committed together, in order, and again where the store would not."""

from __future__ import annotations

import asyncio
from concurrent.futures import Future
from typing import Any

import pytest

from benchmarks.runs_store import OpenedRuns
from gateway.runs import saving
from gateway.runs.metrics import Uncounted
from gateway.runs.runs import Runs
from store.errors import StoreBusy, StoreFailed
from store.workflows.records import TooManyBytes
from tests.gateway.runs.carried_out import KNOBS, Engine, begun, body, values
from tests.gateway.runs.declared_world import World, flows_over
from tests.gateway.runs.declared_world import begun as begun_workflow
from tests.gateway.serving import open_admission
from tests.workflows.definitions import Answers, doc_qa
from workflows.definition import Splits


class Failing(OpenedRuns):
    """Does not take what happened, so many times."""

    def __init__(self, times: int) -> None:
        super().__init__()
        self.left = times
        self.saved = 0

    def save(self, owner: str, changes: Any) -> Future[None]:
        if self.left > 0:
            self.left -= 1
            future: Future[None] = Future()
            future.set_exception(StoreFailed("the disk is full"))
            return future
        self.saved += 1
        return super().save(owner, changes)


async def test_a_store_that_fails_holds_nothing_up_and_is_told_later(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(saving, "_AGAIN_S", 0.01)
    store, failures = Failing(3), []

    class Counting(Uncounted):
        def not_saved(self) -> None:
            failures.append(1)

    runs = Runs(Engine().answer, open_admission(), store, KNOBS, shared=False, metrics=Counting())
    run, _ = await begun(runs, body(("A", "a"), ("B {{a}}", "b")))
    assert await values(run) == {"a": "<A>", "b": "<B <A>>"}
    async with asyncio.timeout(10):
        while runs.live:
            await asyncio.sleep(0.01)
    whole = store.run(run.id)
    assert whole is not None and whole.run.state == "done" and len(failures) == 3
    assert [variable.value for variable in whole.variables] == ["<A>", "<B <A>>"]
    await runs.aclose(grace_s=0)


async def test_a_turn_of_the_loop_is_one_write() -> None:
    store = Failing(0)
    runs = Runs(Engine().answer, open_admission(), store, KNOBS, shared=False)
    both = [await begun(runs, body(*((f"{i}", f"v{i}") for i in range(50)))) for _ in range(2)]
    for run, _ in both:
        await values(run)
    assert store.saved < 50, "a hundred steps began, streamed and ended"
    await runs.aclose(grace_s=0)


async def test_steps_that_a_run_grows_by_are_written_before_what_happens_to_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(saving, "_AGAIN_S", 0.01)

    class Stunting(OpenedRuns):
        left = 3

        def extend(self, *arguments: Any, **options: Any) -> Future[None]:
            self.left -= 1
            if self.left >= 0:
                raise StoreBusy("too much to write")
            return super().extend(*arguments, **options)

    store, world = Stunting(), World(Answers(4))
    world.splits = {"queries": Splits("json")}
    async with flows_over(world, store) as runs:
        run = await begun_workflow(runs, doc_qa(), {"question": "what?", "documents": ["abcd", "bcda"]})
        async with asyncio.timeout(10):
            while runs.live:
                await asyncio.sleep(0.01)
    whole = store.run(run.id)
    assert whole is not None and whole.run.state == "done" and store.left < 0
    assert {step.plan.id: step.progress.state for step in whole.steps} == dict.fromkeys(
        run.graph.steps, "done"
    )
    assert {v.state for v in whole.variables} == {"ready"}


async def test_a_run_that_takes_more_room_than_its_tenant_has_fails_and_says_why() -> None:
    class Small(OpenedRuns):
        def extend(self, *arguments: Any, **options: Any) -> Future[None]:
            future: Future[None] = Future()
            future.set_exception(TooManyBytes("1"))
            return future

    store, world = Small(), World(Answers(4))
    world.splits = {"queries": Splits("json")}
    async with flows_over(world, store) as runs:
        run = await begun_workflow(runs, doc_qa(), {"question": "what?", "documents": ["abcd", "bcda"]})
        async with asyncio.timeout(10):
            while runs.live:
                await asyncio.sleep(0.01)
    assert run.failure is not None and run.failure.code == "total_too_large"
    whole = store.run(run.id)
    assert whole is not None and whole.run.state == "failed"
    assert whole.run.failure is not None and whole.run.failure.code == "total_too_large"
