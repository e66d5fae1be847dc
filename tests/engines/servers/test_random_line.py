"""Whatever comes, ends, leaves and fails in whatever order: everybody is served or told, nobody twice, and caps hold."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from engines.engine import EngineRequest
from engines.errors import Unavailable
from engines.placement import Placement, Rank
from engines.servers.caps import Caps
from engines.servers.server import Server
from engines.servers.servers import Servers
from engines.servers.stream import ServerStream
from tests.engines.asking import chat
from tests.engines.servers.replicas import replicas

REPLICAS = 3
LONG = "The same beginning of many prompts. " * 20
REQUESTS = st.builds(
    lambda rank, run, tokens, left, tenant, app: replace(
        chat(messages=[{"role": "user", "content": f"{app}{LONG}"}]),
        tenant=tenant,
        placement=Placement(rank, run, depth=0, work_left=left, expected_tokens=tokens),
    ),
    st.sampled_from(Rank),
    st.sampled_from(["", "r", "s"]),
    st.integers(1, 200),
    st.sampled_from([0.0, 50.0, 500.0]),
    st.sampled_from(["a", "b"]),
    st.sampled_from("xyz"),
)
ACTIONS = st.one_of(
    st.tuples(st.just("asks"), REQUESTS),
    st.tuples(st.just("ends"), st.integers(0, 50)),
    st.tuples(st.just("leaves"), st.integers(0, 50)),
    st.tuples(st.just("drains"), st.integers(0, REPLICAS - 1)),
    st.tuples(st.just("waits"), st.floats(0, 40)),
    st.tuples(st.just("moves"), st.sampled_from(Rank)),
)
CAPS = st.builds(Caps, st.sampled_from([None, 150, 400]), st.sampled_from([None, 100]))


class Room:
    """Requests that hold places until they are told to end."""

    def __init__(self, engine: Servers) -> None:
        self.engine = engine
        self.tasks: list[asyncio.Task[None]] = []
        self.inside: list[asyncio.Event] = []
        self.served = self.told = self.left = 0

    async def ask(self, request: EngineRequest) -> None:
        stream = ServerStream(self.engine, request)
        try:
            await stream._choose()
        except Unavailable:
            self.told += 1
            return
        server, seat = stream._server, stream._seat
        over = asyncio.Event()
        self.inside.append(over)
        try:
            self.check(server)
            await over.wait()
            self.served += 1
        finally:
            self.inside = [one for one in self.inside if one is not over]
            server.give_slot(seat)

    def check(self, server: Server) -> None:
        held, caps = server.held, server.held.caps
        assert held.requests <= server.in_flight
        assert held.requests == server.in_flight or not caps.any
        if held.requests > 1 and caps.tokens is not None:
            assert held.tokens <= caps.tokens

    async def act(self, what: str, with_: Any, now: list[float]) -> None:
        if what == "asks":
            self.tasks.append(asyncio.create_task(self.ask(with_)))
        elif what == "ends" and self.inside:
            self.inside[with_ % len(self.inside)].set()
        elif what == "leaves" and (left := [task for task in self.tasks if not task.done()]):
            left[with_ % len(left)].cancel()
            self.left += 1
        elif what == "drains":
            server = self.engine.servers[with_]
            server.drained = not server.drained
        elif what == "waits":
            now[0] += with_
        elif what == "moves":
            self.engine.line.move(lambda placed: replace(placed, rank=with_) if placed.run else placed)
        for _ in range(3):
            await asyncio.sleep(0)

    async def close(self) -> None:
        """All that wait are served, once nobody else comes and places are given back."""
        for server in self.engine.servers:
            server.drained = False
        self.engine.line.look()
        for _ in range(3 * len(self.tasks) + 3):
            await asyncio.sleep(0)
            for over in self.inside:
                over.set()
        results = await asyncio.wait_for(asyncio.gather(*self.tasks, return_exceptions=True), 30)
        left = sum(isinstance(result, asyncio.CancelledError) for result in results)
        assert not [r for r in results if r is not None and not isinstance(r, asyncio.CancelledError)]
        assert self.served + self.told + left == len(self.tasks)


@settings(deadline=None, max_examples=100)
@given(st.lists(ACTIONS, max_size=60), CAPS, st.integers(1, 4))
def test_everybody_is_served_or_told(actions: list[tuple[str, Any]], caps: Caps, places: int) -> None:
    async def run() -> None:
        now = [0.0]
        async with replicas(
            *range(1, REPLICAS + 1),
            max_in_flight=places,
            max_queued=10,
            caps=caps,
            clock=lambda: now[0],
        ) as engine:
            room = Room(engine)
            for what, with_ in actions:
                await room.act(what, with_, now)
            await room.close()
            assert all(server.held.tokens == server.held.to_compute_tokens == 0 for server in engine.servers)

    asyncio.run(run())
