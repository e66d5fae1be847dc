"""What other processes did is noticed, also where the store, or one of their runs, cannot be read for a while."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace

from benchmarks.runs_store import OpenedRuns
from gateway.runs.caller import Caller
from gateway.runs.step_door import StepDoor
from router.asked import Controls
from store.errors import StoreFailed
from store.workflows.records import Variable, WholeRun
from tests.gateway.serving import open_admission
from tests.workflows.running.carried_out import KNOBS, TENANT, Engine, begun, body, runs_over, taken_over
from workflows.running.live import LiveRun
from workflows.running.new_graph import NewGraph
from workflows.running.runs import Runs
from workflows.submitted import Limits, build, read_run


class Unreadable(OpenedRuns):
    """Does not tell how variables stand, so many times."""

    left = 0

    def variables(self, tenant: str, variable_ids: Sequence[str], *, now_s: float) -> dict[str, Variable]:
        if self.left > 0:
            self.left -= 1
            raise StoreFailed("the disk cannot be read")
        return super().variables(tenant, variable_ids, now_s=now_s)


async def test_an_end_that_could_not_be_read_at_first_is_not_missed() -> None:
    store, engine = Unreadable(), Engine()
    async with runs_over(engine, store, owner="one") as one, runs_over(engine, store, shared=True) as other:
        engine.pause_s = 0.05
        _, built = await begun(one, body(("A", "a")))
        cell = await other.find(TENANT, built.variables["a"])
        assert cell is not None and not cell.ended
        store.left = 3
        async with asyncio.timeout(10):
            await cell.until_ended(kept=True)
        assert cell.value == "<A>" and store.left == 0


class Spoilt(OpenedRuns):
    """One run's steps read names that no step has."""

    spoilt = ""

    def run(self, run_id: str, tenant: str | None = None) -> WholeRun | None:
        whole = super().run(run_id, tenant)
        if whole is None or run_id != self.spoilt:
            return whole
        return replace(whole, steps=whole.steps * 2)


async def test_a_run_that_cannot_be_carried_on_holds_no_other_up() -> None:
    store, first, second = Spoilt(), Engine(pause_s=3600), Engine()
    dead = Runs(StepDoor(first.answer, open_admission()), store, KNOBS, shared=False, owner="dead")
    spoilt, _ = await begun(dead, body(("A", "a")))
    whole, _ = await begun(dead, body(("B", "b")))
    await dead.aclose(grace_s=0)
    store.spoilt = spoilt.id
    other = Runs(StepDoor(second.answer, open_admission()), store, KNOBS, shared=False, owner="other")
    await taken_over(other, "dead")
    assert list(other.live) == [whole.id]
    await other.aclose(grace_s=0)


async def test_a_run_that_is_stored_nowhere_fails_with_its_process_and_says_so() -> None:
    store, engine = OpenedRuns(), Engine(pause_s=3600)
    dead = Runs(StepDoor(engine.answer, open_admission()), store, KNOBS, shared=False, owner="dead")
    built = build(read_run(body(("A", "a"), ("B {{a}}", "b")), Limits(1000, 1000)), {})
    caller = Caller(TENANT, controls=Controls(no_store=True))
    run = await dead.begin(NewGraph(caller, tuple(built.graph.steps.values())))
    assert isinstance(run, LiveRun)
    await dead.aclose(grace_s=0)
    other = Runs(StepDoor(engine.answer, open_admission()), store, KNOBS, shared=False, owner="other")
    await taken_over(other, "dead")
    whole = store.run(run.id)
    assert whole is not None and whole.run.state == "failed" and not other.live
    assert whole.run.failure is not None and whole.run.failure.code == "restarted"
    assert {variable.state for variable in whole.variables} == {"failed"}
    assert {step.progress.state for step in whole.steps} == {"failed"}
    await other.aclose(grace_s=0)
