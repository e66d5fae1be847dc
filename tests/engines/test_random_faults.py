"""Engines, or replicas, that fail at random: a client gets one well-formed answer or one error, and nothing is lost."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import engines.candidates
from engines.answers.tail import Tail
from engines.attempts import Attempts
from engines.candidates import MOST_TRIES, Try
from engines.engine import Continues
from engines.errors import EngineError
from engines.servers.breaker import Breaker
from tests.engines.asking import engine
from tests.engines.plans import asked, breaks_after, chunks_of, refuses, says, text_of
from tests.engines.servers.replicas import replicas
from tests.flow.upstream import Call, Script, Upstream
from tests.knobs import limits, servers_of

WHOLE = "One two three four five six seven eight nine ten. Eleven, twelve."
HALF = "One two three four five six seven eight nine ten. El"
DIED = b'data: {"error":{"message":"died","type":"server_error","code":500}}\n\n'


def goes_on(made: Callable[[str], Script], text: str) -> Script:
    """What `made` makes of the text, or of what follows the beginning that a request gives it."""

    def script(call: Call) -> None:
        asked = call.json()
        given = asked["messages"][-1]["content"] if asked.get("continue_final_message") else ""
        if not text.startswith(given):
            return refuses(400)(call)
        return made(text.removeprefix(given))(call)

    return script


def only_begins(call: Call) -> None:
    call.begin()
    call.chunk(chunks_of("")[0])


FAULTS: dict[str, Script] = {
    "none": goes_on(says, WHOLE),
    "500": refuses(500),
    "limit": refuses(429, retry_after_ms="5"),
    "401": refuses(401),
    "400": refuses(400),
    "too long": refuses(400, b'{"error":{"message":"prompt is too long"}}'),
    "no retry": refuses(503, x_should_retry="false"),
    "reset": lambda call: call.reset(),
    "HTML": lambda call: call.answer(b"<html>", headers=[("Content-Type", "text/html")]),
    "nothing": lambda call: call.answer(b""),
    "error": lambda call: call.answer(DIED, headers=[("Content-Type", "text/event-stream")]),
    "only a role": only_begins,
    "cut": goes_on(breaks_after, HALF),
    "died": goes_on(lambda text: breaks_after(text, DIED, whole=True), HALF),
    "something else": goes_on(says, "Otherwise."),
}


class Engines:
    """Each plays its faults in turn, and is well after that."""

    def __init__(self) -> None:
        self.upstreams = [Upstream() for _ in range(3)]

    def play(self, faults: list[list[str]]) -> None:
        for upstream, its in zip(self.upstreams, faults, strict=True):
            upstream.forget()

            def script(call: Call, upstream: Upstream = upstream, its: list[str] = its) -> None:
                turn = len(upstream.calls) - 1
                FAULTS[its[turn] if turn < len(its) else "none"](call)

            upstream.plays(script)


@pytest.fixture(scope="module")
def three() -> Iterator[Engines]:
    made = Engines()
    yield made
    for upstream in made.upstreams:
        upstream.forget()
        upstream.close()


async def said(tries: list[Try], leaves_after: int | None) -> tuple[Attempts, list[bytes], int, bool]:
    """What a client is sent; the status; whether it was told of an error by a broken connection."""
    attempts, body, status = Attempts(tries, carry_on=True), [], 0
    try:
        async with attempts as reply:
            status, tail = reply.status, Tail()
            async for chunk in attempts.chunks(tail):
                body.append(chunk)
                tail.feed(chunk)
                if len(body) == leaves_after:
                    break
            broken = status == 200 and reply.streams_events and tail.cut(delimited=True)
    except EngineError:
        return attempts, body, status, True
    return attempts, body, status, broken


def check(
    attempts: Attempts,
    chunks: list[bytes],
    status: int,
    *,
    broken: bool,
    stream: bool,
    leaves_after: int | None,
) -> None:
    """It is one well-formed answer, or one error."""
    body = b"".join(chunks)
    if stream and status == 200 and body.startswith(b"data: {"):
        said_so_far = text_of(body.removesuffix(DIED))
        assert any(text.startswith(said_so_far) for text in (WHOLE, "Otherwise."))
    if leaves_after is None and not broken and status == 200:
        errors = body.count(b'"error"')
        if (body and body.startswith(b"<")) or not body:
            # Nobody did better: the first goes out as it came.
            assert all(one.kind is not None for one in attempts.trail)
        elif errors:
            assert errors == 1 and body.endswith(DIED)
        elif any(one.kind is None for one in attempts.trail):
            assert text_of(body) in (WHOLE, "Otherwise.")
            assert not stream or body.count(b"[DONE]") == 1


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    faults=st.lists(st.lists(st.sampled_from(sorted(FAULTS)), max_size=3), min_size=3, max_size=3),
    stream=st.booleans(),
    continues=st.lists(st.sampled_from(["prefill", "instruct", "off"]), min_size=3, max_size=3),
    leaves_after=st.none() | st.integers(1, 12),
)
async def test_whatever_fails_there_is_one_answer_or_one_error(
    three: Engines,
    monkeypatch: pytest.MonkeyPatch,
    faults: list[list[str]],
    stream: bool,
    continues: list[Continues],
    leaves_after: int | None,
) -> None:
    monkeypatch.setattr(engines.candidates, "_FIRST_PAUSE_S", 0.001)
    await asyncio.to_thread(three.play, faults)
    async with AsyncExitStack() as stack:
        servers = []
        for upstream, way in zip(three.upstreams, continues, strict=True):
            one = await stack.enter_async_context(engine(upstream.port))
            one.info = replace(one.info, name=f"{upstream.port}", attempts=2, continues=way)
            servers.append(servers_of(one, limits(max_in_flight=1), Breaker(failures=2, open_s=0.001)))
        tries = [Try(single, asked(stream=stream)) for single in servers]
        attempts, chunks, status, broken = await said(tries, leaves_after)
        check(attempts, chunks, status, broken=broken, stream=stream, leaves_after=leaves_after)
        # A refused prefill is asked again as an instruction, once for each engine.
        assert sum(len(upstream.calls) for upstream in three.upstreams) <= MOST_TRIES + 3
        assert all(len(upstream.calls) <= 3 for upstream in three.upstreams)
        await asyncio.sleep(0.02)
        for single in servers:
            assert single.load().in_flight == 0 and single.admits(asked()).admitted


@pytest.mark.slow
@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    faults=st.lists(st.lists(st.sampled_from(sorted(FAULTS)), max_size=3), min_size=3, max_size=3),
    stream=st.booleans(),
    continues=st.sampled_from(["prefill", "instruct", "off"]),
    attempts_each=st.integers(1, 4),
    weights=st.lists(st.sampled_from([0.0, 1.0, 3.0]), min_size=2, max_size=2),
    with_another=st.booleans(),
    drained=st.none() | st.integers(0, 1),
    clients=st.lists(st.none() | st.integers(1, 12), min_size=1, max_size=4),
)
async def test_whatever_fails_of_replicas_there_is_one_answer_or_one_error_and_no_place_is_lost(
    three: Engines,
    monkeypatch: pytest.MonkeyPatch,
    faults: list[list[str]],
    stream: bool,
    continues: Continues,
    attempts_each: int,
    weights: list[float],
    with_another: bool,
    drained: int | None,
    clients: list[int | None],
) -> None:
    monkeypatch.setattr(engines.candidates, "_FIRST_PAUSE_S", 0.001)
    await asyncio.to_thread(three.play, faults)
    ports = [upstream.port for upstream in three.upstreams]
    async with AsyncExitStack() as stack:
        pool = await stack.enter_async_context(
            replicas(
                *ports[: 2 if with_another else 3],
                weights=[1.0, *weights],
                max_in_flight=1,
                breaker=lambda: Breaker(failures=2, open_s=0.001),
                continues=continues,
                attempts=attempts_each,
            )
        )
        tries = [Try(pool, asked(stream=stream))]
        if with_another:
            one = await stack.enter_async_context(engine(ports[2]))
            one.info = replace(one.info, name="another", attempts=2, continues=continues)
            single = servers_of(one, limits(max_in_flight=1), Breaker(failures=2, open_s=0.001))
            tries.append(Try(single, asked(stream=stream)))
        if drained is not None:
            pool.servers[drained].drained = True
        for leaves_after, one_said in zip(
            clients, await asyncio.gather(*(said(tries, leaves) for leaves in clients)), strict=True
        ):
            attempts, chunks, status, broken = one_said
            check(attempts, chunks, status, broken=broken, stream=stream, leaves_after=leaves_after)
            asked_of_pool = [tried for tried in attempts.trail if tried.engine == "pool" and tried.seconds]
            # A refused prefill is asked again as an instruction, once.
            assert len(asked_of_pool) <= attempts_each + 1 and len(attempts.trail) <= 2 * MOST_TRIES
        await asyncio.sleep(0.02)
        for single in pool.servers:
            assert single.servers[0].in_flight == 0
            assert single.servers[0].drained or single.admits(asked()).admitted
        assert pool.line.waiting == 0
