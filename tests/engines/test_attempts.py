"""Several engines in turn, each of them real; and who may carry on a stream that breaks off.

Whole answers that are carried on are in tests/flow/test_line_continuation.py.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest

from engines.attempts import Attempts, Try, continuable
from engines.chat import ChatRequest
from engines.engine import EngineRequest
from engines.errors import ConnectFailed, Kind, StreamBroken, TimedOut
from engines.openai_http import Timeouts
from engines.sse import Tail
from tests.engines.asking import closed_port, engine, guarded, read, request
from tests.flow.upstream import Call, Upstream
from tests.knobs import limits

ONCE = limits(attempts=1)
TOO_LONG = b'{"error":{"message":"This model\'s maximum context length is 8192 tokens","code":"context_length_exceeded"}}'


@pytest.fixture
def second() -> Iterator[Upstream]:
    upstream = Upstream()
    upstream.plays(lambda call: call.answer(b"second"))
    yield upstream
    upstream.forget()
    upstream.close()


@asynccontextmanager
async def tries(*ports: int, timeouts: Timeouts | None = None) -> AsyncIterator[list[Try]]:
    """One guarded engine per port, named by its place."""
    async with AsyncExitStack() as stack:
        made = []
        for place, port in enumerate(ports):
            options = {"timeouts": timeouts} if timeouts else {}
            guard = await stack.enter_async_context(guarded(port, ONCE, name=f"engine{place}", **options))
            made.append(Try(guard, request(b'{"to":%d}' % place)))
        yield made


async def test_the_first_that_answers_is_the_one(upstream: Upstream, second: Upstream) -> None:
    upstream.plays(lambda call: call.answer(b"first"))
    async with tries(upstream.port, second.port) as both:
        attempts = Attempts(both)
        async with attempts as reply:
            assert await read(reply) == b"first" and reply.engine == "engine0"
    assert attempts.index == 0 and attempts.failures == [] and not second.calls


@pytest.mark.parametrize("status", [429, 500, 503, 529])
async def test_the_next_is_asked_with_its_own_request(
    upstream: Upstream, second: Upstream, status: int
) -> None:
    upstream.plays(lambda call: call.answer(b"busy", status))
    async with tries(upstream.port, second.port) as both:
        attempts = Attempts(both)
        async with attempts as reply:
            assert await read(reply) == b"second" and reply.engine == "engine1"
    assert attempts.index == 1 and attempts.failures == ["engine0"]
    assert second.calls[0].body == b'{"to":1}'


async def test_a_server_that_wants_no_retry_is_not_asked_again_but_another_one_is(
    upstream: Upstream, second: Upstream
) -> None:
    """x-should-retry speaks of the server that sent it."""
    upstream.plays(lambda call: call.answer(b"quota", 429, [("x-should-retry", "false")]))
    async with AsyncExitStack() as stack:
        first = await stack.enter_async_context(guarded(upstream.port, limits(attempts=3), name="first"))
        next_ = await stack.enter_async_context(guarded(second.port, limits(attempts=3), name="next"))
        async with Attempts([Try(first, request()), Try(next_, request())]) as reply:
            assert await read(reply) == b"second"
    assert len(upstream.calls) == 1 and len(second.calls) == 1


async def test_a_dead_engine_is_passed_over(second: Upstream) -> None:
    async with tries(closed_port(), second.port) as both, Attempts(both) as reply:
        assert await read(reply) == b"second"


async def test_a_slow_engine_is_passed_over(upstream: Upstream, second: Upstream) -> None:
    def silent(call: Call) -> None:
        assert call.hung_up()

    upstream.plays(silent)
    async with tries(upstream.port, second.port, timeouts=Timeouts(2, 0.2, 2, 10)) as both:
        async with Attempts(both) as reply:
            assert await read(reply) == b"second"
    assert await asyncio.to_thread(upstream.call().was_left)


async def test_a_stream_that_begins_with_an_error_is_passed_over(
    upstream: Upstream, second: Upstream
) -> None:
    def overloaded(call: Call) -> None:
        call.begin()
        call.chunk(b'data: {"error":{"message":"overloaded"}}\n\n')
        assert call.hung_up()

    upstream.plays(overloaded)
    async with tries(upstream.port, second.port) as both:
        attempts = Attempts(both)
        async with attempts as reply:
            assert await read(reply) == b"second"
    assert attempts.failures == ["engine0"]


async def test_nothing_is_tried_once_a_chunk_is_out(upstream: Upstream, second: Upstream) -> None:
    def cut(call: Call) -> None:
        call.begin()
        call.chunk(b"data: 1\n\n")

    upstream.plays(cut)
    async with tries(upstream.port, second.port) as both, Attempts(both) as reply:
        with pytest.raises(StreamBroken):
            await read(reply)
    assert not second.calls


@pytest.mark.parametrize("status", [400, 401, 404, 422])
async def test_a_request_that_is_wrong_is_wrong_everywhere(
    upstream: Upstream, second: Upstream, status: int
) -> None:
    upstream.plays(lambda call: call.answer(b"wrong", status))
    async with tries(upstream.port, second.port) as both, Attempts(both) as reply:
        assert (reply.status, await read(reply)) == (status, b"wrong")
    assert not second.calls


async def test_when_all_fail_the_first_error_answer_is_passed_on(
    upstream: Upstream, second: Upstream
) -> None:
    headers = [("Content-Type", "text/html"), ("Retry-After", "9")]
    upstream.plays(lambda call: call.answer(b"<h1>busy</h1>", 503, headers))
    second.plays(lambda call: call.answer(b"also busy", 500))
    async with tries(closed_port(), upstream.port, second.port) as all_three:
        attempts = Attempts(all_three)
        async with attempts as reply:
            assert (reply.status, await read(reply)) == (503, b"<h1>busy</h1>")
            assert reply.headers["Retry-After"] == "9"
    assert attempts.index == 1 and attempts.failures == ["engine0", "engine1", "engine2"]


async def test_a_stream_that_began_with_an_error_is_passed_on_when_all_fail(upstream: Upstream) -> None:
    def overloaded(call: Call) -> None:
        call.begin()
        call.chunk(b'data: {"error":{"message":"overloaded"}}\n\n')
        assert call.hung_up()

    upstream.plays(overloaded)
    async with tries(upstream.port, closed_port()) as both, Attempts(both) as reply:
        assert await read(reply) == b'data: {"error":{"message":"overloaded"}}\n\n'


async def test_without_any_answer_the_first_reason_is_raised(upstream: Upstream) -> None:
    upstream.plays(lambda call: call.reset())
    async with tries(closed_port(), upstream.port) as both:
        with pytest.raises(ConnectFailed, match="Connection refused"):
            async with Attempts(both):
                pass


async def test_a_huge_error_answer_is_held_in_part_and_promises_no_more(upstream: Upstream) -> None:
    upstream.plays(lambda call: call.answer(b"x" * 2_000_000, 503))
    async with tries(upstream.port, closed_port()) as both, Attempts(both) as reply:
        body = await read(reply)
        assert 256 * 1024 < len(body) < 1_000_000
        assert "Content-Length" not in reply.headers


async def test_a_request_too_long_goes_to_the_larger_engine(upstream: Upstream, second: Upstream) -> None:
    upstream.plays(lambda call: call.answer(TOO_LONG, 400))
    async with tries(upstream.port, second.port) as (small, large):
        attempts = Attempts([small], larger=large)
        async with attempts as reply:
            assert await read(reply) == b"second"
        assert attempts.index == 1


async def test_another_400_goes_straight_back_even_so(upstream: Upstream, second: Upstream) -> None:
    body = b'{"error":{"message":"content policy","code":"content_filter"}}'
    upstream.plays(lambda call: call.answer(body, 400))
    async with tries(upstream.port, second.port) as (small, large), Attempts([small], larger=large) as reply:
        assert (reply.status, await read(reply)) == (400, body)
        assert reply.headers["Content-Length"] == str(len(body))
    assert not second.calls


async def test_a_larger_engine_that_is_dead_leaves_the_first_answer(upstream: Upstream) -> None:
    upstream.plays(lambda call: call.answer(TOO_LONG, 400))
    async with (
        tries(upstream.port, closed_port()) as (small, large),
        Attempts([small], larger=large) as reply,
    ):
        assert (reply.status, await read(reply)) == (400, TOO_LONG)


async def test_leaving_closes_whoever_answers(upstream: Upstream, second: Upstream) -> None:
    def endless(call: Call) -> None:
        call.begin()
        call.chunk(b"data: 1\n\n")
        assert call.hung_up()

    second.plays(endless)
    async with tries(closed_port(), second.port) as both:
        async with Attempts(both) as reply:
            await anext(reply.chunks)
        assert await asyncio.to_thread(second.call().was_left)
        assert [attempt.engine.load().in_flight for attempt in both] == [0, 0]


async def test_timeouts_keep_their_name_through_it(upstream: Upstream) -> None:
    def silent(call: Call) -> None:
        assert call.hung_up()

    upstream.plays(silent)
    async with tries(upstream.port, timeouts=Timeouts(2, 0.2, 2, 10)) as one:
        with pytest.raises(TimedOut) as late:
            async with Attempts(one):
                pass
    assert late.value.kind is Kind.TIMEOUT_FIRST_DATA and late.value.status == 504


async def test_what_examples_made_too_long_goes_to_the_next_as_it_came(
    upstream: Upstream, second: Upstream
) -> None:
    upstream.plays(lambda call: call.answer(TOO_LONG, 400))
    async with tries(upstream.port, second.port) as (small, large):
        attempts = Attempts([replace(small, lengthened=True), large])
        async with attempts as reply:
            assert await read(reply) == b"second"
        assert attempts.index == 1 and attempts.failures == ["engine0"]


async def test_a_request_that_came_too_long_or_is_wrong_is_not_asked_of_another(
    upstream: Upstream, second: Upstream
) -> None:
    for refusal, lengthened in ((TOO_LONG, False), (b'{"error":{"message":"no"}}', True)):

        def refuses(call: Call, refusal: bytes = refusal) -> None:
            call.answer(refusal, 400)

        upstream.plays(refuses)
        async with tries(upstream.port, second.port) as (small, large):
            async with Attempts([replace(small, lengthened=lengthened), large]) as reply:
                assert (reply.status, await read(reply)) == (400, refusal)
    assert not second.calls


async def test_too_long_for_everybody_is_the_first_refusal(upstream: Upstream, second: Upstream) -> None:
    upstream.plays(lambda call: call.answer(TOO_LONG, 400))
    second.plays(lambda call: call.answer(b"broken", 500))
    async with tries(upstream.port, second.port) as (small, large):
        async with Attempts([replace(small, lengthened=True), large]) as reply:
            assert (reply.status, await read(reply)) == (400, TOO_LONG)


BEGUN = (
    b'data: {"id": "1", "choices": [{"index": 0, "delta": {"role": "assistant", "content": "Forty"}}]}\n\n'
)


def chat(**fields: Any) -> ChatRequest:
    fields = {"messages": [{"role": "user", "content": "Q?"}], "stream": True} | fields
    return ChatRequest(
        json.dumps(fields).encode(),
        fields,
        "",
        fields["messages"],
        stream=fields["stream"],
        include_usage=False,
    )


@pytest.mark.parametrize(
    ("fields", "can"),
    [
        ({}, True),
        ({"n": 1, "tools": [], "logprobs": False, "response_format": {"type": "text"}}, True),
        ({"stream": False}, False),
        ({"n": 2}, False),
        ({"logprobs": True}, False),
        ({"guided_json": {}}, True),
        ({"guided_json": {"type": "object"}}, False),
        ({"modalities": ["text", "audio"]}, False),
        ({"add_generation_prompt": False}, False),
        ({"messages": []}, False),
    ],
)
def test_only_one_choice_of_plain_text_can_be_carried_on(fields: dict[str, Any], can: bool) -> None:
    assert continuable(chat(**fields)) is can


def breaks(call: Call) -> None:
    call.begin()
    call.chunk(BEGUN)


@asynccontextmanager
async def carried_on(upstream: Upstream, *, limit_bytes: int = 2**20) -> AsyncIterator[Attempts]:
    """Attempts that may carry on, by an engine that does not say it could go on."""
    async with engine(upstream.port) as one:
        only = Try(one, EngineRequest("POST", "/chat/completions", request().headers, b"{}", chat()))
        yield Attempts([only], carry_on=True, limit_bytes=limit_bytes)


async def said(upstream: Upstream, *, limit_bytes: int = 2**20) -> list[bytes]:
    """What a client is sent of an answer that breaks off."""
    got: list[bytes] = []
    async with carried_on(upstream, limit_bytes=limit_bytes) as attempts, attempts:
        tail = Tail()
        chunks = attempts.chunks(tail)
        with pytest.raises(StreamBroken):
            while True:
                got.append(await anext(chunks))
                tail.feed(got[-1])
        assert not attempts.carried_on
    return got


async def test_an_engine_that_does_not_declare_it_is_not_asked_to_go_on(upstream: Upstream) -> None:
    upstream.plays(breaks)
    assert await said(upstream) == [BEGUN]
    assert len(upstream.calls) == 1


async def test_a_stream_whose_beginning_was_let_go_is_not_carried_on(upstream: Upstream) -> None:
    def silent(call: Call) -> None:
        call.begin()
        call.chunk(BEGUN.replace(b"Forty", b""))

    upstream.plays(silent)
    await said(upstream, limit_bytes=10)
    assert len(upstream.calls) == 1


async def test_a_whole_answer_passes_unchanged(upstream: Upstream) -> None:
    whole = BEGUN + b"data: [DONE]\n\n"

    def says(call: Call) -> None:
        call.begin()
        call.chunk(whole[:50])
        call.chunk(whole[50:])
        call.end()

    upstream.plays(says)
    got: list[bytes] = []
    async with carried_on(upstream) as attempts, attempts:
        tail = Tail()
        async for chunk in attempts.chunks(tail):
            got.append(chunk)
            tail.feed(chunk)
    assert b"".join(got) == whole


async def test_a_stream_of_whole_events_that_ends_without_its_terminal_event_is_broken(
    upstream: Upstream,
) -> None:
    def ends(call: Call) -> None:
        call.begin()
        call.chunk(BEGUN)
        call.end()

    upstream.plays(ends)
    assert await said(upstream) == [BEGUN]


async def test_a_stream_that_nobody_may_carry_on_is_the_engines_own(upstream: Upstream) -> None:
    def ends(call: Call) -> None:
        call.begin()
        call.chunk(BEGUN)
        call.end()

    upstream.plays(ends)
    async with engine(upstream.port) as one:
        attempts = Attempts([Try(one, request())])
        async with attempts as reply:
            assert reply.first is None
            assert [chunk async for chunk in attempts.chunks(Tail())] == [BEGUN]
