"""The executor of runs: what is asked, when, how often, and what becomes of it."""

from __future__ import annotations

import asyncio
from concurrent.futures import Future
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from multidict import CIMultiDict

from benchmarks.runs_store import OpenedRuns
from engines.placement import Rank
from gateway.runs.caller import Caller
from gateway.runs.step_door import StepDoor
from router.asked import Controls
from store.workflows.records import Begun, Claim, TooManyBytes
from tests.gateway.serving import open_admission
from tests.workflows.running.carried_out import (
    KNOBS,
    TENANT,
    Engine,
    begun,
    body,
    runs_over,
    taken_over,
    values,
)
from workflows.criteria import Criteria
from workflows.progress import RunState
from workflows.running.live import LiveRun
from workflows.running.new_graph import NewGraph
from workflows.running.runs import Runs
from workflows.submitted import Limits, build, read_run


async def test_each_step_is_asked_once_and_not_before_its_inputs() -> None:
    engine = Engine()
    async with runs_over(engine) as runs:
        run, _ = await begun(runs, body(("C {{b}}", "c"), ("B {{a}}", "b"), ("A", "a")))
        assert await values(run) == {"c": "<C <B <A>>>", "b": "<B <A>>", "a": "<A>"}
    assert engine.prompts == ["A", "B <A>", "C <B <A>>"]


async def test_a_step_is_asked_as_a_stream_with_its_usage_and_its_place() -> None:
    engine = Engine()
    async with runs_over(engine) as runs:
        run, _ = await begun(
            runs, body(("A", "a"), ("B", "b"), ("C {{a}} {{b}}", "c"), ("D", "d"), get={"c": "latency"})
        )
        await values(run)
    assert all(asked.chat.stream and asked.chat.include_usage for asked in engine.asked)
    ranks = {str(a.chat.messages[-1]["content"])[0]: a.placement.rank for a in engine.asked if a.placement}
    assert ranks == {"A": Rank.GROUP, "B": Rank.GROUP, "C": Rank.LATENCY, "D": Rank.THROUGHPUT}
    last = engine.asked[-1].placement
    assert last is not None and last.run == run.id and last.depth == 1
    assert last.boundaries == ((0, 2), (0, 5), (0, 6))
    assert run.spent.tokens == 28


async def test_a_failure_fails_what_depends_on_it_and_nothing_else() -> None:
    for word, code in (("refuse", "step_failed"), ("break", "upstream_connection_failed")):
        engine = Engine()
        async with runs_over(engine) as runs:
            run, built = await begun(runs, body((word, "a"), ("B {{a}}", "b"), ("C", "c")))
            assert await values(run) == {"a": None, "b": None, "c": "<C>"}
            failure = run.cells[built.variables["a"]].failure
            assert failure is not None and failure.code == code
        assert sorted(engine.prompts) == ["C", word]


async def test_an_answer_that_is_too_large_is_broken_off() -> None:
    engine = Engine()
    async with runs_over(engine) as runs:
        run, built = await begun(runs, body(("x" * (KNOBS.max_value_bytes + 1), "a")))
        await values(run)
        failure = run.cells[built.variables["a"]].failure
    assert failure is not None and failure.code == "value_too_large"


async def test_cancelling_stops_what_is_asked() -> None:
    engine = Engine(pause_s=60)
    async with runs_over(engine) as runs:
        run, _ = await begun(runs, body(("A", "a"), ("B {{a}}", "b")))
        while not engine.under_way:
            await asyncio.sleep(0)
        runs.cancel(run)
        assert await values(run) == {"a": None, "b": None}
        while engine.under_way:
            await asyncio.sleep(0)
    assert engine.prompts == ["A"]


async def test_a_thousand_steps() -> None:
    engine = Engine()
    async with runs_over(engine) as runs:
        reduce = " ".join(f"{{{{v{i}}}}}" for i in range(999))
        run, _ = await begun(runs, body(*((f"{i}", f"v{i}") for i in range(999)), (reduce, "all")))
        assert (await values(run))["all"] is not None
    assert len(engine.asked) == 1000


async def test_a_run_of_a_process_that_ended_is_carried_on() -> None:
    store, first, second = OpenedRuns(), Engine(), Engine()
    dead = Runs(StepDoor(first.answer, open_admission()), store, KNOBS, shared=False, owner="dead")
    # Of the first process: one step has ended, one is being asked, and nothing more ever happens.
    run, built = await begun(dead, body(("A", "a"), ("B {{a}}", "b"), ("C {{b}}", "c")))
    await run.cells[built.variables["a"]].until_ended(kept=True)
    first.pause_s = 3600
    while len(first.asked) < 2:
        await asyncio.sleep(0)
    for task in list(run.tasks.values()):
        task.cancel()
    run.lost = True
    async with runs_over(second, store, shared=True, owner="other") as other:
        await taken_over(other, "dead")
        cell = await other.find(TENANT, built.variables["c"])
        assert cell is not None
        async with asyncio.timeout(30):
            await cell.until_ended(kept=True)
        assert cell.value == "<C <B <A>>>"
        whole = store.run(run.id)
        assert whole is not None and whole.run.adoptions == 1
        assert {step.plan.name: step.progress.attempts for step in whole.steps} == {"a": 1, "b": 2, "c": 1}
    assert second.prompts == ["B <A>", "C <B <A>>"]
    await dead.aclose(grace_s=0)


async def test_a_run_that_another_worker_claimed_is_let_go() -> None:
    store, engine = OpenedRuns(), Engine(pause_s=3600)
    async with runs_over(engine, store, shared=True, owner="late") as late:
        run, _ = await begun(late, body(("A", "a")))
        store.renew(Claim("late", -1.0)).result()
        assert store.claim(Claim("other", 600.0)).result() == (run.id,)
        async with asyncio.timeout(30):
            while not run.lost or engine.under_way:
                await asyncio.sleep(0.01)
        assert run.id not in late.live
        whole = store.run(run.id)
        assert whole is not None and whole.run.state == "running" and whole.steps[0].claimed_by == "other"


async def test_an_executor_that_is_closed_hands_its_runs_over() -> None:
    store = OpenedRuns()
    async with runs_over(Engine(pause_s=3600), store, shared=True, owner="leaves") as leaves:
        run, built = await begun(leaves, body(("A", "a")))
        await asyncio.sleep(0.01)
    async with runs_over(Engine(), store, shared=True, owner="stays") as stays:
        cell = await stays.find(TENANT, built.variables["a"])
        assert cell is not None
        async with asyncio.timeout(30):
            await cell.until_ended(kept=True)
        assert cell.value == "<A>"
    assert run.id


@st.composite
def histories(draw: st.DrawFn) -> tuple[list[tuple[str, list[int]]], list[float], int | None]:
    """Steps with the steps they read, how long each answer takes, and after which answer the run is cancelled, if at all."""
    count = draw(st.integers(1, 12))
    steps = []
    for i in range(count):
        reads = sorted(draw(st.sets(st.integers(0, i - 1), max_size=3))) if i else []
        steps.append((draw(st.sampled_from(["ok", "ok", "ok", "refuse", "break"])), reads))
    pauses = draw(st.lists(st.sampled_from([0.0, 0.0, 0.001, 0.003]), min_size=count, max_size=count))
    return steps, pauses, draw(st.one_of(st.none(), st.integers(0, count)))


@settings(max_examples=50, deadline=None)
@given(histories(), st.randoms())
def test_whatever_happens_every_run_ends_and_nothing_is_asked_twice_or_early(
    history: tuple[list[tuple[str, list[int]]], list[float], int | None], random: Any
) -> None:
    steps, pauses, cancelled_after = history

    class Uneven(Engine):
        async def answer(self, asked: Any, send: Any) -> Any:
            number = str(asked.chat.messages[-1]["content"]).split(":")[0]
            await asyncio.sleep(pauses[int(number)] if number.isdigit() else 0.0)
            return await super().answer(asked, send)

    async def happen() -> None:
        engine = Uneven()
        async with runs_over(engine) as runs, asyncio.timeout(60):
            asked = [
                (f"{i}:{word} {' '.join(f'{{{{v{r}}}}}' for r in reads)}", f"v{i}")
                for i, (word, reads) in enumerate(steps)
            ]
            random.shuffle(asked)
            run, built = await begun(runs, body(*asked))
            other, _ = await begun(runs, body(("theirs", "v0")), tenant="bob")
            if cancelled_after is not None:
                while len(engine.asked) < cancelled_after and run.ended is None:
                    await asyncio.sleep(0)
                runs.cancel(run)
            got = await values(run)
            assert (await values(other)) == {"v0": "<theirs>"}
            assert run.ended is not None and run.id not in runs.live
            assert set(engine.counts.values()) <= {1}
            fine = {
                i for i in range(len(steps)) if all(steps[j][0] == "ok" for j in ancestors(steps, i) | {i})
            }
            if cancelled_after is None:
                assert {name for name, value in got.items() if value is not None} == {f"v{i}" for i in fine}
            for prompt in engine.prompts:
                if prompt != "theirs":
                    number = int(prompt.split(":")[0])
                    assert "{{" not in prompt and prompt.count("<") >= len(steps[number][1])
            for id in built.variables.values():
                assert await runs.find("bob", id) is None

    asyncio.run(happen())


def ancestors(steps: list[tuple[str, list[int]]], of: int) -> set[int]:
    found: set[int] = set()
    left = list(steps[of][1])
    while left:
        step = left.pop()
        if step not in found:
            found.add(step)
            left += steps[step][1]
    return found


async def test_values_that_are_in_memory_only_go_with_their_run() -> None:
    async with runs_over(Engine()) as runs:
        built = build(read_run(body(("A", "a")), Limits(1000, 1000)), {})
        caller = Caller(TENANT, controls=Controls(no_store=True))
        run = await runs.begin(NewGraph(caller, tuple(built.graph.steps.values())))
        assert isinstance(run, LiveRun)
        assert await values(run) == {"a": "<A>"}
        assert not runs.live and not runs._cells
        cell = await runs.find(TENANT, built.variables["a"])
        assert cell is not None and (cell.state, cell.value) == ("ready", None)


@pytest.mark.parametrize("no_store", [False, True])
async def test_what_waits_takes_room_be_it_stored_or_not(no_store: bool) -> None:
    async with runs_over(Engine()) as runs:
        awaited = await runs.put(TENANT, "app", "late", None, "")
        runs._limits = replace(runs._limits, max_total_bytes=4500)
        caller = Caller(TENANT, controls=Controls(no_store=no_store))

        async def one() -> LiveRun | Begun:
            built = build(
                read_run(body(("{{late}}" + "x" * 1000, "a"), app="app"), Limits(1000, 5000)),
                {"late": awaited},
            )
            return await runs.begin(NewGraph(caller, tuple(built.graph.steps.values()), size_bytes=1000))

        begun = [await one(), await one()]
        with pytest.raises(TooManyBytes):
            for _ in range(5):
                await one()
        for run in begun:
            assert isinstance(run, LiveRun)
            runs.cancel(run)


async def test_a_run_that_waits_in_vain_ends_and_one_whose_step_takes_its_time_does_not() -> None:
    engine = Engine(pause_s=0.3)
    async with runs_over(engine) as runs:
        runs.knobs = replace(KNOBS, max_wait_s=0.05)
        late = await runs.put(TENANT, "app", "late", None, "")
        waiting = build(read_run(body(("{{late}}", "a"), app="app"), Limits(1000, 1000)), {"late": late})
        waits = await runs.begin(NewGraph(Caller(TENANT), tuple(waiting.graph.steps.values())))
        works = build(read_run(body(("slow", "b")), Limits(1000, 1000)), {})
        slow = await runs.begin(NewGraph(Caller(TENANT), tuple(works.graph.steps.values())))
        assert isinstance(waits, LiveRun) and isinstance(slow, LiveRun)
        await values(slow)
        await values(waits)
        assert (slow.ended, waits.ended) == (RunState.DONE, RunState.FAILED)
        assert waits.failure is not None and waits.failure.code == "wait_too_long"


async def test_many_gets_place_what_waits_anew_once() -> None:
    engine, moves = Engine(pause_s=3600), []
    runs = Runs(
        StepDoor(engine.answer, open_admission()), OpenedRuns(), KNOBS, shared=False, move=moves.append
    )
    asked = body(*((f"{n}", f"v{n}") for n in range(100)), background=True)
    run, _ = await begun(runs, asked)
    for cell in run.cells.values():
        runs.got(cell, Criteria.LATENCY)
    async with asyncio.timeout(10):
        while not moves:
            await asyncio.sleep(0.001)
    (placement_of,) = moves
    while len(engine.asked) < 100:
        await asyncio.sleep(0)
    before = next(a.placement for a in engine.asked if a.placement)
    assert placement_of(replace(before, rank=Rank.THROUGHPUT)).rank is Rank.GROUP
    await runs.aclose(grace_s=0)


def one_call(runs: Runs, text: str, name: str, **more: Any) -> NewGraph:
    """A submit of one step to the app `app`."""
    built = build(read_run(body((text, name)), Limits(1000, 20_000)), {})
    caller = Caller(TENANT, headers=CIMultiDict({"Content-Type": "application/json"}))
    steps = tuple(replace(step, id=f"s_{name}") for step in built.graph.steps.values())
    return NewGraph(caller, steps, app="app", **more)


async def submitted(runs: Runs, new: NewGraph) -> LiveRun:
    """The run that it joined, or that was begun with it."""
    run = await runs.submit(new)
    assert isinstance(run, LiveRun)
    return run


async def test_a_submit_that_comes_as_its_run_ends_is_written_once() -> None:
    engine = Engine(pause_s=3600)
    async with runs_over(engine) as runs:
        run = await submitted(runs, one_call(runs, "A", "a"))
        joining = asyncio.create_task(runs.submit(one_call(runs, "B", "b")))
        # The run is found, and ends before the step is added.
        await asyncio.sleep(0)
        runs.cancel(run)
        assert run.ended is not None
        other = await joining
        assert isinstance(other, LiveRun) and other is not run
        for each, names in ((run, ["a"]), (other, ["b"])):
            whole = runs.store.run(each.id)
            assert whole is not None and [step.plan.name for step in whole.steps] == names


class Late(OpenedRuns):
    """Tells that steps were added only when it is let."""

    def __init__(self) -> None:
        super().__init__()
        self.told: list[Future[None]] = []

    def extend(self, *args: Any, **more: Any) -> Future[None]:
        super().extend(*args, **more).result()
        self.told.append(Future())
        return self.told[-1]


def another(engine: Engine, store: OpenedRuns) -> Runs:
    """Another worker."""
    return Runs(StepDoor(engine.answer, open_admission()), store, KNOBS, shared=False, owner="other")


async def late_submit(runs: Runs, store: Late, new: NewGraph) -> asyncio.Task[LiveRun]:
    """A submit whose rows are written, which it does not know yet."""
    joining = asyncio.create_task(submitted(runs, new))
    while not store.told:
        await asyncio.sleep(0)
    return joining


async def test_a_submit_to_a_run_that_is_lost_as_it_is_written_is_carried_on_with_it() -> None:
    for waits in (False, True):
        store, second = Late(), Engine()
        async with runs_over(Engine(pause_s=3600), store, owner="late") as late:
            run = await submitted(late, one_call(late, "A", "a"))
            new = one_call(late, "B", "b")
            step = new.steps[0].id
            joining = await late_submit(late, store, replace(new, attached=step if waits else None))
            other = another(second, store)
            await taken_over(other, "late")
            late.drop(run)
            store.told.pop().set_result(None)
            assert await joining is run and not late.live
            await values(other.live[run.id])
            assert second.prompts == (["A"] if waits else ["A", "B"])
            if waits:
                assert not await late.call(run, step, None)
            await other.aclose(grace_s=0)


async def test_a_submit_after_a_run_was_cancelled_does_not_join_it() -> None:
    store, engine = Late(), Engine(pause_s=3600)
    async with runs_over(engine, store) as runs:
        run = await submitted(runs, one_call(runs, "A", "a"))
        joining = await late_submit(runs, store, one_call(runs, "B", "b"))
        runs.cancel(run)
        assert run.ended is None, "a call is joining it"
        other = await submitted(runs, one_call(runs, "C", "c"))
        store.told.pop().set_result(None)
        assert await joining is run is not other and run.ended == "cancelled" and other.ended is None


async def test_a_submit_to_a_run_that_is_forgotten_as_it_is_written_is_forgotten_with_it() -> None:
    store, engine = Late(), Engine(pause_s=3600)
    async with runs_over(engine, store) as runs:
        await submitted(runs, one_call(runs, "A", "a"))
        joining = await late_submit(runs, store, one_call(runs, "B", "b"))
        assert await runs.forget_app(TENANT, "app") == 1
        store.told.pop().set_result(None)
        await joining
        assert not runs.live and not runs._cells and engine.prompts in ([], ["A"])


async def test_a_run_that_reads_one_that_is_lost_reads_it_where_it_is_carried_on() -> None:
    store, second = OpenedRuns(), Engine()
    first = Engine(pause_s=3600)
    async with runs_over(first, store, shared=True, owner="late") as late:
        run = await submitted(late, one_call(late, "A", "a"))
        (id,) = run.cells
        other = another(second, store)
        await taken_over(other, "late")
        first.pause_s = 0
        built = build(read_run(body(("B {{a}}", "b"), app="app"), Limits(1000, 20_000)), {"a": id})
        caller = Caller(TENANT, headers=CIMultiDict({"Content-Type": "application/json"}))
        reads = await late.begin(NewGraph(caller, tuple(built.graph.steps.values())))
        assert isinstance(reads, LiveRun)
        late.drop(run)
        async with asyncio.timeout(30):
            assert await values(reads) == {"b": "<B <A>>"}
        await other.aclose(grace_s=0)
