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
from store.errors import StoreFailed
from store.workflows.records import Claim
from tests.gateway.runs.carried_out import KNOBS, Engine, begun, body, values
from tests.gateway.serving import open_admission


class Failing(OpenedRuns):
    """Does not take what happened, so many times."""

    def __init__(self, times: int) -> None:
        super().__init__()
        self.left = times
        self.saved = 0

    def save(self, claim: Claim, changes: Any) -> Future[None]:
        if self.left > 0:
            self.left -= 1
            future: Future[None] = Future()
            future.set_exception(StoreFailed("the disk is full"))
            return future
        self.saved += 1
        return super().save(claim, changes)


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
