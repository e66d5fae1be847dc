"""Who is admitted to an engine, what is held until it has begun, and what its answers do to those who come next."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from threading import Event

import pytest

from engines.answers.tail import tail_of
from engines.engine import EngineInfo, EngineReply, EngineRequest
from engines.errors import ConnectFailed, EngineError, Kind, RateLimited, Unavailable
from engines.openai_http import OpenAIHTTP
from engines.servers.breaker import Breaker, State
from engines.servers.limits import Credentials
from engines.servers.servers import Servers
from engines.sse import DONE
from tests.engines.asking import PATIENT, Clock, asked, chat, closed_port, engine, request, served
from tests.flow.upstream import Call, Script, Upstream
from tests.knobs import limits, servers_of
from tests.patience import PATIENCE_S, until

JSON = [("Content-Type", "application/json")]
ROLE = b'data: {"choices":[{"index":0,"delta":{"role":"assistant","content":""}}]}\n\n'
WORD = b'data: {"choices":[{"index":0,"delta":{"content":"Oslo"}}]}\n\n'
ERROR = b'data: {"error":{"message":"overloaded"}}\n\n'
STREAM = chat(stream=True)
PATIENT_STREAM = replace(STREAM, wait_s=PATIENCE_S)


def in_turn(upstream: Upstream, *scripts: Script) -> None:
    """The n-th request gets the n-th script; the last one stays."""
    upstream.plays(lambda call: scripts[min(len(upstream.calls), len(scripts)) - 1](call))


def good(call: Call) -> None:
    call.answer(b"good")


def says(status: int, *headers: tuple[str, str], body: bytes = b"") -> Script:
    return lambda call: call.answer(body or b"status %d" % status, status, [*JSON, *headers])


def streams(*chunks: bytes, cut: bool = False) -> Script:
    def script(call: Call) -> None:
        call.begin()
        for chunk in chunks:
            call.chunk(chunk)
        if not cut:
            call.end()

    return script


async def listened(single: Servers, what: EngineRequest = STREAM) -> EngineReply:
    """Ask, and read a stream as the pipeline does, to its end or to where it breaks."""
    async with single.stream(what) as reply:
        reply.tail = tail_of(reply.headers)
        try:
            async for chunk in reply.chunks:
                if reply.tail is not None:
                    reply.tail.feed(chunk)
        except EngineError:
            pass
    return reply


@pytest.mark.parametrize("status", [400, 401, 408, 413, 429, 500, 503])
async def test_it_asks_once_and_hands_over_what_came(upstream: Upstream, status: int) -> None:
    upstream.plays(says(status))
    async with served(upstream.port) as single:
        assert await asked(single) == (status, b"status %d" % status)
    assert len(upstream.calls) == 1


# ---- rate limits


async def test_a_limit_is_remembered_and_told_while_it_lasts(upstream: Upstream, clock: Clock) -> None:
    in_turn(upstream, says(429, ("Retry-After", "20")), good)
    async with served(upstream.port, breaker=Breaker(failures=5, open_s=10, clock=clock)) as single:
        async with single.stream(request()) as reply:
            assert reply.kind is Kind.LIMITED and reply.limited_s == 20
        clock.now = 8
        admission = single.admits(request())
        assert not admission.admitted and admission.opens_in_s == 12
        with pytest.raises(RateLimited, match="rate limit for another 12 s") as refused:
            await asked(single)
        assert refused.value.status == 429 and refused.value.retry_after_s == 12
        assert single.servers[0].breaker.state is State.LIMITED
        clock.now = 20
        assert await asked(single) == (200, b"good")
        assert single.admits(request()).admitted and single.servers[0].breaker.state is State.CLOSED
    assert len(upstream.calls) == 2


async def test_one_finds_out_for_all_who_wait(upstream: Upstream) -> None:
    in_turn(upstream, says(429, ("retry-after-ms", "100")), good)
    async with served(upstream.port) as single:
        async with asyncio.TaskGroup() as group:
            assert (await asked(single))[0] == 429
            tasks = [group.create_task(asked(single, PATIENT_STREAM)) for _ in range(30)]
        assert [task.result()[0] for task in tasks] == [200] * 30
    assert len(upstream.calls) == 31


async def test_a_limit_longer_than_anybody_waits_is_told_at_once(upstream: Upstream) -> None:
    upstream.plays(says(429, ("Retry-After", "30")))
    async with served(upstream.port) as single:
        await asked(single)
        with pytest.raises(RateLimited) as refused:
            await asked(single, replace(request(), wait_s=5.0))
    assert refused.value.retry_after_s is not None and 29 < refused.value.retry_after_s <= 30
    assert len(upstream.calls) == 1


@pytest.mark.parametrize(("status", "kind"), [(503, Kind.LIMITED), (529, Kind.LIMITED), (500, Kind.SERVER)])
async def test_a_server_that_says_when_is_limited_until_then(
    upstream: Upstream, status: int, kind: Kind
) -> None:
    upstream.plays(says(status, ("Retry-After", "20")))
    async with served(upstream.port) as single:
        async with single.stream(request()) as reply:
            assert reply.kind is kind
        assert single.admits(request()).admitted is (kind is Kind.SERVER)


async def test_what_one_clients_key_has_used_up_is_no_other_clients(upstream: Upstream) -> None:
    def script(call: Call) -> None:
        (says(429, ("Retry-After", "20")) if call.header("authorization") == "Bearer greedy" else good)(call)

    upstream.plays(script)
    greedy, other = (chat(headers={"Authorization": f"Bearer {name}"}) for name in ("greedy", "other"))
    one = OpenAIHTTP(EngineInfo("e", holds_key=False), upstream.url, timeouts=PATIENT)
    single = servers_of(one, credentials=Credentials())
    assert (await asked(single, greedy))[0] == 429
    assert not single.admits(greedy).admitted and single.admits(other).admitted
    with pytest.raises(RateLimited):
        await asked(single, greedy)
    assert await asked(single, other) == (200, b"good")
    await one.aclose()


@pytest.mark.parametrize("status", [401, 402, 403, 404])
async def test_what_one_clients_key_is_refused_leaves_the_engine_alone_for_nobody(
    upstream: Upstream, status: int
) -> None:
    upstream.plays(says(status))
    one = OpenAIHTTP(EngineInfo("e", holds_key=False), upstream.url, timeouts=PATIENT)
    single = servers_of(one, credentials=Credentials())
    for _ in range(10):
        assert (await asked(single))[0] == status
    assert single.servers[0].breaker.state is State.CLOSED
    await one.aclose()


async def test_the_last_of_a_limit_is_left_to_a_stand_in_and_yet_asked_where_there_is_none(
    upstream: Upstream,
) -> None:
    told = [(f"x-ratelimit-{part}-requests", value) for part, value in (("remaining", "1"), ("limit", "30"))]
    upstream.plays(says(200, *told, ("x-ratelimit-reset-requests", "50s")))
    async with served(upstream.port) as single:
        await asked(single)
        assert single.admits(request()).spared
        assert (await asked(single))[0] == 200


# ---- refusals


@pytest.mark.parametrize(
    ("status", "body"),
    [(401, b""), (402, b""), (404, b""), (410, b""), (429, b'{"error":{"code":"insufficient_quota"}}')],
)
async def test_an_engine_that_refuses_the_gateways_key_is_left_alone(
    upstream: Upstream, status: int, body: bytes
) -> None:
    upstream.plays(says(status, body=body))
    async with served(upstream.port) as single:
        for _ in range(5):
            await asked(single)
        with pytest.raises(Unavailable, match="refuses the gateway's key or model") as refused:
            await asked(single, replace(request(), wait_s=5.0))
        assert refused.value.kind is Kind.REFUSED and single.servers[0].breaker.state is State.REFUSED
        assert single.servers[0].failures[Kind.REFUSED] + single.servers[0].failures[Kind.QUOTA] >= 5
    assert len(upstream.calls) == 5


# ---- the breaker


@pytest.mark.parametrize(
    "script",
    [
        says(500),
        streams(ROLE, WORD, cut=True),
        streams(ROLE, WORD),
        streams(ROLE, WORD, ERROR),
        streams(ROLE, WORD, ERROR, DONE),
        streams(ERROR),
        streams(),
        lambda call: call.reset(),
    ],
    ids=["500", "cut", "unfinished", "error", "error, done", "only an error", "empty", "reset"],
)
async def test_every_way_to_fail_opens_the_breaker(upstream: Upstream, script: Script) -> None:
    upstream.plays(script)
    async with served(upstream.port, breaker=Breaker(failures=3, open_s=60)) as single:
        for _ in range(3):
            with_failure = False
            try:
                await listened(single)
            except ConnectFailed:
                with_failure = True
            assert with_failure or single.servers[0].failed
        assert (
            single.servers[0].breaker.state is State.OPEN
            and single.servers[0].failed == sum(single.servers[0].failures.values()) == 3
        )
        with pytest.raises(Unavailable, match="keeps failing"):
            await listened(single)
        assert single.load().in_flight == 0
    assert len(upstream.calls) == 3


async def test_an_answer_that_its_reader_finds_to_be_none_is_a_failure(upstream: Upstream) -> None:
    upstream.plays(good)
    async with served(upstream.port, breaker=Breaker(failures=1, open_s=60)) as single:
        async with single.stream(request()) as reply:
            reply.broken = Kind.INVALID
        assert single.servers[0].breaker.state is State.OPEN and single.servers[0].last_failure is not None
        assert (single.servers[0].last_failure.kind, single.servers[0].last_failure.status) == (
            Kind.INVALID,
            200,
        )


async def test_a_client_that_leaves_says_nothing_about_the_engine(upstream: Upstream) -> None:
    def script(call: Call) -> None:
        call.begin()
        call.chunk(WORD)
        assert call.hung_up()

    in_turn(upstream, says(500), script, says(500))
    async with served(upstream.port, breaker=Breaker(failures=2, open_s=60)) as single:
        await asked(single)
        async with single.stream(STREAM) as reply:
            await anext(reply.chunks)
        assert single.servers[0].breaker.state is State.CLOSED
        await asked(single)
        assert single.servers[0].breaker.state is State.OPEN, "leaving was no success between the two"


async def test_errors_of_the_request_open_nothing(upstream: Upstream) -> None:
    async with served(upstream.port, breaker=Breaker(failures=2, open_s=60)) as single:
        for status in (500, 400, 503, 422, 500, 404, 500, 200):
            upstream.plays(says(status))
            await asked(single)
        assert single.servers[0].breaker.state is State.CLOSED, "never two in a row"


async def test_a_lone_dead_engine_fails_fast_and_says_when_to_come_back(clock: Clock) -> None:
    async with served(closed_port(), breaker=Breaker(failures=3, open_s=10, clock=clock)) as single:
        for _ in range(3):
            with pytest.raises(ConnectFailed):
                await asked(single)
        clock.now = 4
        with pytest.raises(Unavailable, match=r"'e' keeps failing .* 6 s") as refused:
            await asked(single, replace(request(), wait_s=60.0))
        assert refused.value.status == 503 and refused.value.retry_after_s == 6


@pytest.mark.parametrize(("back", "calls", "whole"), [(True, 101, 100), (False, 2, 0)])
async def test_a_hundred_wait_for_one_probe(upstream: Upstream, back: bool, calls: int, whole: int) -> None:
    """Half-open, and nobody else to ask: all are served if it is back, and it is asked once if it is not."""
    release = Event()

    def probed(call: Call) -> None:
        assert release.wait(PATIENCE_S)
        (streams(ROLE, WORD, DONE) if back else says(500))(call)

    in_turn(upstream, says(500), probed, streams(ROLE, WORD, DONE))
    async with served(upstream.port, breaker=Breaker(failures=1, open_s=0.01)) as single:
        await asked(single)
        await until(lambda: single.servers[0].breaker.gate.tested, "its rest is over")
        single.servers[0].breaker._open_s = 60
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(_status(single)) for _ in range(100)]
            await until(lambda: single.servers[0].breaker.gate.waiting == 99, "all but one wait")
            release.set()
        assert sum(task.result() == 200 for task in tasks) == whole
        assert single.load().in_flight == 0
    assert len(upstream.calls) == calls


async def _status(single: Servers) -> int:
    try:
        return (await listened(single, PATIENT_STREAM)).status
    except Unavailable as refused:
        return refused.status


async def test_a_probe_is_decided_by_its_first_data_and_not_by_its_role(upstream: Upstream) -> None:
    says_more, says_word = Event(), Event()

    def slow(call: Call) -> None:
        call.begin()
        call.chunk(ROLE)
        assert says_word.wait(PATIENCE_S)
        call.chunk(WORD)
        assert says_more.wait(PATIENCE_S)
        call.chunk(DONE)
        call.end()

    in_turn(upstream, says(500), slow)
    async with served(upstream.port, breaker=Breaker(failures=1, open_s=0.01)) as single:
        await asked(single)
        await until(lambda: single.servers[0].breaker.gate.tested, "its rest is over")
        async with asyncio.TaskGroup() as group:
            probe = group.create_task(listened(single))
            await asyncio.to_thread(upstream.call, 1)
            assert single.servers[0].breaker.state is State.PROBING
            says_word.set()
            await until(lambda: single.servers[0].breaker.state is State.CLOSED, "the breaker closes")
            assert not probe.done()
            says_more.set()


async def test_a_probe_whose_client_leaves_lets_the_next_one_probe(upstream: Upstream, clock: Clock) -> None:
    def silent(call: Call) -> None:
        assert call.hung_up()

    in_turn(upstream, says(500), silent, good)
    async with served(upstream.port, breaker=Breaker(failures=1, open_s=10, clock=clock)) as single:
        await asked(single)
        clock.now = 10
        probe = asyncio.ensure_future(asked(single))
        await asyncio.to_thread(upstream.call, 1)
        assert not single.admits(request()).admitted and single.admits(request()).opens_in_s == 0
        probe.cancel()
        await asyncio.wait([probe])
        assert await asked(single) == (200, b"good")


# ---- places, load and pace


async def test_leaving_ends_the_generation_and_gives_the_place_back(upstream: Upstream) -> None:
    def script(call: Call) -> None:
        call.begin()
        call.chunk(b"data: 1\n\n")
        assert call.hung_up()

    upstream.plays(script)
    async with served(upstream.port, limits(max_in_flight=1)) as single:
        for n in range(3):
            async with single.stream(request()) as reply:
                await anext(reply.chunks)
            assert await asyncio.to_thread(upstream.call(n).was_left)
        assert single.load().in_flight == 0


async def test_the_queue_is_bounded_and_says_when_to_come_back(upstream: Upstream) -> None:
    release = Event()

    def script(call: Call) -> None:
        assert release.wait(60)
        call.answer(b"good")

    upstream.plays(script)
    async with served(upstream.port, limits(max_in_flight=2, max_queued=1)) as single:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(asked(single)) for _ in range(3)]
            while single.load().queued < 1:
                await asyncio.sleep(0.01)
            assert (single.load().in_flight, single.load().queued) == (2, 1)
            with pytest.raises(Unavailable, match="limit of 2 requests") as refused:
                await asked(single)
            assert refused.value.retry_after_s == 1 and refused.value.status == 503
            release.set()
        assert [task.result() for task in tasks] == [(200, b"good")] * 3
        assert (single.load().in_flight, single.load().queued) == (0, 0)
    assert upstream.connections <= 3


async def test_who_leaves_the_queue_gives_up_its_place(upstream: Upstream) -> None:
    release = Event()

    def script(call: Call) -> None:
        assert release.wait(60)
        call.answer(b"good")

    upstream.plays(script)
    async with served(upstream.port, limits(max_in_flight=1, max_queued=1)) as single:
        async with asyncio.TaskGroup() as group:
            first = group.create_task(asked(single))
            while single.load().in_flight < 1:
                await asyncio.sleep(0.01)
            waiting = group.create_task(asked(single))
            while single.load().queued < 1:
                await asyncio.sleep(0.01)
            waiting.cancel()
            while single.load().queued:
                await asyncio.sleep(0.01)
            last = group.create_task(asked(single))
            await asyncio.sleep(0.05)
            release.set()
        assert waiting.cancelled() and first.result() == last.result() == (200, b"good")
    assert len(upstream.calls) == 2


async def test_being_cancelled_before_the_first_chunk_gives_the_place_back(upstream: Upstream) -> None:
    def script(call: Call) -> None:
        assert call.hung_up()

    upstream.plays(script)
    async with served(upstream.port, limits(max_in_flight=1)) as single:
        task = asyncio.ensure_future(asked(single))
        await asyncio.to_thread(upstream.call)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert await asyncio.to_thread(upstream.call().was_left)
        assert single.load().in_flight == 0


async def test_a_guard_is_an_engine_and_knows_the_one_it_guards(upstream: Upstream) -> None:
    async with engine(upstream.port, "small") as inner:
        single = servers_of(inner)
        assert single.info is inner.info
        await single.health()
        assert isinstance(single.stream(request()), object)
        what = EngineRequest("GET", "/models?x", request().headers, b"")
        assert (await asked(single, what))[0] == 200
    assert upstream.calls[-1].target == b"/v1/models?x"


async def test_a_guard_tells_pace_and_limits_of_its_engine(upstream: Upstream) -> None:
    upstream.plays(
        lambda call: call.answer(
            b"x",
            200,
            [*JSON, ("x-ratelimit-remaining-requests", "3"), ("x-ratelimit-limit-requests", "4")],
        )
    )
    async with served(upstream.port) as single:
        assert single.load().answer_s is None
        assert single.load().utilisation == 0.0
        await asked(single)
        load = single.load()
    assert load.answer_s is not None and load.answer_s > 0
    assert load.limit_left == 0.75
    assert load.utilisation == 0.25
    assert load.open


async def test_a_refusal_says_nothing_about_an_engines_pace(upstream: Upstream) -> None:
    upstream.plays(says(400))
    async with served(upstream.port) as single:
        await asked(single)
        assert single.load().answer_s is None
