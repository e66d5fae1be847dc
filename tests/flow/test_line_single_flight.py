"""The same request, asked by several at once, over real sockets: the upstream is asked once, and everybody is answered."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from tests.flow.line import Asked, Got, Line, Upstream, completion, events, line
from tests.flow.line import upstream as scripted
from tests.patience import until

EXACT_ONLY = {"examples": {"enabled": False}}
COLLAPSED = "understudy; fwd=miss; collapsed"
DONE = b"data: [DONE]\n\n"


class Gated(Upstream):
    """One that answers in two halves: the head and the first word at once, the rest when the gate is opened."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = asyncio.Event()
        self.end = asyncio.Event()
        """Opened, unless a test keeps a body open behind its last event."""
        self.end.set()
        self.left = 0
        """Answers that the gateway did not wait for."""
        self.before_head = False
        """Whether even the head waits for the gate."""
        self.answers: list[web.Response] = []
        """What is answered instead, one by one."""
        self.headers: dict[str, str] = {}
        self.script = self._answer

    async def _answer(self, request: web.Request, asked: Asked) -> web.StreamResponse:
        number = len(self.asked)
        if self.before_head or not asked.json.get("stream"):
            await self._opened(request)
        if number <= len(self.answers):
            return self.answers[number - 1]
        if not asked.json.get("stream"):
            return web.json_response(completion(self.says), headers=self.headers)
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream", **self.headers})
        await response.prepare(request)
        first, *rest = events(self.says, usage=False)
        await response.write(first)
        await self._opened(request)
        for event in [*rest, DONE]:
            await response.write(event)
        await until(self.end.is_set, "the end of the body")
        return response

    async def _opened(self, request: web.Request) -> None:
        await until(lambda: self.gate.is_set() or request.transport is None, "the gate open")
        self.left += not self.gate.is_set()


@pytest.fixture
async def behind() -> AsyncIterator[Gated]:
    made = Gated()
    async with scripted() as plain:
        # The server of the plain one, with our script.
        plain.script = made._answer
        made.url, made.asked = plain.url, plain.asked
        yield made
        made.gate.set()
        made.end.set()


@asynccontextmanager
async def gateway(behind: Upstream, data: Path, **advanced: Any) -> AsyncIterator[Line]:
    memory = {"data_dir": str(data), "advanced": advanced, **EXACT_ONLY}
    async with line({"upstream": {"base_url": behind.url}, "memory": memory}) as made:
        yield made


@pytest.fixture
async def gate(behind: Gated, tmp_path: Path) -> AsyncIterator[Line]:
    async with gateway(behind, tmp_path) as made:
        yield made


def body(**fields: Any) -> dict[str, Any]:
    return {"model": "m", "messages": [{"role": "user", "content": "Q"}]} | fields


async def under_way(gate: Line, number: int) -> None:
    """Wait until so many requests are in the gateway."""
    metrics = gate.gateway.metrics
    await until(
        lambda: metrics.registry.get_sample_value("understudy_in_flight") == number, f"{number} requests in"
    )


@asynccontextmanager
async def together(
    gate: Line, number: int, headers: dict[str, str] | None = None, **fields: Any
) -> AsyncIterator[list[asyncio.Task[Got]]]:
    """So many of the same request, all in the gateway."""
    async with asyncio.TaskGroup() as tasks:
        asked = [
            tasks.create_task(gate.post("/chat/completions", body(**fields), headers)) for _ in range(number)
        ]
        await under_way(gate, number)
        yield asked


async def count(gate: Line, outcome: str) -> float:
    registry = gate.gateway.metrics.registry
    return sum(
        sample.value
        for family in registry.collect()
        for sample in family.samples
        if sample.name == "understudy_requests_total" and sample.labels["outcome"] == outcome
    )


@pytest.mark.parametrize("stream", [False, True])
async def test_the_upstream_is_asked_once_for_all_of_them(gate: Line, behind: Gated, stream: bool) -> None:
    async with together(gate, 20, stream=stream) as asked:
        behind.gate.set()
    got = [await each for each in asked]
    assert len(behind.asked) == 1
    assert len({each.body for each in got}) == 1 and got[0].text == "Forty-two."
    said = sorted(each.headers["Cache-Status"] for each in got)
    assert said == ["understudy; fwd=miss"] + [COLLAPSED] * 19
    assert len({each.headers["x-understudy-decision-id"] for each in got}) == 20
    assert await count(gate, "hit") == 19 and await count(gate, "answered") == 1
    assert (await gate.post("/chat/completions", body(stream=stream))).hit


async def test_they_are_told_apart_in_the_request_log(gate: Line, behind: Gated) -> None:
    async with together(gate, 3):
        behind.gate.set()
    memory = gate.gateway.memory
    assert memory is not None and memory.requests is not None
    assert sorted(row.reason for row in memory.requests.recent()) == ["in_flight", "in_flight", "not_listed"]


class Stream:
    """A client's stream, read as far as a test wants."""

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self.response = response
        self.seen = b""

    async def until(self, mark: bytes) -> None:
        while mark not in self.seen:
            chunk = await self.response.content.readany()
            assert chunk, self.seen
            self.seen += chunk

    async def rest(self) -> bytes:
        self.seen += await self.response.content.read()
        return self.seen


async def streams(stack: AsyncExitStack, gate: Line, number: int) -> list[Stream]:
    """So many of the same stream, begun one after the other, each of which has seen the first chunk."""
    found = []
    for _ in range(number):
        post = gate.session.post(gate.url + "/chat/completions", json=body(stream=True))
        stream = Stream(await stack.enter_async_context(post))
        await stream.until(b"assistant")
        found.append(stream)
    return found


async def test_who_follows_a_stream_gets_its_chunks_as_they_come(gate: Line, behind: Gated) -> None:
    async with AsyncExitStack() as stack:
        found = await streams(stack, gate, 3)
        assert not behind.gate.is_set(), "all of them have begun before the upstream has ended"
        behind.gate.set()
        said = [await stream.rest() for stream in found]
    assert len(behind.asked) == 1
    assert len(set(said)) == 1 and said[0].endswith(DONE)


async def test_who_follows_and_leaves_at_the_last_event_has_been_answered(gate: Line, behind: Gated) -> None:
    behind.end.clear()
    async with AsyncExitStack() as stack:
        _, follower = await streams(stack, gate, 2)
        behind.gate.set()
        await follower.until(DONE)
        follower.response.close()
        await under_way(gate, 1)
        assert await count(gate, "hit") == 1 and await count(gate, "aborted") == 0


async def test_a_leader_that_leaves_goes_on_for_those_who_follow(
    gate: Line, behind: Gated, noticed: asyncio.Event
) -> None:
    async with AsyncExitStack() as stack:
        leader, *others = await streams(stack, gate, 3)
        leader.response.close()
        await noticed.wait()
        behind.gate.set()
        for other in others:
            assert (await other.rest()).endswith(DONE)
    await gate.settled()
    assert len(behind.asked) == 1 and behind.left == 0
    assert (await gate.post("/chat/completions", body())).hit, "and its answer is remembered"


@pytest.mark.parametrize("stream", [False, True])
async def test_a_leader_that_leaves_before_there_is_an_answer_goes_on_too(
    gate: Line, behind: Gated, noticed: asyncio.Event, stream: bool
) -> None:
    behind.before_head = True
    leader = asyncio.ensure_future(gate.post("/chat/completions", body(stream=stream)))
    await under_way(gate, 1)
    follower = asyncio.ensure_future(gate.post("/chat/completions", body(stream=stream)))
    await under_way(gate, 2)
    leader.cancel()
    await noticed.wait()
    behind.gate.set()
    assert (await follower).text == "Forty-two."
    assert len(behind.asked) == 1 and behind.left == 0


@pytest.mark.parametrize("stream", [False, True])
async def test_when_all_have_left_the_upstream_is_left(gate: Line, behind: Gated, stream: bool) -> None:
    asked = []
    for number in range(1, 4):
        asked.append(asyncio.ensure_future(gate.post("/chat/completions", body(stream=stream))))
        await under_way(gate, number)
    await until(lambda: len(behind.asked) == 1, "the upstream asked")
    for each in asked:
        each.cancel()
    await until(lambda: behind.left == 1, "the upstream left")
    await under_way(gate, 0)
    behind.gate.set()
    assert not (await gate.post("/chat/completions", body(stream=stream))).hit


async def test_a_leader_that_fails_hands_over_to_one_of_those_who_follow(gate: Line, behind: Gated) -> None:
    behind.answers = [web.json_response({"error": {"message": "no"}}, status=500)]
    async with together(gate, 10) as asked:
        behind.gate.set()
    got = [await each for each in asked]
    assert len(behind.asked) == 2
    assert sorted(each.status for each in got) == [200] * 9 + [500]


async def test_an_upstream_that_only_fails_fails_everybody(gate: Line, behind: Gated) -> None:
    failures = [web.json_response({"error": {"message": "no"}}, status=500) for _ in range(10)]
    behind.answers = failures
    async with together(gate, 10) as asked:
        behind.gate.set()
    assert [(await each).status for each in asked] == [500] * 10


async def test_a_stream_that_breaks_breaks_for_everybody_who_has_begun(behind: Gated, tmp_path: Path) -> None:
    async def breaks(request: web.Request, asked: Asked) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        await response.write(events("Forty two", usage=False)[0])
        await behind.gate.wait()
        assert request.transport is not None
        request.transport.abort()
        return response

    async with scripted() as broken:
        broken.script = breaks
        config = {
            "engines": {"e": {"base_url": broken.url}},
            "models": {"m": {"engines": ["e"], "advanced": {"continue_broken": False}}},
            "memory": {"data_dir": str(tmp_path / "other"), **EXACT_ONLY},
        }
        async with line(config) as other, AsyncExitStack() as stack:
            found = await streams(stack, other, 3)
            behind.gate.set()
            for stream in found:
                await stream.until(b'"error"')
                assert DONE not in stream.seen
        assert len(broken.asked) == 1


@pytest.mark.parametrize(
    ("headers", "fields"),
    [
        ({"Cache-Control": "no-store"}, {}),
        ({"Cache-Control": "no-cache"}, {}),
        ({"x-understudy-examples": "0"}, {}),
        ({}, {"store": False}),
        ({}, {"temperature": 1}),
        ({}, {"tools": [{"type": "function", "function": {"name": "f"}}]}),
    ],
)
async def test_who_wants_an_answer_of_its_own_gets_one(
    gate: Line, behind: Gated, headers: dict[str, str], fields: dict[str, Any]
) -> None:
    async with together(gate, 3, headers, **fields):
        behind.gate.set()
    assert len(behind.asked) == 3


async def test_two_clients_with_different_credentials_do_not_follow_one_another(
    gate: Line, behind: Gated
) -> None:
    async with asyncio.TaskGroup() as tasks:
        for name in ("alice", "bob"):
            tasks.create_task(gate.post("/chat/completions", body(), {"Authorization": f"Bearer sk-{name}"}))
        await under_way(gate, 2)
        behind.gate.set()
    assert len(behind.asked) == 2


async def test_an_answer_that_its_upstream_keeps_to_one_client_is_not_shared(
    gate: Line, behind: Gated
) -> None:
    behind.headers = {"Cache-Control": "private"}
    async with together(gate, 3) as asked:
        behind.gate.set()
    assert len(behind.asked) == 3
    assert COLLAPSED not in [(await each).headers["Cache-Status"] for each in asked]


async def test_who_wants_another_form_gets_it_from_memory(gate: Line, behind: Gated) -> None:
    async with AsyncExitStack() as stack:
        (leader,) = await streams(stack, gate, 1)
        follower = asyncio.ensure_future(gate.post("/chat/completions", body()))
        await under_way(gate, 2)
        behind.gate.set()
        await leader.rest()
        got = await follower
    assert got.hit and got.text == "Forty-two." and len(behind.asked) == 1


USAGE = {"stream": True, "stream_options": {"include_usage": True}}


async def test_who_wants_usage_waits_for_no_stream_that_tells_none(gate: Line, behind: Gated) -> None:
    async with AsyncExitStack() as stack:
        (leader,) = await streams(stack, gate, 1)
        others = [asyncio.ensure_future(gate.post("/chat/completions", body(**USAGE))) for _ in range(5)]
        await under_way(gate, 6)
        await until(lambda: len(behind.asked) == 2, "one of them asks while the first answer is under way")
        behind.gate.set()
        await leader.rest()
        got = [await other for other in others]
    assert len(behind.asked) == 2, "and the rest follow that one"
    assert [each.headers["Cache-Status"] for each in got].count(COLLAPSED) == 4


@pytest.mark.parametrize("leads", [USAGE, {}], ids=["a stream that tells usage", "no stream"])
async def test_who_wants_another_form_that_memory_can_give_waits_for_it(
    gate: Line, behind: Gated, leads: dict[str, Any]
) -> None:
    other = {"stream": True} if leads else USAGE
    leading = asyncio.ensure_future(gate.post("/chat/completions", body(**leads)))
    await until(lambda: len(behind.asked) == 1, "the upstream asked")
    following = asyncio.ensure_future(gate.post("/chat/completions", body(**other)))
    await under_way(gate, 2)
    behind.gate.set()
    assert not (await leading).hit and (await following).hit and len(behind.asked) == 1


PRIVATE = {"Cache-Control": "private"}


@pytest.mark.parametrize(
    ("headers", "says"), [(PRIVATE, "word"), ({}, "word " * 1000)], ids=["private", "too long"]
)
async def test_who_wants_another_form_waits_for_no_answer_that_will_not_be_kept(
    behind: Gated, tmp_path: Path, headers: dict[str, str], says: str
) -> None:
    """The answer that is under way begins after both are there, and does not end."""

    async def answer(request: web.Request, asked: Asked) -> web.StreamResponse:
        if not asked.json.get("stream"):
            return web.json_response(completion("Forty-two."))
        await behind.gate.wait()
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream", **headers})
        await response.prepare(request)
        for event in events(says, usage=False)[:-1]:
            await response.write(event)
        await behind.end.wait()
        return response

    behind.end.clear()
    async with scripted() as plain, gateway(plain, tmp_path, exact_max_entry_kib=1) as gate:
        plain.script = answer
        url = gate.url + "/chat/completions"
        leading = asyncio.ensure_future(gate.session.post(url, json=body(stream=True)))
        await until(lambda: len(plain.asked) == 1, "the upstream asked")
        following = asyncio.ensure_future(gate.session.post(url, json=body()))
        await under_way(gate, 2)
        behind.gate.set()
        async with asyncio.timeout(20):
            follower = await following
        assert (await follower.json())["choices"][0]["message"]["content"] == "Forty-two."
        behind.end.set()
        (await leading).close()
