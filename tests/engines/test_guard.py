"""In-flight limit, bounded queue, retries before the first chunk and the breaker, around a real engine."""

from __future__ import annotations

import asyncio
import time
from threading import Event

import pytest

from engines.breaker import Breaker, State
from engines.engine import EngineRequest
from engines.errors import ConnectFailed, TimedOut, Unavailable
from engines.timeouts import Timeouts
from tests.engines.asking import asked, closed_port, engine, guarded, request
from tests.flow.upstream import Call, Script, Upstream
from tests.knobs import guard_of, limits

JSON = [("Content-Type", "application/json")]


def in_turn(upstream: Upstream, *scripts: Script) -> None:
    """The n-th request gets the n-th script; the last one stays."""
    upstream.plays(lambda call: scripts[min(len(upstream.calls), len(scripts)) - 1](call))


def good(call: Call) -> None:
    call.answer(b"good")


def says(status: int, *headers: tuple[str, str]) -> Script:
    return lambda call: call.answer(b"status %d" % status, status, [*JSON, *headers])


@pytest.mark.parametrize("status", [408, 409, 429, 500, 502, 503, 504, 529])
async def test_what_may_pass_is_asked_again(upstream: Upstream, status: int) -> None:
    in_turn(upstream, says(status), good)
    async with guarded(upstream.port) as guard:
        assert await asked(guard) == (200, b"good")
    assert len(upstream.calls) == 2
    assert upstream.calls[0].body == upstream.calls[1].body == b"{}"


@pytest.mark.parametrize("status", [400, 401, 403, 404, 405, 413, 415, 422, 451, 501])
async def test_what_will_not_pass_goes_straight_back(upstream: Upstream, status: int) -> None:
    in_turn(upstream, says(status), good)
    async with guarded(upstream.port) as guard:
        assert await asked(guard) == (status, b"status %d" % status)
    assert len(upstream.calls) == 1


async def test_the_last_answer_is_passed_on_when_tries_run_out(upstream: Upstream) -> None:
    in_turn(upstream, says(503), says(500), says(429))
    async with guarded(upstream.port, limits(attempts=3, first_wait_s=0.01)) as guard:
        assert await asked(guard) == (429, b"status 429")
    assert len(upstream.calls) == 3


@pytest.mark.parametrize(("said", "asks"), [("true", 2), ("false", 1)])
async def test_an_upstream_that_says_whether_to_retry_is_believed(
    upstream: Upstream, said: str, asks: int
) -> None:
    status = 400 if said == "true" else 503
    in_turn(upstream, says(status, ("x-should-retry", said)), good)
    async with guarded(upstream.port) as guard:
        await asked(guard)
    assert len(upstream.calls) == asks


@pytest.mark.parametrize("header", [("Retry-After", "1"), ("retry-after-ms", "300")])
async def test_it_is_not_asked_again_before_it_wants_to_be(
    upstream: Upstream, header: tuple[str, str]
) -> None:
    times: list[float] = []

    def script(call: Call) -> None:
        times.append(time.monotonic())
        (says(429, header) if len(times) == 1 else good)(call)

    upstream.plays(script)
    async with guarded(upstream.port) as guard:
        assert await asked(guard) == (200, b"good")
    assert times[1] - times[0] >= (1 if header[0] == "Retry-After" else 0.3)


async def test_a_wish_beyond_the_limit_is_not_waited_for(upstream: Upstream) -> None:
    in_turn(upstream, says(429, ("Retry-After", "60")), good)
    async with guarded(upstream.port, limits(attempts=5, max_wait_s=2)) as guard:
        assert await asked(guard) == (429, b"status 429")
    assert len(upstream.calls) == 1


async def test_waits_are_jittered_over_their_whole_range(upstream: Upstream) -> None:
    """Full jitter: clients that failed together spread from nothing to the limit."""
    async with guarded(upstream.port, limits(attempts=5, first_wait_s=0.2, max_wait_s=5)) as guard:
        waits = [guard.retry_in_s(4, ConnectFailed("nobody there")) or 0.0 for _ in range(2000)]
    assert min(waits) < 0.1 and max(waits) > 1.4 and max(waits) <= 0.2 * 2**3


async def test_a_connection_that_breaks_before_the_first_byte_is_tried_again(upstream: Upstream) -> None:
    in_turn(upstream, lambda call: call.reset(), good)
    async with guarded(upstream.port) as guard:
        assert await asked(guard) == (200, b"good")


async def test_a_stream_that_breaks_before_its_first_chunk_is_tried_again(upstream: Upstream) -> None:
    in_turn(upstream, lambda call: call.begin(), good)
    async with guarded(upstream.port) as guard:
        assert await asked(guard) == (200, b"good")


async def test_a_stream_that_breaks_after_its_first_chunk_is_not(upstream: Upstream) -> None:
    def cut(call: Call) -> None:
        call.begin()
        call.chunk(b"data: 1\n\n")

    in_turn(upstream, cut, good)
    async with guarded(upstream.port) as guard:
        with pytest.raises(Exception, match="before its answer was complete"):
            await asked(guard)
        assert guard.load().in_flight == 0
    assert len(upstream.calls) == 1


async def test_a_stream_that_begins_with_an_error_is_asked_for_again(upstream: Upstream) -> None:
    def overloaded(call: Call) -> None:
        call.begin()
        call.chunk(b'data: {"error":{"message":"overloaded"}}\n\n')
        call.end()

    in_turn(upstream, overloaded, good)
    async with guarded(upstream.port) as guard:
        assert await asked(guard) == (200, b"good")


async def test_a_head_that_never_comes_is_not_asked_for_twice(upstream: Upstream) -> None:
    """The engine may be generating: a second request would only double its work."""

    def silent(call: Call) -> None:
        assert call.hung_up()

    in_turn(upstream, silent, good)
    async with guarded(upstream.port, timeouts=Timeouts(2, 0.2, 2, 10)) as guard:
        with pytest.raises(TimedOut):
            await asked(guard)
    assert len(upstream.calls) == 1


async def test_the_queue_is_bounded_and_says_when_to_come_back(upstream: Upstream) -> None:
    release = Event()

    def script(call: Call) -> None:
        assert release.wait(60)
        call.answer(b"good")

    upstream.plays(script)
    async with guarded(upstream.port, limits(max_in_flight=2, max_queued=1)) as guard:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(asked(guard)) for _ in range(3)]
            while guard.load().queued < 1:
                await asyncio.sleep(0.01)
            assert (guard.load().in_flight, guard.load().queued) == (2, 1)
            with pytest.raises(Unavailable, match="limit of 2 requests") as refused:
                await asked(guard)
            assert refused.value.retry_after_s == 1 and refused.value.status == 503
            release.set()
        assert [task.result() for task in tasks] == [(200, b"good")] * 3
        assert (guard.load().in_flight, guard.load().queued) == (0, 0)
    assert upstream.connections <= 3


async def test_who_leaves_the_queue_gives_up_its_place(upstream: Upstream) -> None:
    release = Event()

    def script(call: Call) -> None:
        assert release.wait(60)
        call.answer(b"good")

    upstream.plays(script)
    async with guarded(upstream.port, limits(max_in_flight=1, max_queued=1)) as guard:
        async with asyncio.TaskGroup() as group:
            first = group.create_task(asked(guard))
            while guard.load().in_flight < 1:
                await asyncio.sleep(0.01)
            waiting = group.create_task(asked(guard))
            while guard.load().queued < 1:
                await asyncio.sleep(0.01)
            waiting.cancel()
            while guard.load().queued:
                await asyncio.sleep(0.01)
            last = group.create_task(asked(guard))
            await asyncio.sleep(0.05)
            release.set()
        assert waiting.cancelled() and first.result() == last.result() == (200, b"good")
    assert len(upstream.calls) == 2


async def test_leaving_ends_the_generation_and_gives_the_place_back(upstream: Upstream) -> None:
    def script(call: Call) -> None:
        call.begin()
        call.chunk(b"data: 1\n\n")
        assert call.hung_up()

    upstream.plays(script)
    async with guarded(upstream.port, limits(max_in_flight=1)) as guard:
        for n in range(3):
            async with guard.stream(request()) as reply:
                await anext(reply.chunks)
            assert await asyncio.to_thread(upstream.call(n).was_left)
        assert guard.load().in_flight == 0


async def test_being_cancelled_before_the_first_chunk_gives_the_place_back(upstream: Upstream) -> None:
    def script(call: Call) -> None:
        assert call.hung_up()

    upstream.plays(script)
    async with guarded(upstream.port, limits(max_in_flight=1)) as guard:
        task = asyncio.ensure_future(asked(guard))
        await asyncio.to_thread(upstream.call)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert await asyncio.to_thread(upstream.call().was_left)
        assert guard.load().in_flight == 0


async def test_a_lone_dead_engine_fails_fast_and_says_when_to_come_back() -> None:
    now = [0.0]
    breaker = Breaker("e", failures=3, open_s=10, clock=lambda: now[0])
    async with guarded(closed_port(), limits(attempts=1), breaker) as guard:
        for _ in range(3):
            with pytest.raises(ConnectFailed):
                await asked(guard)
        now[0] = 4
        with pytest.raises(Unavailable) as refused:
            await asked(guard)
        assert refused.value.status == 503 and refused.value.retry_after_s == 6
        assert "'e'" in refused.value.message


async def test_errors_of_the_engine_open_the_breaker_and_those_of_the_client_do_not(
    upstream: Upstream,
) -> None:
    breaker = Breaker("e", failures=2, open_s=10)
    async with guarded(upstream.port, limits(attempts=1), breaker) as guard:
        for status in (500, 400, 503, 429, 500, 404):
            upstream.plays(says(status))
            await asked(guard)
        assert breaker.state is State.CLOSED, "never two in a row"
        for status in (500, 502):
            upstream.plays(says(status))
            await asked(guard)
        assert breaker.state is State.OPEN


async def test_one_probe_goes_first_when_the_rest_is_over(upstream: Upstream) -> None:
    now = [0.0]
    breaker = Breaker("e", failures=1, open_s=10, clock=lambda: now[0])
    release = Event()

    def slow(call: Call) -> None:
        assert release.wait(60)
        call.answer(b"good")

    in_turn(upstream, says(500), slow)
    async with guarded(upstream.port, limits(attempts=1), breaker) as guard:
        await asked(guard)
        now[0] = 10
        async with asyncio.TaskGroup() as group:
            probe = group.create_task(asked(guard))
            await asyncio.to_thread(upstream.call, 1)
            with pytest.raises(Unavailable):
                await asked(guard)
            release.set()
        assert probe.result() == (200, b"good")
        assert await asked(guard) == (200, b"good")
    assert breaker.state is State.CLOSED


async def test_a_probe_whose_client_leaves_lets_the_next_one_probe(upstream: Upstream) -> None:
    now = [0.0]
    breaker = Breaker("e", failures=1, open_s=10, clock=lambda: now[0])

    def silent(call: Call) -> None:
        assert call.hung_up()

    in_turn(upstream, says(500), silent, good)
    async with guarded(upstream.port, limits(attempts=1), breaker) as guard:
        await asked(guard)
        now[0] = 10
        probe = asyncio.ensure_future(asked(guard))
        await asyncio.to_thread(upstream.call, 1)
        probe.cancel()
        await asyncio.wait([probe])
        assert await asked(guard) == (200, b"good")


async def test_a_guard_is_an_engine_and_knows_the_one_it_guards(upstream: Upstream) -> None:
    async with engine(upstream.port, "small") as inner:
        guard = guard_of(inner)
        assert guard.info is inner.info
        assert await guard.health() is True
        assert isinstance(guard.stream(request()), object)
        what = EngineRequest("GET", "/models?x", request().headers, b"")
        assert (await asked(guard, what))[0] == 200
    assert upstream.calls[-1].target == b"/v1/models?x"


async def test_a_guard_tells_pace_and_limits_of_its_engine(upstream: Upstream) -> None:
    upstream.plays(
        lambda call: call.answer(
            b"x",
            200,
            [*JSON, ("x-ratelimit-remaining-requests", "3"), ("x-ratelimit-limit-requests", "4")],
        )
    )
    async with guarded(upstream.port) as guard:
        assert guard.load().answer_s is None
        assert guard.load().utilisation == 0.0
        await asked(guard)
        load = guard.load()
    assert load.answer_s is not None and load.answer_s > 0
    assert load.limit_left == 0.75
    assert load.utilisation == 0.25
    assert load.open


async def test_a_refusal_says_nothing_about_an_engines_pace(upstream: Upstream) -> None:
    upstream.plays(says(400))
    async with guarded(upstream.port) as guard:
        await asked(guard)
        assert guard.load().answer_s is None
