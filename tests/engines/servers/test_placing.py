"""Steps of runs go where their prompts are cached, wait where that is sooner than computing anew, and are never stuck."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest

from engines.engine import EngineRequest
from engines.errors import EngineError
from engines.placement import Placement, Rank
from engines.servers.caps import Caps
from engines.servers.line import Seat
from engines.servers.prefixes import Prefix
from engines.servers.servers import Servers
from tests.engines.asking import chat, closed_port
from tests.engines.plans import says
from tests.engines.servers.replicas import replicas
from tests.flow.upstream import Upstream

LONG = "You write tests for Python programs. " * 200


@pytest.fixture
def three() -> Iterator[list[Upstream]]:
    made = [Upstream() for _ in range(3)]
    for upstream in made:
        upstream.plays(says("Done."))
    yield made
    for upstream in made:
        upstream.forget()
        upstream.close()


def step(
    task: str, *, template: str = LONG, rank: Rank = Rank.GROUP, tenant: str = "t", **fields: Any
) -> EngineRequest:
    """A step whose prompt is a template and a value."""
    asked = chat(messages=[{"role": "user", "content": template + task}], max_tokens=50, **fields)
    placement = Placement(rank, "run", boundaries=((0, len(template)),))
    return replace(asked, placement=placement, tenant=tenant)


async def seated(engine: Servers, request: EngineRequest) -> tuple[Seat, tuple[Prefix, ...]]:
    return engine.line.seat(request), await engine.placing.prefixes(request)


@asynccontextmanager
async def taken(
    engine: Servers, *requests: EngineRequest, computed: bool = False
) -> AsyncIterator[list[str]]:
    """The replicas at which these, one after the other, are given places, which they keep; `computed`: their prompts are."""
    held = []
    for request in requests:
        engine.line.counts = True
        seat, prefixes = await seated(engine, request)
        server = engine.place(request, seat, prefixes)
        assert server is not None
        held.append((server, seat))
        if computed:
            server.prompt_computed(seat)
    yield [server.name for server, _ in held]
    for server, seat in held:
        server.give_slot(seat)


async def where(engine: Servers, request: EngineRequest) -> str:
    async with engine.stream(request) as reply:
        async for _ in reply.chunks:
            pass
        return reply.replica


async def test_steps_of_one_template_meet_and_those_of_others_do_not(three: list[Upstream]) -> None:
    async with replicas(*(upstream.port for upstream in three)) as engine:
        templates = [f"{number}. {LONG}" for number in range(24)]
        first = [await where(engine, step("a", template=template)) for template in templates]
        again = [await where(engine, step("b", template=template)) for template in templates]
        assert again == first
        assert len(set(first)) == 3 and max(Counter(first).values()) <= 16


async def test_two_processes_send_cold_prefixes_to_the_same_replicas(three: list[Upstream]) -> None:
    ports = [upstream.port for upstream in three]
    async with replicas(*ports) as mine, replicas(*ports) as theirs:
        for number in range(12):
            asked = step("a", template=f"{number}. {LONG}")
            assert await where(mine, asked) == await where(theirs, asked)


async def test_another_tenants_prefix_counts_for_nothing(three: list[Upstream]) -> None:
    async with replicas(*(upstream.port for upstream in three)) as engine:
        await where(engine, step("a"))
        _, prefixes = await seated(engine, step("a", tenant="other"))
        assert prefixes
        assert not any(table.cached_tokens(prefixes) for table in engine.placing.tables.values())
        assert (await seated(engine, step("a", tenant="")))[1] == ()


async def test_a_group_spreads_when_one_replica_has_enough_of_it() -> None:
    async with replicas(1, 2, 3) as engine:
        async with taken(engine, *(step(f"{n}") for n in range(30))) as went:
            assert max(Counter(went).values()) < 20 and len(set(went)) == 3


async def test_a_step_waits_for_the_replica_that_has_its_prompt_and_the_next_does_not(
    three: list[Upstream],
) -> None:
    """One whose prompt is dear to compute waits for a short answer to end; one without such a prompt goes elsewhere."""
    book = LONG * 20
    async with replicas(*(upstream.port for upstream in three), max_in_flight=1) as engine:
        at = await where(engine, step("a", template=book, rank=Rank.LATENCY))
        warm = next(server for server in engine.servers if server.name == at)
        held = engine.line.seat(step("x"))
        assert warm.took_slot(held)
        waits = asyncio.create_task(where(engine, step("b", template=book, rank=Rank.LATENCY)))
        await asyncio.sleep(0.05)
        assert engine.line.waiting == 1 and engine.line.keeps(warm)
        assert await where(engine, step("c", template="short")) != at
        warm.give_slot(held)
        assert await waits == at


async def test_plain_calls_gather_where_they_bring_a_lower_cap_and_spread_where_they_do_not() -> None:
    plain = [chat(max_tokens=200) for _ in range(4)]
    async with replicas(1, 2, 3, caps=Caps(10_000, 4_000)) as engine:
        async with taken(engine, *plain) as went:
            assert len(set(went)) == 1
    async with replicas(1, 2, 3) as engine:
        async with taken(engine, *plain) as went:
            assert len(set(went)) == 3


async def test_a_step_goes_where_the_caps_let_it_in() -> None:
    async with replicas(1, 2, caps=Caps(3_000)) as engine:
        async with taken(engine, step("a"), step("b")) as went:
            assert len(set(went)) == 2


async def test_one_that_has_waited_long_takes_any_place() -> None:
    now = [0.0]
    async with replicas(1, 2, max_in_flight=1, clock=lambda: now[0]) as engine:
        book = step("a", template=LONG * 20, rank=Rank.LATENCY)
        async with taken(engine, book, computed=True) as went:
            seat, prefixes = await seated(engine, book)
            assert engine.place(book, seat, prefixes) is None
            now[0] += 60.0
            server = engine.place(book, seat, prefixes)
            assert server is not None and server.name != went[0]
            server.give_slot(seat)


async def test_where_none_is_free_for_one_that_waited_long_the_emptiest_is_kept_for_it() -> None:
    now = [0.0]
    async with replicas(1, 2, caps=Caps(3_000), clock=lambda: now[0]) as engine:
        small = [replace(chat(), placement=Placement(expected_tokens=size)) for size in (2_500, 1_500)]
        async with taken(engine, *small) as went:
            large = replace(step("x"), placement=Placement(Rank.GROUP, "run", expected_tokens=2_900))
            seat, prefixes = await seated(engine, large)
            now[0] += 60.0
            assert engine.place(large, seat, prefixes) is None
            kept = [server.name for server in engine.servers if engine.line.keeps(server)]
            assert kept == [went[1]]
        engine.line.look()


async def test_what_was_found_is_told(three: list[Upstream]) -> None:
    async with replicas(*(upstream.port for upstream in three)) as engine:
        told: list[tuple[str, int, int]] = []
        engine.placing.on_placed = lambda *what: told.append(what)
        at = await where(engine, step("a"))
        assert await where(engine, step("b")) == at
        (_, prompt, none), (replica, _, found) = told
        assert (replica, none) == (at, 0) and 0 < found <= prompt


async def test_what_was_cached_is_gone_when_a_server_was_down(three: list[Upstream]) -> None:
    async with replicas(closed_port(), closed_port()) as engine:
        for _ in range(2):
            with pytest.raises(EngineError):
                await where(engine, step("a"))
        assert all(len(table) == 0 for table in engine.placing.tables.values())


async def test_prompts_on_a_thread_have_the_same_prefixes() -> None:
    async with replicas(1, 2) as engine:
        small, large = step("a"), step("a", user="x" * 100_000)
        _, on_loop = await seated(engine, small)
        _, on_thread = await seated(engine, large)
        assert on_loop == on_thread and all(isinstance(one, Prefix) for one in on_loop)


async def test_a_cache_is_as_large_as_the_server_says_or_as_the_cap() -> None:
    async with replicas(1, 2, caps=Caps(3_000)) as engine:
        async with taken(engine, step("a")):
            assert {table.capacity_tokens for table in engine.placing.tables.values()} == {3_000}
