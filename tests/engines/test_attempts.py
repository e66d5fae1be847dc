"""Who answers when an engine does not: several engines over real sockets, each with its own script.

Streams that break off after their first data are in tests/engines/test_continuing.py.
"""

from __future__ import annotations

import asyncio
import gzip
import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from engines.attempts import Attempts
from engines.errors import ConnectFailed, Kind, TimedOut, Unavailable
from engines.timeouts import Timeouts
from tests.engines.asking import closed_port
from tests.engines.plans import answer, end_of, plan, read, refuses, says, text_of
from tests.flow.line import events
from tests.flow.upstream import Call, Upstream, waits

TOO_LONG = b'{"error":{"message":"This model\'s maximum context length is 8192 tokens","code":"context_length_exceeded"}}'
BUSY = b"data: " + json.dumps({"error": {"message": "overloaded"}}).encode() + b"\n\n"
ROLE = events("", usage=False)[0]


@pytest.fixture
def three() -> Iterator[tuple[Upstream, Upstream, Upstream]]:
    made = Upstream(), Upstream(), Upstream()
    for place, upstream in enumerate(made):
        upstream.plays(says(f"Engine {place}."))
    yield made
    for upstream in made:
        upstream.forget()
        upstream.close()


Three = tuple[Upstream, Upstream, Upstream]


async def test_the_first_that_answers_is_the_one(three: Three) -> None:
    first, second, _ = three
    async with plan(first.port, second.port) as tries:
        attempts = Attempts(tries)
        reply, body = await read(attempts)
    assert text_of(body) == "Engine 0." and reply.engine == "engine0"
    assert attempts.index == 0 and attempts.failures == [] and not second.calls
    assert [(one.engine, one.kind, one.status) for one in attempts.trail] == [("engine0", None, 200)]


@pytest.mark.parametrize("status", [401, 402, 403, 404, 410, 413, 425, 429, 500, 501, 503, 529, 530])
async def test_a_failure_of_the_engine_sends_the_next_its_own_request(three: Three, status: int) -> None:
    first, second, _ = three
    # Of a short limit the first request to meet it would find out when it is over.
    first.plays(refuses(status, Retry_After="20"))
    async with plan(first.port, second.port) as tries:
        tries[1] = replace(tries[1], request=replace(tries[1].request, body=b'{"to":1}'))
        attempts = Attempts(tries)
        reply, body = await read(attempts)
    assert text_of(body) == "Engine 1." and reply.engine == "engine1"
    assert attempts.index == 1 and attempts.failures == ["engine0"]
    assert second.calls[0].body == b'{"to":1}' and len(first.calls) == 1
    assert [one.status for one in attempts.trail] == [status, 200]
    assert attempts.trail[0].kind in (Kind.REFUSED, Kind.QUOTA, Kind.LIMITED, Kind.SERVER)


@pytest.mark.parametrize(
    "refusal",
    [
        refuses(400),
        refuses(422),
        refuses(403, b'{"error":{"message":"no","code":"content_policy_violation"}}'),
    ],
)
async def test_a_request_that_is_wrong_is_wrong_everywhere(three: Three, refusal: Any) -> None:
    first, second, _ = three
    first.plays(refusal)
    async with plan(first.port, second.port) as tries:
        reply, body = await read(Attempts(tries))
    assert reply.status in (400, 403, 422) and b"error" in body and not second.calls


@pytest.mark.parametrize("status", [400, 401, 404, 422])
async def test_a_stand_ins_refusal_masks_nothing(three: Three, status: int) -> None:
    first, second, third = three
    first.plays(refuses(500, b"<h1>busy</h1>", x_told="9"))
    second.plays(refuses(status))
    async with plan(first.port, second.port, third.port) as tries:
        _, body = await read(Attempts(tries))
        assert text_of(body) == "Engine 2."
        third.plays(refuses(400))
        attempts = Attempts(tries)
        reply, body = await read(attempts)
    assert (reply.status, body, reply.headers["x-told"]) == (500, b"<h1>busy</h1>", "9")
    assert attempts.index == 0 and set(attempts.failures) == {"engine0", "engine1", "engine2"}


async def test_the_first_failure_goes_out_as_it_came_be_it_an_answer_or_none(three: Three) -> None:
    first, second, _ = three
    second.plays(refuses(503, b"busy"))
    async with plan(closed_port(), second.port) as tries:
        error = await end_of(Attempts(tries))
    assert isinstance(error, ConnectFailed) and "refused" in error.message
    first.plays(lambda call: call.reset())
    async with plan(second.port, first.port) as tries:
        reply, body = await read(Attempts(tries))
    assert (reply.status, body) == (503, b"busy")


async def test_a_breaker_that_refuses_the_retry_hides_nothing(three: Three) -> None:
    first, _, _ = three
    first.plays(refuses(503, b"out of memory"))
    async with plan(first.port) as tries:
        for _ in range(3):
            reply, body = await read(Attempts(tries))
            assert (reply.status, body) == (503, b"out of memory")
        error = await end_of(Attempts(tries))
    assert isinstance(error, Unavailable) and len(first.calls) == 5


@pytest.mark.parametrize(
    ("refusal", "goes_on"),
    [
        (refuses(503, x_should_retry="false"), False),
        (refuses(429, x_should_retry="false"), False),
        (refuses(401, x_should_retry="false"), True),
        (refuses(429, b'{"error":{"code":"insufficient_quota"}}', x_should_retry="false"), True),
    ],
)
async def test_x_should_retry_false_ends_it_unless_the_refusal_is_the_engines(
    three: Three, refusal: Any, goes_on: bool
) -> None:
    first, second, _ = three
    first.plays(refusal)
    async with plan(first.port, second.port) as tries:
        reply, _ = await read(Attempts(tries))
    assert (reply.status == 200) is goes_on and len(first.calls) == 1 and len(second.calls) == goes_on


async def test_no_engine_is_asked_more_than_twice_and_all_of_them_six_times(three: Three) -> None:
    for upstream in three:
        upstream.plays(refuses(500))
    async with plan(*(upstream.port for upstream in three), closed_port()) as tries:
        attempts = Attempts(tries)
        reply, _ = await read(attempts)
    assert reply.status == 500
    assert [len(upstream.calls) for upstream in three] == [2, 2, 1]
    assert [one.engine[-1] for one in attempts.trail] == ["0", "0", "1", "2", "3", "1"]


async def test_a_lone_engine_that_fails_once_is_asked_again_and_one_that_is_late_is_not(
    three: Three,
) -> None:
    first, _, _ = three
    first.plays(lambda call: refuses(500)(call) if len(first.calls) == 1 else says("Back.")(call))
    async with plan(first.port) as tries:
        _, body = await read(Attempts(tries))
    assert text_of(body) == "Back." and len(first.calls) == 2
    first.plays(waits)
    async with plan(first.port, timeouts=Timeouts(2, 2, 2, 0.3)) as tries:
        error = await end_of(Attempts(tries))
    assert isinstance(error, TimedOut) and error.kind is Kind.TIMEOUT_ANSWER and len(first.calls) == 3


async def test_an_engine_that_is_dead_or_late_is_passed_over(three: Three) -> None:
    first, second, _ = three
    first.plays(waits)
    async with plan(closed_port(), first.port, second.port, timeouts=Timeouts(2, 2, 2, 0.3)) as tries:
        _, body = await read(Attempts(tries))
        assert text_of(body) == "Engine 1."
    assert await asyncio.to_thread(first.call().was_left)


WRONG: dict[str, Any] = {
    "an error": lambda call: call.answer(b'{"error":{"message":"overloaded"}}'),
    "HTML": lambda call: call.answer(b"<html>busy</html>", headers=[("Content-Type", "text/html")]),
    "nothing": lambda call: call.answer(b""),
    "no content": lambda call: call.answer(answer("")),
    "half of it": lambda call: call.answer(answer()[:-30]),
    "packed": lambda call: call.answer(
        gzip.compress(b'{"error":"x"}', mtime=0),
        headers=[("Content-Type", "application/json"), ("Content-Encoding", "gzip")],
    ),
}


@pytest.mark.parametrize("wrong", WRONG)
async def test_an_answer_that_is_none_is_asked_of_another_and_is_better_than_nothing(
    three: Three, wrong: str
) -> None:
    first, second, _ = three
    first.plays(WRONG[wrong])
    async with plan(first.port, second.port) as tries:
        attempts = Attempts(tries)
        _, body = await read(attempts)
        assert text_of(body) == "Engine 1." and attempts.trail[0].kind is Kind.INVALID
        second.plays(refuses(503))
        async with Attempts(tries) as reply:
            as_it_came = b"".join([chunk async for chunk in reply.chunks])
        assert reply.status == 200 and reply.headers["Content-Length"] == str(len(as_it_came))
    async with plan(first.port) as tries:
        # Alone it is not looked at: this is what its upstream said.
        _, body = await read(Attempts(tries))
    assert body == as_it_came


async def test_a_plain_answer_that_is_cut_is_asked_of_another(three: Three) -> None:
    first, second, _ = three
    head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 900\r\n\r\n"
    first.says(head + answer()[:40])
    async with plan(first.port, second.port) as tries:
        attempts = Attempts(tries)
        _, body = await read(attempts)
    assert text_of(body) == "Engine 1." and attempts.trail[0].kind is Kind.BROKEN


async def test_a_large_plain_answer_is_not_held(three: Three) -> None:
    first, second, _ = three
    large = b"<" + b"x" * 100_000
    first.plays(lambda call: call.answer(large))
    async with plan(first.port, second.port) as tries:
        _, body = await read(Attempts(tries))
    assert body == large and not second.calls


def stream(*chunks: bytes) -> Any:
    def script(call: Call) -> None:
        call.begin()
        for chunk in chunks:
            call.chunk(chunk)
        call.end()

    return script


NOTHING_YET: dict[str, Any] = {
    "an error": stream(BUSY),
    "a comment, an error": stream(b": ping\n\n", BUSY),
    "a role, an error": stream(ROLE, BUSY),
    "a role, a rate limit": stream(ROLE, b'data: {"error":{"type":"rate_limit","code":429}}\n\n'),
    "an error behind other members": stream(
        b'data: {"id":"1","choices":[{"delta":{},"finish_reason":"error"}],"error":{"code":502}}\n\n'
    ),
    "a finish reason": stream(b'data: {"choices":[{"delta":{"content":""},"finish_reason":"error"}]}\n\n'),
    "JSON": lambda call: call.answer(b'{"error":{"message":"overloaded"}}'),
    "nothing": stream(),
    "[DONE]": stream(b"data: [DONE]\n\n"),
    "a role, [DONE]": stream(ROLE, b"data: [DONE]\n\n"),
    "a role, a cut": lambda call: (call.begin(), call.chunk(ROLE)),
    "half an event": stream(ROLE[:20]),
}


@pytest.mark.parametrize("fields", [{}, {"tools": [{"type": "function", "function": {"name": "f"}}]}])
@pytest.mark.parametrize("broken", NOTHING_YET)
async def test_a_stream_that_breaks_before_it_says_anything_never_began(
    three: Three, broken: str, fields: dict[str, Any]
) -> None:
    first, second, _ = three
    first.plays(NOTHING_YET[broken])
    async with plan(first.port, second.port, fields={"stream": True} | fields) as tries:
        attempts = Attempts(tries, carry_on=True)
        reply, body = await read(attempts)
    assert text_of(body) == "Engine 1." and reply.engine == "engine1" and b"error" not in body
    assert attempts.failures == ["engine0"] and not attempts.carried_on


async def test_a_stream_that_failed_at_once_is_passed_on_when_nobody_does_better(three: Three) -> None:
    first, second, _ = three
    first.plays(stream(ROLE, BUSY))
    second.plays(refuses(401))
    async with plan(first.port, second.port, fields={"stream": True}) as tries:
        _, body = await read(Attempts(tries))
    assert body == ROLE + BUSY


async def test_a_lone_engines_stream_is_not_looked_at(three: Three) -> None:
    first, _, _ = three
    first.plays(stream(ROLE, b"data: [DONE]\n\n"))
    async with plan(first.port, fields={"stream": True}) as tries:
        _, body = await read(Attempts(tries))
    assert body == ROLE + b"data: [DONE]\n\n"


async def test_a_request_too_long_goes_to_the_largest_window_first(three: Three) -> None:
    first, second, third = three
    first.plays(refuses(400, TOO_LONG))
    second.plays(refuses(422, TOO_LONG))
    async with plan(*(upstream.port for upstream in three)) as tries:
        for one, window in zip(tries, (8192, None, 16384), strict=True):
            inner: Any = one.engine
            inner.servers[0].engine.info = replace(one.engine.info, context_tokens=window)
        attempts = Attempts(tries)
        _, body = await read(attempts)
        assert text_of(body) == "Engine 2." and not second.calls and attempts.failures == []
        third.plays(refuses(500))
        reply, body = await read(Attempts(tries))
    assert (reply.status, body) == (400, TOO_LONG)


async def test_it_goes_to_the_larger_engine_before_all_and_comes_back_where_that_is_dead(
    three: Three,
) -> None:
    first, second, third = three
    first.plays(refuses(413, b'{"error":{"message":"prompt is too long: 9 tokens > 8 maximum"}}'))
    async with plan(*(upstream.port for upstream in three)) as (small, other, larger):
        attempts = Attempts([small, other], larger)
        _, body = await read(attempts)
        assert text_of(body) == "Engine 2." and attempts.index == 2 and not second.calls
        third.plays(lambda call: call.reset())
        _, body = await read(Attempts([small], larger))
    assert b"too long" in body


async def test_what_is_surely_too_long_for_an_engine_is_not_asked_of_it(three: Three) -> None:
    first, second, _ = three
    long = {"messages": [{"role": "user", "content": "word " * 8000}]}
    async with plan(first.port, second.port, fields=long) as tries:
        inner: Any = tries[0].engine
        inner.servers[0].engine.info = replace(tries[0].engine.info, context_tokens=1000)
        attempts = Attempts(tries)
        _, body = await read(attempts)
        assert text_of(body) == "Engine 1." and not first.calls and attempts.failures == []
        first.plays(refuses(400, TOO_LONG))
        reply, _ = await read(Attempts(tries[:1]))
    assert reply.status == 400


async def test_another_400_goes_straight_back_with_its_length(three: Three) -> None:
    first, second, _ = three
    body = b'{"error":{"message":"content policy","code":"content_filter"}}'
    first.plays(refuses(400, body))
    async with plan(first.port, second.port) as (small, larger):
        reply, got = await read(Attempts([small], larger))
    assert (reply.status, got) == (400, body) and reply.headers["Content-Length"] == str(len(body))
    assert not second.calls


async def test_a_huge_error_answer_is_held_in_part_and_promises_no_more(three: Three) -> None:
    first, _, _ = three
    first.plays(lambda call: call.answer(b"x" * 2_000_000, 503))
    async with plan(first.port, closed_port()) as tries:
        reply, body = await read(Attempts(tries))
    assert 256 * 1024 < len(body) < 1_000_000 and "Content-Length" not in reply.headers


@pytest.mark.parametrize("begins", [False, True])
async def test_a_client_that_leaves_while_nothing_came_ends_it_all(three: Three, begins: bool) -> None:
    first, second, _ = three

    def silent(call: Call) -> None:
        if begins:
            call.begin()
            call.chunk(ROLE)
        waits(call)

    first.plays(silent)
    async with plan(first.port, second.port, fields={"stream": True}) as tries:
        asking = asyncio.ensure_future(read(Attempts(tries)))
        await asyncio.to_thread(first.call)
        await asyncio.sleep(0.05)
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        assert await asyncio.to_thread(first.call().was_left) and not second.calls


async def test_leaving_closes_whoever_answers(three: Three) -> None:
    _, second, _ = three

    def endless(call: Call) -> None:
        call.begin()
        call.chunk(events("Forty", usage=False)[1])
        assert call.hung_up()

    second.plays(endless)
    async with plan(closed_port(), second.port, fields={"stream": True}) as tries:
        async with Attempts(tries) as reply:
            await anext(reply.chunks)
        assert await asyncio.to_thread(second.call().was_left)
