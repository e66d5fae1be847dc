"""Who is asked next: stand-ins before waiting, one request to find out when a limit is over, shorter times beside them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from engines.attempts import Attempts
from engines.candidates import MAX_WAIT_S, Candidates
from engines.errors import Kind, RateLimited
from tests.engines.asking import closed_port
from tests.engines.plans import answer, end_of, plan, read, refuses, says, text_of
from tests.flow.upstream import Call, Upstream


@pytest.fixture
def two() -> Iterator[tuple[Upstream, Upstream]]:
    made = Upstream(), Upstream()
    for place, upstream in enumerate(made):
        upstream.plays(says(f"Engine {place}."))
    yield made
    for upstream in made:
        upstream.forget()
        upstream.close()


Two = tuple[Upstream, Upstream]


async def answered(attempts: Attempts) -> str:
    return text_of((await read(attempts))[1])


async def test_the_first_to_meet_a_short_limit_finds_out_and_all_others_are_answered_elsewhere(
    two: Two,
) -> None:
    first, second = two

    def limited_once(call: Call) -> None:
        (refuses(429, Retry_After="1") if len(first.calls) == 1 else says("Engine 0."))(call)

    first.plays(limited_once)
    async with plan(first.port, second.port) as tries, asyncio.TaskGroup() as asking:
        finds_out = asking.create_task(answered(Attempts(tries)))
        while tries[0].engine.load().open:
            await asyncio.sleep(0.01)
        others = [asking.create_task(answered(Attempts(tries))) for _ in range(8)]
        assert await asyncio.gather(*others) == ["Engine 1."] * 8 and not finds_out.done()
        assert await finds_out == "Engine 0." and len(first.calls) == 2
        assert await answered(Attempts(tries)) == "Engine 0."


async def test_a_long_limit_is_not_waited_for_beside_another_engine_and_told_as_it_is_alone(two: Two) -> None:
    first, second = two
    first.plays(refuses(429, Retry_After="30"))
    async with plan(first.port, second.port) as tries:
        for _ in range(4):
            assert await answered(Attempts(tries)) == "Engine 1."
        alone = await end_of(Attempts(tries[:1]))
    assert len(first.calls) == 1
    assert isinstance(alone, RateLimited) and alone.status == 429
    assert alone.retry_after_s is not None and 25 < alone.retry_after_s <= 30


async def test_alone_a_limit_is_waited_for(two: Two) -> None:
    first, _ = two
    first.plays(
        lambda call: (refuses(429, retry_after_ms="300") if len(first.calls) == 1 else says("Back."))(call)
    )
    async with plan(first.port) as tries:
        both = await asyncio.gather(answered(Attempts(tries)), answered(Attempts(tries)))
    assert both == ["Back.", "Back."]


async def test_little_left_of_a_limit_is_spared_and_used_where_nobody_else_answers(two: Two) -> None:
    first, second = two
    told = [
        ("Content-Type", "application/json"),
        ("x-ratelimit-limit-requests", "100"),
        ("x-ratelimit-remaining-requests", "2"),
        ("x-ratelimit-reset-requests", "30s"),
    ]
    first.plays(lambda call: call.answer(answer("Engine 0."), headers=told))
    async with plan(first.port, second.port) as tries:
        assert [await answered(Attempts(tries)) for _ in range(3)] == ["Engine 0.", "Engine 1.", "Engine 1."]
        second.plays(refuses(400))
        attempts = Attempts(tries)
        assert await answered(attempts) == "Engine 0."
        assert [one.kind for one in attempts.trail] == [Kind.LIMITED, Kind.REFUSED, None]


async def test_who_could_not_be_asked_is_on_the_trail(two: Two) -> None:
    first, second = two
    first.plays(refuses(503))
    async with plan(first.port, second.port, attempts=1) as tries:
        for _ in range(5):
            await read(Attempts(tries))
        attempts = Attempts(tries)
        assert await answered(attempts) == "Engine 1."
    assert [(one.engine, one.kind, one.seconds == 0) for one in attempts.trail] == [
        ("engine0", Kind.OPEN, True),
        ("engine1", None, False),
    ]
    assert str(attempts.trail[0]) == "engine0; open" and attempts.failures == ["engine0"]


async def test_shorter_limits_hold_while_another_could_answer_and_the_last_is_waited_for() -> None:
    async with plan(closed_port(), closed_port()) as tries:
        for one in tries:
            one.request.headers["x-stainless-read-timeout"] = "60"
        candidates = Candidates(tries)
        first = candidates.next()
        assert first is candidates.planned
        asked = candidates.asked(first, continuable=True)
        assert (asked.beside_stand_in, asked.wait_s, asked.client_timeout_s) == (True, 0.0, 60.0)
        candidates.failed(first, Kind.TIMEOUT_FIRST_DATA)
        second = candidates.next()
        assert second is not None and second is not first
        asked = candidates.asked(second, continuable=False)
        assert (asked.beside_stand_in, asked.wait_s) == (False, MAX_WAIT_S)
        candidates.failed(second, Kind.SERVER)
        assert candidates.next() is second
        alone = Candidates(tries[:1])
        assert alone.asked(alone.planned, continuable=False).wait_s == MAX_WAIT_S


@pytest.mark.parametrize("told", ["", "soon", "-1", "0", "nan", "1e3"])
async def test_a_client_timeout_that_makes_no_sense_is_ignored(told: str) -> None:
    async with plan(closed_port(), closed_port()) as tries:
        tries[0].request.headers["x-stainless-timeout"] = told
        candidates = Candidates(tries)
        assert candidates.asked(candidates.planned, continuable=False).client_timeout_s is None


async def test_who_stands_by_for_an_outage_alone_shortens_no_limit() -> None:
    async with plan(closed_port(), closed_port(), continues="prefill") as tries:
        for in_outage in (False, True):
            candidates = Candidates([tries[0], replace(tries[1], in_outage=in_outage)])
            asked = candidates.asked(candidates.planned, continuable=True)
            assert (asked.beside_stand_in, asked.continuable) == (not in_outage, not in_outage)
            assert asked.wait_s == 0.0


@pytest.mark.parametrize("kind", list(Kind))
async def test_slowness_and_a_long_request_are_no_outage(kind: Kind) -> None:
    async with plan(closed_port(), closed_port(), attempts=1) as tries:
        candidates = Candidates([tries[0], replace(tries[1], in_outage=True)])
        assert candidates.next() is candidates.planned
        candidates.asked(candidates.planned, continuable=False)
        candidates.failed(candidates.planned, kind)
        found = candidates.next()
    slow = {Kind.TIMEOUT_FIRST_DATA, Kind.TIMEOUT_GAP, Kind.TIMEOUT_ANSWER, Kind.TOO_LONG}
    assert (found is None) is (kind in slow)


async def test_an_engine_that_is_left_alone_is_an_outage(two: Two) -> None:
    first, second = two
    first.plays(refuses(503))
    async with plan(first.port, second.port, attempts=1) as tries:
        tries[1] = replace(tries[1], in_outage=True)
        for _ in range(8):
            assert await answered(Attempts(tries)) == "Engine 1."
    assert len(first.calls) < 8


async def test_another_request_of_the_same_engine_is_no_stand_in() -> None:
    async with plan(closed_port()) as (one,):
        plain: Any = replace(one, request=replace(one.request, body=b"{}"))
        candidates = Candidates([one, plain])
        assert not candidates.asked(candidates.planned, continuable=False).beside_stand_in


async def test_a_500_is_asked_again_where_it_was_planned_and_what_lasts_longer_is_not(two: Two) -> None:
    first, second = two
    first.plays(lambda call: (refuses(500) if len(first.calls) == 1 else says("Engine 0."))(call))
    async with plan(first.port, second.port) as tries:
        assert await answered(Attempts(tries)) == "Engine 0." and not second.calls
        first.plays(refuses(503))
        assert await answered(Attempts(tries)) == "Engine 1." and len(first.calls) == 3


async def test_two_limited_engines_are_not_waited_for_one_after_the_other(two: Two) -> None:
    """Each of them ends its limit and meets the next one for as long as anybody asks."""
    first, second = two
    for upstream in two:
        upstream.plays(refuses(429, Retry_After="1"))
    async with plan(first.port, second.port) as tries:
        waits = Candidates(tries)
        finds_out = asyncio.create_task(read(Attempts(tries)))
        while any(one.engine.load().open for one in tries):
            await asyncio.sleep(0.01)
        waited = waits.next()
        assert waited is not None and waits.asked(waited, continuable=False).wait_s > MAX_WAIT_S - 1
        waits.failed(waited, Kind.LIMITED)
        await asyncio.sleep(0.05)
        other = waits.next()
        assert other is not None and waits.asked(other, continuable=False).wait_s < MAX_WAIT_S - 0.04
        assert (await finds_out)[0].status == 429
