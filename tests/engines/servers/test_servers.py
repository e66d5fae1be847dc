"""Who of several replicas is asked: the least loaded, where a conversation was, and those that may be asked at all."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace

import pytest

from engines.attempts import Attempts
from engines.candidates import Try
from engines.engine import EngineRequest
from engines.errors import EngineError, Kind, Unavailable
from engines.servers.breaker import Breaker
from engines.servers.servers import Servers
from tests.engines.asking import chat
from tests.engines.plans import answer, asked, breaks_after, end_of, plan, read, refuses, says, text_of
from tests.engines.servers.replicas import replicas
from tests.flow.upstream import Call, Upstream
from tests.patience import until

Three = tuple[Upstream, Upstream, Upstream]
LONG = "You review Python programs, and say what is wrong with each of them. " * 20
WHOLE = "One two three four five six seven eight nine ten."


@pytest.fixture
def three() -> Iterator[Three]:
    made = Upstream(), Upstream(), Upstream()
    for place, upstream in enumerate(made):
        upstream.plays(says(f"Replica {place}."))
    yield made
    for upstream in made:
        upstream.forget()
        upstream.close()


def ports(three: Three) -> tuple[int, ...]:
    return tuple(upstream.port for upstream in three)


async def where(engine: Servers, request: EngineRequest | None = None) -> str:
    """Ask, and read all of it; which replica answered."""
    async with engine.stream(request or asked(stream=False)) as reply:
        async for _ in reply.chunks:
            pass
        return reply.replica


def turn(number: int, *, session: str = "", tenant: str = "", topic: str = "T") -> EngineRequest:
    """The so-manieth turn of a conversation."""
    messages = [{"role": "system", "content": "S"}, {"role": "user", "content": topic}]
    for at in range(number):
        messages += [{"role": "assistant", "content": f"A{at}"}, {"role": "user", "content": f"Q{at}"}]
    return replace(chat(messages=messages), session=session, tenant=tenant)


async def test_the_least_expected_wait_is_asked(three: Three) -> None:
    async with replicas(*ports(three)) as engine:
        slow, fast, middling = engine.servers
        for server, seconds in ((slow, 9.0), (fast, 1.0), (middling, 2.9)):
            assert server.answer_time is not None
            server.answer_time.took(seconds)
        taken = [engine.place(asked()) for _ in range(5)]
        assert [server.name for server in taken if server] == ["r1", "r1", "r2", "r1", "r1"]
        for server in taken:
            assert server is not None
            server.give_slot()


async def test_weights_are_shares(three: Three) -> None:
    async with replicas(*ports(three), weights=[1, 2, 3]) as engine:
        taken = [engine.place(asked()) for _ in range(12)]
        assert [server.in_flight for server in engine.servers] == [2, 4, 6]
        for server in taken:
            assert server is not None
            server.give_slot()


async def test_who_fails_fast_does_not_look_fast(three: Three) -> None:
    three[0].plays(refuses(500))
    async with replicas(*ports(three), breaker=lambda: Breaker(failures=100, open_s=1)) as engine:
        for _ in range(30):
            assert await where(engine) in ("r0", "r1", "r2")
        assert len(three[0].calls) <= 3


async def test_one_of_weight_0_is_asked_where_no_other_may_be(three: Three) -> None:
    async with replicas(*ports(three), weights=[0, 1, 1], max_in_flight=1) as engine:
        assert {await where(engine) for _ in range(4)} == {"r1", "r2"}
        engine.servers[1].drained = True
        assert {await where(engine) for _ in range(4)} == {"r2"}
        engine.servers[2].drained = True
        assert {await where(engine) for _ in range(4)} == {"r0"}
        engine.servers[0].drained = True
        assert not engine.admits(asked()).admitted
        with pytest.raises(Unavailable, match="drained"):
            await where(engine)


async def test_a_named_session_has_one_home_in_every_worker_and_gives_way(three: Three) -> None:
    async with replicas(*ports(three)) as engine, replicas(*ports(three)) as other:
        homes = {name: await where(engine, turn(0, session=name)) for name in map(str, range(20))}
        assert set(homes.values()) == {"r0", "r1", "r2"}
        for name, home in homes.items():
            assert await where(engine, turn(3, session=name)) == home
            assert await where(other, turn(1, session=name, topic="another")) == home
        moved = [
            name for name in homes if await where(engine, turn(0, session=name, tenant="b")) != homes[name]
        ]
        assert moved
        crowded = next(server for server in engine.servers if server.name == homes["0"])
        for _ in range(5):
            assert crowded.took_slot()
        assert await where(engine, turn(0, session="0")) == homes["0"]
        assert crowded.took_slot()
        assert await where(engine, turn(0, session="0")) != homes["0"]
        for _ in range(6):
            crowded.give_slot()
        # Where its home may not be asked, only its sessions move.
        crowded.drained = True
        for name, home in homes.items():
            now = await where(engine, turn(0, session=name))
            assert now != homes["0"] and (now == home or home == homes["0"])


@pytest.mark.parametrize("topic", ["T", "You review Python programs. " * 50])
async def test_a_conversation_goes_on_where_its_beginning_is_cached(three: Three, topic: str) -> None:
    async with replicas(*ports(three)) as engine:
        engine.servers[1].drained = engine.servers[2].drained = True
        assert await where(engine, turn(0, tenant="a", topic=topic)) == "r0"
        engine.servers[1].drained = engine.servers[2].drained = False
        for server in engine.servers:
            assert server.answer_time is not None
            server.answer_time.took(100.0 if server is engine.servers[0] else 1.0)
        for number in (1, 2, 3):
            assert await where(engine, turn(number, tenant="a", topic=topic)) == "r0"
        # Another tenant's conversation is another one, though it reads the same.
        assert await where(engine, turn(1, tenant="b", topic="b" + topic)) != "r0"


async def test_calls_that_share_a_system_prompt_meet_until_their_replica_is_crowded(three: Three) -> None:
    def asking(question: str) -> EngineRequest:
        messages = [{"role": "system", "content": LONG}, {"role": "user", "content": question}]
        return replace(chat(messages=messages), tenant="t")

    async with replicas(*ports(three)) as engine, replicas(*ports(three)) as other:
        first = await where(engine, asking("Why?"))
        assert {await where(engine, asking(f"Why {number}?")) for number in range(9)} == {first}
        # A worker that was asked nothing yet sends it to the same place.
        assert await where(other, asking("Who?")) == first
        crowded = next(server for server in engine.servers if server.name == first)
        for _ in range(6):
            assert crowded.took_slot()
        assert await where(engine, asking("When?")) != first
        for _ in range(6):
            crowded.give_slot()


async def test_what_is_short_or_shared_with_nobody_goes_by_load(three: Three) -> None:
    async with replicas(*ports(three)) as engine:
        requests = [replace(turn(0, topic=f"{number}{LONG}"), tenant="t") for number in range(6)]
        taken = [engine.place(one, prefixes=await engine.placing.prefixes(one)) for one in requests]
        assert [server.in_flight for server in engine.servers] == [2, 2, 2]
        for server in taken:
            assert server is not None
            server.give_slot()


async def test_who_waits_longest_gets_the_first_place_of_any_replica(three: Three) -> None:
    async with replicas(*ports(three), max_in_flight=1, max_queued=2) as engine:
        held = [engine.place(asked()) for _ in range(3)]
        order: list[int] = []

        async def waits(number: int) -> None:
            await where(engine)
            order.append(number)

        async with asyncio.TaskGroup() as tasks:
            for number in range(2):
                tasks.create_task(waits(number))
                await asyncio.sleep(0)
            await until(lambda: engine.line.waiting == 2, "both wait")
            assert engine.load().queued == 2 and engine.admits(asked()).refusal is not None
            with pytest.raises(Unavailable) as full:
                await where(engine)
            assert full.value.kind is Kind.FULL
            last = held.pop()
            assert last is not None
            last.give_slot()
        assert order == [0, 1]
        for server in held:
            assert server is not None
            server.give_slot()


async def test_who_leaves_the_line_leaves_no_place_taken(three: Three) -> None:
    async with replicas(*ports(three), max_in_flight=1) as engine:
        held = [engine.place(asked()) for _ in range(3)]
        tasks = [asyncio.create_task(where(engine)) for _ in range(4)]
        await until(lambda: engine.line.waiting == 4, "all wait")
        tasks[0].cancel()
        for server in held:
            assert server is not None
            server.give_slot()
        # Given a place, and cancelled before it could run.
        tasks[1].cancel()
        results = await asyncio.gather(*tasks, return_exceptions=True)
        assert [isinstance(result, asyncio.CancelledError) for result in results] == [
            True,
            True,
            False,
            False,
        ]


async def test_those_that_wait_are_told_when_no_replica_may_be_asked_any_more(three: Three) -> None:
    async with replicas(*ports(three), max_in_flight=1) as engine:
        held = [engine.place(asked()) for _ in range(3)]
        tasks = [asyncio.create_task(where(engine)) for _ in range(3)]
        await until(lambda: engine.line.waiting == 3, "all wait")
        for server in engine.servers:
            server.drained = True
        for server in held:
            assert server is not None
            server.give_slot()
        results = await asyncio.gather(*tasks, return_exceptions=True)
        assert all(isinstance(result, Unavailable) for result in results)


# ---- attempts


@pytest.mark.parametrize("status", [401, 404, 429, 500, 502, 503])
async def test_a_failed_try_goes_to_another_replica_before_another_engine(three: Three, status: int) -> None:
    pool = three[:2]
    first: list[Upstream] = []

    def fails_once(upstream: Upstream) -> None:
        def script(call: Call) -> None:
            if not first:
                first.append(upstream)
                return refuses(status, Retry_After="1")(call)
            return says("The other.")(call)

        upstream.plays(script)

    for upstream in pool:
        fails_once(upstream)
    async with replicas(*ports(three)[:2]) as engine, plan(three[2].port) as others:
        attempts = Attempts([Try(engine, asked(stream=False)), *others])
        _, body = await read(attempts)
        assert text_of(body) == "The other." and attempts.index == 0
        assert [one.engine for one in attempts.trail] == ["pool", "pool"]
        assert {one.replica for one in attempts.trail} == {"r0", "r1"}
    assert not three[2].calls


async def test_no_more_tries_than_an_engine_has_and_then_the_next_engine(three: Three) -> None:
    for upstream in three[:2]:
        upstream.plays(refuses(503))
    async with replicas(three[0].port, three[1].port) as engine, plan(three[2].port) as others:
        attempts = Attempts([Try(engine, asked(stream=False)), *others])
        assert text_of((await read(attempts))[1]) == "Replica 2."
    assert [len(upstream.calls) for upstream in three] == [1, 1, 1]


async def test_a_request_that_is_wrong_or_too_long_is_asked_of_one_replica(three: Three) -> None:
    too_long = b'{"error":{"message":"prompt is too long"}}'
    for body in (b'{"error":{"message":"wrong"}}', too_long):
        for upstream in three:
            upstream.calls.clear()
            upstream.plays(refuses(400, body))
        async with replicas(*ports(three)) as engine:
            reply, said = await read(Attempts([Try(engine, asked(stream=False))]))
            assert (reply.status, said) == (400, body)
        assert sum(len(upstream.calls) for upstream in three) == 1


async def test_alone_the_only_replica_left_is_asked_again(three: Three) -> None:
    three[0].plays(lambda call: (refuses(500) if len(three[0].calls) == 1 else says("Well."))(call))
    async with replicas(*ports(three)) as engine:
        engine.servers[1].drained = engine.servers[2].drained = True
        assert text_of((await read(Attempts([Try(engine, asked(stream=False))])))[1]) == "Well."


async def test_a_limit_of_all_is_waited_for(three: Three) -> None:
    for upstream in three[:2]:
        upstream.plays(
            lambda call, upstream=upstream: (
                refuses(429, retry_after_ms="300") if len(upstream.calls) == 1 else says("Well.")
            )(call)
        )
    async with replicas(three[0].port, three[1].port, attempts=3) as engine:
        assert text_of((await read(Attempts([Try(engine, asked(stream=False))])))[1]) == "Well."


async def test_all_failing_the_first_failure_goes_out(three: Three) -> None:
    for place, upstream in enumerate(three):
        upstream.plays(refuses(503, b'{"error":{"message":"%d"}}' % place))
    async with replicas(*ports(three)) as engine:
        attempts = Attempts([Try(engine, asked(stream=False))])
        reply, _ = await read(attempts)
        assert reply.status == 503 and reply.replica == attempts.trail[0].replica
        await engine.aclose()
        for server in engine.servers:
            server.drained = True
        assert isinstance(await end_of(Attempts([Try(engine, asked(stream=False))])), EngineError)


async def test_a_broken_stream_goes_on_at_another_replica(three: Three) -> None:
    half = "One two three four five "
    broken: list[Upstream] = []

    def script(upstream: Upstream) -> None:
        def plays(call: Call) -> None:
            if not broken:
                broken.append(upstream)
                return breaks_after(half)(call)
            return says(WHOLE.removeprefix(call.json()["messages"][-1]["content"]).lstrip())(call)

        upstream.plays(plays)

    for upstream in three[:2]:
        script(upstream)
    async with (
        replicas(three[0].port, three[1].port, continues="prefill") as engine,
        plan(three[2].port, fields={"stream": True}) as others,
    ):
        attempts = Attempts([Try(engine, asked(stream=True)), *others], carry_on=True)
        _, body = await read(attempts)
        assert "".join(text_of(body).split()) == "".join(WHOLE.split())
        assert [one.kind for one in attempts.trail] == [Kind.BROKEN, None]
        assert {one.replica for one in attempts.trail} == {"r0", "r1"}
        assert [carried.engine.info.name for carried in attempts.carried_on] == ["pool"]
    assert not three[2].calls


async def test_what_must_not_move_is_asked_of_its_holder_alone(three: Three) -> None:
    async with replicas(*ports(three)) as engine:
        assert engine.only_where_stored("t", "id") == {"r1", "r2"}
        engine.stored("t", "id", "r2")
        assert engine.only_where_stored("t", "id") == {"r0", "r1"}
        assert engine.only_where_stored("another tenant", "id") == {"r1", "r2"}
        three[2].plays(refuses(503))
        held = replace(asked(stream=False), not_at=engine.only_where_stored("t", "id"))
        assert (await read(Attempts([Try(engine, held)])))[0].status == 503
        engine.servers[2].drained = True
        assert isinstance(await end_of(Attempts([Try(engine, held)])), Unavailable)
    assert not three[0].calls and not three[1].calls and len(three[2].calls) == 2


async def test_answers_are_checked_beside_a_replica(three: Three) -> None:
    first: list[int] = []

    def empty_once(call: Call) -> None:
        first.append(1)
        call.answer(b"" if len(first) == 1 else answer("Whole."))

    for upstream in three:
        upstream.plays(empty_once)
    async with replicas(*ports(three)) as engine:
        attempts = Attempts([Try(engine, asked(stream=False))])
        assert text_of((await read(attempts))[1]) == "Whole."
        assert attempts.trail[0].kind is Kind.INVALID
