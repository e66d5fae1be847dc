"""A component at work: what shares a request, what is cancelled, what fails whom."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.batching import virtual_time
from engines.components.batch import EffectiveBatch
from engines.components.component import ComponentError
from engines.components.running import Answers, Portion, Running
from engines.errors import Kind
from tests.engines.components.asking import work


class Upper:
    """Answers in upper case once `go` is set; remembers what it was asked."""

    def __init__(self, *, waits: bool = False) -> None:
        self.go = asyncio.Event()
        if not waits:
            self.go.set()
        self.asked: list[list[str]] = []
        self.cancelled = 0
        self.refuses: set[str] = set()
        self.most = 10_000

    async def __call__(self, portions: Sequence[Portion[str]]) -> Sequence[Answers[str]]:
        items = [item for portion in portions for item in portion.items]
        self.asked.append(items)
        try:
            await self.go.wait()
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        if self.refuses & set(items) or len(items) > self.most:
            raise ComponentError("refused", component="c", kind=Kind.INVALID)
        return [[item.upper() for item in portion.items] for portion in portions]


def running(ask: Upper, *, batch: int | None = 2, places: int = 1, queued: int = 100) -> Running[str, str]:
    return Running("c", ask, max_in_flight=places, max_queued=queued, batch=EffectiveBatch(batch))


async def test_figure_7_a_and_h_share_a_request_and_the_page_can_tell() -> None:
    """As in engines.components.line, with two slots and one place that becomes free."""
    upper = Upper(waits=True)
    one = running(upper)
    first = asyncio.create_task(one.of(Portion(None, ["x", "x"]), work("before")))
    await asyncio.sleep(0)
    steps = {
        "a": work("query 1", 3, arrived_s=0.0),
        "b": work("query 1", 2, arrived_s=0.1),
        "g": work("query 2", 1, arrived_s=0.2),
        "h": work("query 2", 2, arrived_s=0.3),
    }
    # Of what has waited long the first goes first: these arrived just now.
    now = asyncio.get_running_loop().time()
    tasks = [
        asyncio.create_task(
            one.of(Portion(None, [name]), work(step.run, step.depth, name, now + step.arrived_s))
        )
        for name, step in steps.items()
    ]
    await asyncio.sleep(0)
    upper.go.set()
    assert [await task for task in tasks] == [["A"], ["B"], ["G"], ["H"]]
    await first
    assert upper.asked == [["x", "x"], ["a", "h"], ["b", "g"]]
    await one.aclose()


async def test_who_shared_a_request_is_noted() -> None:
    one, a, b = running(Upper(), batch=8), work("r1"), work("r2")
    await asyncio.gather(one.of(Portion(None, ["x", "y"]), a), one.of(Portion(None, ["z"]), b))
    assert a.shared[0].batch == b.shared[0].batch
    assert [(each.items, each.size) for each in (*a.shared, *b.shared)] == [(2, 3), (1, 3)]
    await one.aclose()


async def test_a_large_step_goes_in_several_requests_and_comes_back_in_order() -> None:
    upper = Upper()
    one = running(upper, batch=2, places=2)
    asked = work()
    assert await one.of(Portion(None, list("abcde")), asked) == list("ABCDE")
    assert sorted(map(len, upper.asked)) == [1, 2, 2] and len(asked.shared) == 3
    assert await one.of(Portion(None, []), work()) == []
    await one.aclose()


async def test_who_leaves_ends_a_request_that_nobody_shares() -> None:
    upper = Upper(waits=True)
    one = running(upper, batch=1)
    tasks = [asyncio.create_task(one.of(Portion(None, [name]), work())) for name in "abc"]
    while not upper.asked:
        await asyncio.sleep(0)
    tasks[0].cancel()
    tasks[1].cancel()
    while len(upper.asked) < 2:
        await asyncio.sleep(0)
    assert upper.asked == [["a"], ["c"]] and upper.cancelled == 1
    upper.go.set()
    assert await tasks[2] == ["C"] and (one.waiting, one.in_flight) == (0, 0)
    await one.aclose()


async def test_who_leaves_a_shared_request_takes_it_from_nobody() -> None:
    upper = Upper(waits=True)
    one = running(upper)
    tasks = [asyncio.create_task(one.of(Portion(None, [name]), work(name))) for name in "ab"]
    while not upper.asked:
        await asyncio.sleep(0)
    tasks[0].cancel()
    await asyncio.sleep(0)
    upper.go.set()
    assert await tasks[1] == ["B"] and upper.cancelled == 0
    await one.aclose()


async def test_a_text_that_is_refused_fails_its_own_step_alone() -> None:
    upper = Upper()
    upper.refuses = {"bad"}
    one = running(upper, batch=8)
    good, bad = await asyncio.gather(
        one.of(Portion(None, ["x", "y"]), work("r1")),
        one.of(Portion(None, ["bad"]), work("r2")),
        return_exceptions=True,
    )
    assert good == ["X", "Y"] and isinstance(bad, ComponentError)
    assert one.batch.size == 8
    await one.aclose()


async def test_a_size_that_is_too_much_is_found_out_without_failing_anybody() -> None:
    upper = Upper()
    upper.most = 4
    one = running(upper, batch=None, places=1)
    texts = [f"t{n}" for n in range(60)]
    # Time stands still in the eyes of a component that answers at once: make more texts pay.
    one.batch.took = _as_if_fixed(one.batch)  # type: ignore[method-assign]
    assert await one.of(Portion(None, texts), work()) == [text.upper() for text in texts]
    assert one.batch.size == 4 and one.batch.known
    await one.aclose()


def _as_if_fixed(batch: EffectiveBatch):  # type: ignore[no-untyped-def]
    took = type(batch).took

    def one_second(items: int, seconds: float) -> None:
        took(batch, items, 1.0)

    return one_second


async def test_a_full_queue_and_one_that_is_closed_say_so() -> None:
    upper = Upper(waits=True)
    one = running(upper, batch=1, queued=1)
    tasks = [asyncio.create_task(one.of(Portion(None, ["a"]), work()))]
    while not upper.asked:
        await asyncio.sleep(0)
    tasks.append(asyncio.create_task(one.of(Portion(None, ["b"]), work())))
    await asyncio.sleep(0)
    with pytest.raises(ComponentError, match="full") as full:
        await one.of(Portion(None, ["c"]), work())
    assert full.value.kind is Kind.FULL
    await one.aclose()
    ended = await asyncio.gather(*tasks, return_exceptions=True)
    assert all(isinstance(one, ComponentError) for one in ended) and upper.cancelled == 1
    with pytest.raises(ComponentError, match="closed"):
        await one.of(Portion(None, ["d"]), work())


async def test_an_answer_of_another_size_and_a_fault_of_ours_fail_the_step() -> None:
    async def short(portions: Sequence[Portion[str]]) -> Sequence[Answers[str]]:
        return [portion.items[:-1] for portion in portions]

    async def wrong(portions: Sequence[Portion[str]]) -> Sequence[Answers[str]]:
        raise ZeroDivisionError

    for ask, says in ((short, "1 of 2 items"), (wrong, "ZeroDivisionError")):
        one = Running("c", ask, max_in_flight=1, max_queued=9, batch=EffectiveBatch(2))
        with pytest.raises(ComponentError, match=says):
            await one.of(Portion(None, ["a", "b"]), work())
        await one.aclose()


@given(st.integers(0, 10_000))
@settings(max_examples=40, deadline=None)
def test_whatever_comes_leaves_and_fails_everybody_gets_what_is_theirs(seed: int) -> None:
    """In virtual time: runs of random sizes, some of which leave, over a component that refuses some texts."""
    draw = random.Random(seed)

    async def ask(portions: Sequence[Portion[str]]) -> Sequence[Answers[str]]:
        items = [item for portion in portions for item in portion.items]
        await asyncio.sleep(draw.random() + 0.1 * len(items))
        if any(item.startswith("bad") for item in items):
            raise ComponentError("refused", component="c", kind=Kind.INVALID)
        return [[item.upper() for item in portion.items] for portion in portions]

    async def step(one: Running[str, str], number: int) -> None:
        await asyncio.sleep(draw.random() * 3)
        texts = [
            f"{'bad' if draw.random() < 0.05 else 'good'} {number} {n}" for n in range(draw.randint(0, 9))
        ]
        asked = one.of(Portion(None, texts), work(f"run {number % 4}", draw.randint(0, 3)))
        wrong = any(text.startswith("bad") for text in texts)
        try:
            async with asyncio.timeout(draw.choice((1, 1000))):
                assert await asked == [text.upper() for text in texts] and not wrong
        except ComponentError:
            assert wrong
        except TimeoutError:
            pass

    async def main() -> None:
        batch = EffectiveBatch(draw.choice((None, 1, 3, 8)))
        one = Running("c", ask, max_in_flight=draw.randint(1, 3), max_queued=99, batch=batch)
        async with asyncio.TaskGroup() as steps:
            for number in range(draw.randint(1, 14)):
                steps.create_task(step(one, number))
        await asyncio.sleep(20)
        assert (one.waiting, one.in_flight) == (0, 0)
        await one.aclose()

    virtual_time.run(main)
