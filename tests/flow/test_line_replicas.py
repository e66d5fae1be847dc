"""One engine behind several base URLs, over real sockets: who answers, who answers instead, and how that is told."""

from __future__ import annotations

import asyncio
import json
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import aiohttp
import pytest
from aiohttp import web

from tests.flow.line import Asked, Line, Script, Upstream, completion, events, line, upstream
from tests.flow.process import running
from tests.flow.replica_server import TEXT, WORD_S, replica_servers
from tests.patience import PATIENCE_S, until

pytestmark = pytest.mark.slow


@dataclass
class Several:
    """A gateway before several servers, which are one engine."""

    gate: Line
    servers: list[Upstream]

    @property
    def names(self) -> list[str]:
        return [urlsplit(server.url).netloc for server in self.servers]

    def shares(self) -> list[int]:
        return [sum("/chat/" in asked.path for asked in server.asked) for server in self.servers]

    def rows(self) -> list[Any]:
        memory = self.gate.gateway.memory
        assert memory is not None
        return memory.store.decisions.requests.recent(20)


@asynccontextmanager
async def several(
    tmp_path: Path, count: int = 3, *, others: int = 0, urls: Any = None, **engine: Any
) -> AsyncIterator[Several]:
    """`urls`: made of the servers' URLs what stands in the configuration; `others`: further engines, of one server each."""
    async with AsyncExitStack() as stack:
        servers = [await stack.enter_async_context(upstream()) for _ in range(count + others)]
        given = [server.url for server in servers[:count]]
        engines: dict[str, Any] = {"pool": {"base_urls": urls(given) if urls else given, **engine}}
        for number, server in enumerate(servers[count:]):
            server.says = "From another engine."
            engines[f"other{number}"] = {"base_url": server.url}
        config = {
            "engines": engines,
            "models": {"gpt-4o": {"engines": [*list(engines)[1:], "pool"]}},
            "memory": {"data_dir": str(tmp_path / "data"), "examples": {"enabled": False}},
            "health": {"every_s": None},
        }
        gate = await stack.enter_async_context(line(config))
        yield Several(gate, servers)


def fails(status: int = 503) -> Script:
    async def script(request: web.Request, asked: Asked) -> web.StreamResponse:
        return web.json_response({"error": {"message": "no"}}, status=status)

    return script


def late(seconds: float) -> Script:
    async def script(request: web.Request, asked: Asked) -> web.StreamResponse:
        await asyncio.sleep(seconds)
        return web.json_response(completion("Late."))

    return script


async def test_requests_at_once_are_spread_over_all(tmp_path: Path) -> None:
    async with several(tmp_path) as here:
        for server in here.servers:
            server.script = late(0.3)
        got = await asyncio.gather(*(here.gate.chat(f"Question {n}?") for n in range(9)))
        assert {one.text for one in got} == {"Late."} and here.shares() == [3, 3, 3]
        assert {one.headers["x-understudy-engine"] for one in got} == {"pool"}


@pytest.mark.parametrize("status", [401, 429, 500, 503])
async def test_what_one_replica_refuses_another_answers_and_it_is_no_failing_over(
    tmp_path: Path, status: int
) -> None:
    async with several(tmp_path, 2, others=1) as here:
        # Whichever is asked first fails; the other is well.
        asked_first = asyncio.Event()

        async def once(request: web.Request, asked: Asked) -> web.StreamResponse:
            if not asked_first.is_set():
                asked_first.set()
                return await fails(status)(request, asked)
            return web.json_response(completion("Well."))

        for server in here.servers[:2]:
            server.script = once
        got = await here.gate.chat("Who is well?")
        assert got.text == "Well." and "x-understudy-failed-over" not in got.headers
        assert here.shares() == [1, 1, 0]
        (row,) = here.rows()
        assert (row.engine, row.failed_over) == ("pool", "")
        tried = json.loads(row.trail)["tried"]
        assert [one["engine"] for one in tried] == ["pool", "pool"]
        assert {one["replica"] for one in tried} == set(here.names[:2])
        assert [one["kind"] is None for one in tried] == [False, True]


async def test_a_stream_that_breaks_before_its_first_data_goes_on_at_another_replica(tmp_path: Path) -> None:
    def preferred(urls: list[str]) -> list[Any]:
        return [{"url": urls[0], "weight": 1000}, urls[1]]

    async def role_only(request: web.Request, asked: Asked) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        await response.write(events("", usage=False)[0])
        await asyncio.sleep(0.05)
        assert request.transport is not None
        request.transport.abort()
        return response

    async with several(tmp_path, 2, urls=preferred) as here:
        here.servers[0].script = role_only
        got = await here.gate.chat("Who is well?", stream=True)
        assert got.status == 200 and "Forty-two." in got.body.decode()
        assert here.shares() == [1, 1]


async def test_another_engine_answers_once_the_tries_of_this_one_are_used_up(tmp_path: Path) -> None:
    async with several(tmp_path, 3, others=1) as here:
        for server in here.servers[:3]:
            server.script = fails()
        got = await here.gate.chat("Who is well?")
        assert got.text == "From another engine."
        assert got.headers["x-understudy-failed-over"].startswith("pool@127.0.0.1:")
        assert sorted(here.shares()) == [0, 1, 1, 1]


async def test_more_tries_ask_more_replicas(tmp_path: Path) -> None:
    async with several(tmp_path, 3, advanced={"attempts": 3}) as here:
        for server in here.servers[:2]:
            server.script = fails()
        for number in range(6):
            assert (await here.gate.chat(f"Question {number}?")).text == "Forty-two."


async def test_one_of_weight_0_answers_only_where_no_other_may(tmp_path: Path) -> None:
    async with several(
        tmp_path,
        2,
        urls=lambda urls: [{"url": urls[0], "weight": 0}, urls[1]],
        advanced={"breaker_open_s": 60},
    ) as here:
        for number in range(4):
            await here.gate.chat(f"Question {number}?")
        assert here.shares() == [0, 4]
        here.servers[1].script = fails()
        for number in range(8):
            assert (await here.gate.chat(f"Further question {number}?")).text == "Forty-two."
        # The breaker opens after five failures.
        assert here.shares() == [8, 9]


async def test_each_replica_has_its_own_key(tmp_path: Path) -> None:
    def urls(given: list[str]) -> list[Any]:
        return [{"url": given[0], "api_key": "sk-first"}, given[1]]

    async with several(tmp_path, 2, urls=urls, api_key="sk-engine") as here:
        for number in range(4):
            await here.gate.chat(f"Question {number}?", {"Authorization": "Bearer sk-client"})
        for server, key in zip(here.servers, ("sk-first", "sk-engine"), strict=True):
            assert {asked.headers["Authorization"] for asked in server.asked} == {f"Bearer {key}"}


async def test_those_that_wait_get_the_first_place_of_any_replica(tmp_path: Path) -> None:
    async with several(tmp_path, 2, max_in_flight=1) as here:
        here.servers[0].script = late(1.0)
        here.servers[1].script = late(0.05)
        got = await asyncio.gather(*(here.gate.chat(f"Question {n}?") for n in range(8)))
        assert {one.status for one in got} == {200}
        assert here.shares()[0] <= 2
        async with several(tmp_path / "none", 2, max_in_flight=1, advanced={"max_queued": 1}) as full:
            for server in full.servers:
                server.script = late(1.0)
            statuses = await asyncio.gather(*(full.gate.chat(f"Question {n}?") for n in range(4)))
            assert Counter(one.status for one in statuses) == {200: 3, 503: 1}


async def test_a_named_session_stays_at_one_replica(tmp_path: Path) -> None:
    async with several(tmp_path) as here:
        for name in range(12):
            before = here.shares()
            for turn in range(3):
                how = {"x-understudy-session": f"session {name}"} if turn % 2 else {}
                more = {} if turn % 2 else {"prompt_cache_key": f"session {name}"}
                await here.gate.chat(f"Question {name}, {turn}?", how, **more)
            assert sorted(now - was for now, was in zip(here.shares(), before, strict=True)) == [0, 0, 3]
        assert all(here.shares())
        assert (await here.gate.chat("Question?", {"x-understudy-session": "x" * 257})).status == 400


async def test_an_unnamed_session_goes_on_where_it_was_answered(tmp_path: Path) -> None:
    async with several(tmp_path) as here:
        for server in here.servers:
            server.script = late(0.3)
        first = [[{"role": "user", "content": f"Topic {number}."}] for number in range(9)]
        await asyncio.gather(*map(here.gate.chat, first))
        assert here.shares() == [3, 3, 3]
        where = {
            asked.json["messages"][0]["content"]: place
            for place, server in enumerate(here.servers)
            for asked in server.asked
        }
        for server in here.servers:
            server.script = None
        for messages in first:
            turns = messages
            for turn in range(3):
                before = here.shares()
                answered = {"role": "assistant", "content": "Late."}
                turns = [*turns, answered, {"role": "user", "content": f"And {turn}?"}]
                await here.gate.chat(turns)
                came = [now - was for now, was in zip(here.shares(), before, strict=True)]
                assert came[where[messages[0]["content"]]] == sum(came) == 1


async def test_what_names_a_stored_answer_goes_where_that_is_and_nowhere_else(tmp_path: Path) -> None:
    async with several(tmp_path) as here:

        def answers(place: int) -> Script:
            async def script(request: web.Request, asked: Asked) -> web.StreamResponse:
                return web.json_response(
                    {"id": f"resp_{place}_{len(here.servers[place].asked)}", "output": []}
                )

            return script

        for place, server in enumerate(here.servers):
            server.script = answers(place)
        asked = ({"model": "gpt-4o", "input": f"Question {number}?"} for number in range(6))
        got = await asyncio.gather(*(here.gate.post("/responses", one) for one in asked))
        ids = [one.json["id"] for one in got]
        assert {one.split("_")[1] for one in ids} == {"0", "1", "2"}
        for one in ids:
            place = int(one.split("_")[1])
            for held in (one, {"id": one}):
                name = "previous_response_id" if isinstance(held, str) else "conversation"
                more = await here.gate.post("/responses", {"model": "gpt-4o", "input": "More?", name: held})
                assert more.json["id"].startswith(f"resp_{place}_")
        unknown = {"model": "gpt-4o", "input": "More?", "previous_response_id": "resp_of_yesterday"}
        assert (await here.gate.post("/responses", unknown)).json["id"].startswith("resp_0_")
        before = [len(server.asked) for server in here.servers]
        here.servers[0].script = fails()
        assert (await here.gate.post("/responses", unknown)).status == 503
        came = [len(server.asked) - was for server, was in zip(here.servers, before, strict=True)]
        assert came[0] and came[1:] == [0, 0]


async def test_embeddings_are_answered_by_another_replica(tmp_path: Path) -> None:
    async with several(tmp_path, 2) as here:
        here.servers[0].script = fails()
        for number in range(4):
            got = await here.gate.post("/embeddings", {"model": "gpt-4o", "input": f"text {number}"})
            assert got.status == 200 and "x-understudy-failed-over" not in got.headers


async def test_metrics_readiness_and_drains_are_by_replica(tmp_path: Path) -> None:
    async with several(tmp_path, 2) as here:
        memory = here.gate.gateway.memory
        assert memory is not None
        states = memory.store.jobs.engine_states
        await here.gate.chat("Question?")
        first, second = here.names
        states.drain("pool", "somebody", "", first).result(PATIENCE_S)

        def told() -> str:
            return here.gate.gateway.metrics.exposition().decode()

        series = 'understudy_engine_state{engine="pool",replica="%s",state="%s"} 1.0'
        await until(lambda: series % (first, "drained") in told(), "the drain shows")
        rows = states.now(time.time())
        assert {row.replica for row in rows} == {first, second} and {row.engine for row in rows} == {"pool"}
        before = here.shares()
        for number in range(4):
            assert (await here.gate.chat(f"Further question {number}?")).status == 200
        assert (here.shares()[0], here.shares()[1]) == (before[0], before[1] + 4)
        assert not here.gate.gateway.problems()
        await until(lambda: series % (second, "up") in told(), "the other is up")
        states.drain("pool", "somebody", "", second).result(PATIENCE_S)
        await until(here.gate.gateway.problems, "nobody answers")
        states.restore("pool").result(PATIENCE_S)
        await until(lambda: not here.gate.gateway.problems(), "both are back")


CONFIG = """
listen: {{port: 0, workers: {workers}, grace_s: 1}}
log: {{requests: false}}
engines:
  pool: {{kind: vllm, model: m, base_urls: [{urls}]}}
models:
  m: {{engines: [pool]}}
"""


@pytest.mark.parametrize("workers", [1, 2])
async def test_a_replica_is_killed_under_streams_and_all_of_them_complete(
    tmp_path: Path, workers: int
) -> None:
    with replica_servers(3) as servers:
        urls = ", ".join(f"http://127.0.0.1:{port}/v1" for _, port in servers)
        config = tmp_path / "config.yaml"
        config.write_text(CONFIG.format(workers=workers, urls=urls))
        with ExitStack() as stack:
            run = running("--config", str(config), workers=workers)
            gateway = await asyncio.to_thread(stack.enter_context, run)
            async with aiohttp.ClientSession() as session, asyncio.TaskGroup() as streams:
                tasks = [streams.create_task(streamed(session, gateway.url, n)) for n in range(20)]
                await asyncio.sleep(WORD_S * 12)
                servers[0][0].kill()
            assert {task.result() for task in tasks} == {TEXT}


async def streamed(session: aiohttp.ClientSession, url: str, number: int) -> str:
    body = {"model": "m", "stream": True, "messages": [{"role": "user", "content": f"Question {number}?"}]}
    async with session.post(f"{url}/chat/completions", json=body) as response:
        answer = (await response.read()).decode()
        assert response.status == 200, answer
    lines = answer.splitlines()
    events = [line[6:] for line in lines if line.startswith("data: ")]
    assert events[-1] == "[DONE]"
    chunks = [json.loads(event) for event in events[:-1]]
    assert not any("error" in chunk for chunk in chunks), chunks
    return "".join(choice["delta"].get("content") or "" for chunk in chunks for choice in chunk["choices"])
