"""Every endpoint is booked: over real sockets, plain and streamed, through the pipeline and past it; what has no price is
unpriced, and everyone sees what their own requests cost and nobody else's."""

from __future__ import annotations

import asyncio
import base64
import gzip
import json
import random
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from aiohttp import web

from gateway.endpoints.usage import Bills
from router.asked import Arrival
from store.decisions.usage import UsageSum
from store.records import RequestRecord
from tests.flow.line import Asked, Got, Line, Upstream, completion, line, upstream
from tests.patience import PATIENCE_S

PICTURE = base64.b64encode(random.Random(26).randbytes(1_200_000)).decode()
CACHE = {"cache_creation_input_tokens": 100, "cache_read_input_tokens": 1000}
RESPONSE: dict[str, Any] = {
    "id": "resp_1",
    "object": "response",
    "status": "completed",
    "model": "r-1",
    "output": [
        {
            "type": "message",
            "id": "msg_1",
            "status": "completed",
            "role": "assistant",
            "content": [{"type": "output_text", "text": "Hi", "annotations": []}],
        }
    ],
    "usage": {"input_tokens": 36, "output_tokens": 87, "input_tokens_details": {"cached_tokens": 30}},
}
MESSAGE: dict[str, Any] = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "model": "claude",
    "content": [{"type": "text", "text": "Hi"}],
    "stop_reason": "end_turn",
    "usage": {"input_tokens": 10, "output_tokens": 5} | CACHE,
}
CHOICE = {"index": 0, "text": "x", "finish_reason": "stop"}
PLAIN: dict[str, dict[str, Any]] = {
    "/embeddings": {
        "model": "e-1",
        "data": [{"embedding": [0.5]}],
        "usage": {"prompt_tokens": 6, "total_tokens": 6},
    },
    "/completions": {
        "id": "cmpl-1",
        "object": "text_completion",
        "model": "c-1",
        "choices": [CHOICE],
        "usage": {"prompt_tokens": 5, "completion_tokens": 2},
    },
    "/responses": RESPONSE,
    "/messages": MESSAGE,
    "/images/generations": {
        "data": [{"b64_json": PICTURE}],
        "usage": {"input_tokens": 50, "output_tokens": 4160},
    },
    "/moderations": {"id": "m", "results": []},
    "/rerank": {"results": [1]},
    "/messages/count_tokens": {"input_tokens": 14},
}
ASKED = {
    "/embeddings": {"model": "e-small", "input": "x"},
    "/completions": {"model": "c-1", "prompt": "x"},
    "/responses": {"model": "r-1", "input": "x"},
    "/messages": {"model": "claude", "max_tokens": 9, "messages": [{"role": "user", "content": "x"}]},
    "/messages/count_tokens": {"model": "claude", "messages": [{"role": "user", "content": "x"}]},
}
EVENTS: dict[str, list[dict[str, Any]]] = {
    "/responses": [
        {
            "type": "response.created",
            "response": RESPONSE | {"output": [], "status": "in_progress", "usage": None},
        },
        {"type": "response.completed", "response": RESPONSE},
    ],
    "/messages": [
        {
            "type": "message_start",
            "message": MESSAGE | {"content": [], "usage": {"input_tokens": 10, "output_tokens": 1}},
        },
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Hi"}},
        {"type": "content_block_stop", "index": 0},
        {
            "type": "message_delta",
            "delta": {"stop_reason": "end_turn"},
            "usage": {"output_tokens": 5} | CACHE,
        },
        {"type": "message_stop"},
    ],
    "/rerank": [{"results": [1]}, {"usage": {"prompt_tokens": 5, "completion_tokens": 1}}],
}
PRICES: dict[str, dict[str, Any]] = {
    "e-*": {"input_usd_per_mtok": 1},
    "c-1": {"input_usd_per_mtok": 1, "output_usd_per_mtok": 2},
    "r-1": {"input_usd_per_mtok": 10, "output_usd_per_mtok": 100, "cached_input_usd_per_mtok": 1},
    "claude": {
        "input_usd_per_mtok": 3,
        "output_usd_per_mtok": 15,
        "cached_input_usd_per_mtok": 0.3,
        "advanced": {"cache_write_usd_per_mtok": 3.75},
    },
    "/images/generations": {"input_usd_per_mtok": 5, "output_usd_per_mtok": 40},
    "/moderations": {"advanced": {"usd_per_request": 0}},
}
COSTS: dict[str, float | None] = {
    "/embeddings": 6e-6,
    "/completions": 9e-6,
    "/responses": (6 * 10 + 30 * 1 + 87 * 100) / 1e6,
    "/messages": (10 * 3 + 100 * 3.75 + 1000 * 0.3 + 5 * 15) / 1e6,
    "/images/generations": (50 * 5 + 4160 * 40) / 1e6,
    "/moderations": 0.0,
    "/rerank": None,
    "/messages/count_tokens": 0.0,
}


async def answers(request: web.Request, asked: Asked) -> web.StreamResponse:
    path = asked.path.removeprefix("/v1")
    if request.method == "GET":
        return web.json_response({"id": "run_1", "usage": {"input_tokens": 9, "output_tokens": 9}})
    if path == "/chat/completions":
        return web.json_response(completion("Forty-two.", service_tier="flex"))
    if not asked.json.get("stream"):
        body = json.dumps(PLAIN[path]).encode()
        packed = gzip.compress(body)
        chunked = web.StreamResponse(headers={"Content-Type": "application/json", "Content-Encoding": "gzip"})
        assert asked.headers.get("Accept-Encoding") == "gzip", "br cannot be read here"
        await chunked.prepare(request)
        for at in range(0, len(packed), 1000):
            await chunked.write(packed[at : at + 1000])
        return chunked
    response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
    await response.prepare(request)
    for event in EVENTS[path]:
        await response.write(
            b"event: " + event.get("type", "x").encode() + b"\ndata: " + json.dumps(event).encode() + b"\n\n"
        )
    return response


@dataclass
class Booked:
    behind: Upstream
    line: Line

    async def post(self, path: str, body: dict[str, Any], **headers: str) -> Got:
        return await self.line.post(path, body, {"Accept-Encoding": "gzip, br", **headers})

    def row(self) -> RequestRecord:
        memory = self.line.gateway.memory
        assert memory is not None
        return memory.store.decisions.requests.recent(1)[0]

    def sums(self, *by: Any, **only: Any) -> list[UsageSum]:
        memory = self.line.gateway.memory
        assert memory is not None
        return memory.store.decisions.usage.sums(by, **only)

    async def usage(self, id: str, **headers: str) -> tuple[int, dict[str, Any]]:
        async with self.line.session.get(f"{self.line.url}/usage/{id}", headers=headers) as response:
            return response.status, await response.json()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def booked(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Booked]:
    async with upstream() as behind:
        behind.script = answers
        price = {
            "input_usd_per_mtok": 1000,
            "output_usd_per_mtok": 2000,
            "advanced": {"service_tiers": {"flex": 0.5}},
        }
        config = {
            "upstream": {"base_url": behind.url, "prices": PRICES},
            "engines": {"one": {"base_url": behind.url, "api_key": "none", "price": price}},
            "models": {"gpt-4o": {"engines": ["one"]}},
            "memory": {"data_dir": str(tmp_path_factory.mktemp("data")), "examples": {"enabled": False}},
        }
        async with line(config) as made:
            yield Booked(behind, made)


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("path", list(PLAIN))
async def test_every_endpoints_answer_is_priced_in_its_head_and_in_the_books(
    booked: Booked, path: str
) -> None:
    got = await booked.post(path, ASKED.get(path, {"model": "as-called"}))
    assert got.status == 200
    row, cost = booked.row(), COSTS[path]
    assert row.endpoint == "/v1" + path and row.api == path.split("/")[1].replace("rerank", "other")
    assert row.cost_usd == (None if cost is None else pytest.approx(cost))
    if path == "/images/generations":
        assert (row.images, row.prompt_tokens, row.completion_tokens) == (1, 50, 4160)
        assert "x-understudy-cost" not in got.headers, "it is too large to be held until its cost is known"
        return
    said = got.headers["x-understudy-cost"]
    assert said == "unpriced" if cost is None else float(said) == pytest.approx(cost, abs=1e-10)
    status, shown = await booked.usage(got.headers["x-understudy-decision-id"])
    assert status == 200 and shown["cost_usd"] == row.cost_usd and shown["priced"] == (cost is not None)


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("path", ["/responses", "/messages"])
async def test_streams_of_every_api_are_booked_by_their_own_count(booked: Booked, path: str) -> None:
    got = await booked.post(path, ASKED[path] | {"stream": True, "metadata": {"n": "2"}})
    assert "x-understudy-cost" not in got.headers
    row = booked.row()
    assert row.cost_usd == pytest.approx(COSTS[path]) and not row.usage_estimated
    _, shown = await booked.usage(got.headers["x-understudy-decision-id"])
    assert shown["cost_usd"] == pytest.approx(COSTS[path])


@pytest.mark.asyncio(loop_scope="module")
async def test_a_stream_of_an_api_that_nobody_knows_is_booked_by_its_usage(booked: Booked) -> None:
    await booked.post("/rerank", {"model": "c-1", "stream": True})
    row = booked.row()
    assert (row.prompt_tokens, row.completion_tokens, row.cost_usd) == (5, 1, pytest.approx(7e-6))


@pytest.mark.asyncio(loop_scope="module")
async def test_reading_an_answer_again_costs_nothing(booked: Booked) -> None:
    async with booked.line.session.get(booked.line.url + "/threads/t1/runs/r1") as response:
        assert response.status == 200
    await booked.line.settled()
    assert booked.row().cost_usd == 0.0 and booked.row().completion_tokens == 0


@pytest.mark.asyncio(loop_scope="module")
async def test_a_chat_is_priced_by_the_tier_that_answered_and_its_repeat_is_free(booked: Booked) -> None:
    first = await booked.line.chat("What is six times seven?", service_tier="auto")
    cost = 0.5 * (7 * 1000 + 3 * 2000) / 1e6
    assert float(first.headers["x-understudy-cost"]) == pytest.approx(cost)
    assert booked.row().cost_usd == pytest.approx(cost) and booked.row().service_tier == "flex"
    again = await booked.line.chat("What is six times seven?", service_tier="auto")
    assert again.hit and again.headers["x-understudy-cost"] == "0"
    _, shown = await booked.usage(again.headers["x-understudy-decision-id"])
    assert shown["cost_usd"] == 0.0 and shown["outcome"] == "hit"


@pytest.mark.asyncio(loop_scope="module")
async def test_what_is_not_to_be_stored_is_in_the_sums_and_in_no_row(booked: Booked) -> None:
    def sums() -> tuple[int, float]:
        (one,) = booked.sums("model", since_s=0)[:1] and [
            each for each in booked.sums("model") if each.model == "gpt-4o"
        ]
        return one.amounts.requests, one.amounts.cost_usd

    await booked.line.chat("Once.")
    before, last = sums(), booked.row().id
    got = await booked.line.chat("Do not keep this.", {"Cache-Control": "no-store"})
    after = sums()
    assert booked.row().id == last and after[0] == before[0] + 1
    assert after[1] - before[1] == pytest.approx(float(got.headers["x-understudy-cost"]))
    status, shown = await booked.usage(got.headers["x-understudy-decision-id"])
    assert status == 200 and shown["cost_usd"] == pytest.approx(float(got.headers["x-understudy-cost"]))


@pytest.mark.asyncio(loop_scope="module")
async def test_the_sums_equal_the_log(booked: Booked) -> None:
    memory = booked.line.gateway.memory
    assert memory is not None
    rows = [row for row in memory.store.decisions.requests.recent(1000) if row.api != "chat"]
    by_api = {one.api: one.amounts for one in booked.sums("api") if one.line == "answer"}
    for api in {row.api for row in rows}:
        mine = [row for row in rows if row.api == api]
        assert by_api[api].requests == len(mine)
        assert by_api[api].cost_usd == pytest.approx(sum(row.cost_usd or 0.0 for row in mine))
        assert by_api[api].unpriced == sum(row.cost_usd is None for row in mine)
        assert by_api[api].prompt_tokens == sum(row.prompt_tokens for row in mine)


@pytest.mark.asyncio(loop_scope="module")
async def test_nobody_sees_what_anothers_request_cost(booked: Booked) -> None:
    got = await booked.post("/embeddings", {"model": "e", "input": "mine"}, Authorization="Bearer sk-mine")
    id = got.headers["x-understudy-decision-id"]
    assert (await booked.usage(id, Authorization="Bearer sk-mine"))[0] == 200
    status, said = await booked.usage(id, Authorization="Bearer sk-theirs")
    assert status == 404 and said["error"]["code"] == "usage_not_found"
    assert (await booked.usage("f" * 24, Authorization="Bearer sk-mine"))[0] == 404
    assert (await booked.usage("x" * 5000, Authorization="Bearer sk-mine"))[0] == 404


@pytest.mark.asyncio(loop_scope="module")
async def test_while_a_request_is_under_way_its_cost_is_pending(booked: Booked) -> None:
    bills: Bills = booked.line.gateway.built.bills
    got = await booked.post("/embeddings", {"model": "e", "input": "whose"}, Authorization="Bearer sk-mine")
    memory = booked.line.gateway.memory
    assert memory is not None
    row = memory.store.decisions.requests.get(got.headers["x-understudy-decision-id"])
    assert row is not None
    bills.opened(Arrival("a" * 24, 0.0, 0.0, tenant=row.tenant))
    status, said = await booked.usage("a" * 24, Authorization="Bearer sk-mine")
    assert status == 202 and said["status"] == "in_progress"
    assert (await booked.usage("a" * 24, Authorization="Bearer sk-theirs"))[0] == 404


async def test_speech_is_played_while_it_comes_though_it_is_booked(tmp_path: Path) -> None:
    async with upstream() as behind:
        goes_on = asyncio.Event()

        async def speaks(request: web.Request, asked: Asked) -> web.StreamResponse:
            response = web.StreamResponse(headers={"Content-Type": "audio/mpeg"})
            await response.prepare(request)
            await response.write(b"FIRST")
            await goes_on.wait()
            await response.write(b"SECOND")
            return response

        behind.script = speaks
        config = {"upstream": {"base_url": behind.url}, "memory": {"data_dir": str(tmp_path)}}
        async with line(config) as gate:
            asked = {"model": "tts", "input": "Hi", "voice": "alloy"}
            async with gate.session.post(f"{gate.url}/audio/speech", json=asked) as got:
                try:
                    assert await asyncio.wait_for(got.content.readexactly(5), PATIENCE_S) == b"FIRST"
                finally:
                    goes_on.set()
                assert await got.read() == b"SECOND"


async def test_an_engine_and_an_upstream_at_list_prices_are_booked(tmp_path: Path) -> None:
    async with upstream() as behind:
        engine = {"base_url": behind.url, "api_key": "none", "model": "openai/gpt-4o", "price": "list"}
        config: dict[str, Any] = {
            "engines": {"large": engine},
            "models": {"m": {"engines": ["large"]}},
            "upstream": {"kind": "azure", "base_url": behind.url, "api_key": "none", "prices": "list"},
            "memory": {"data_dir": str(tmp_path)},
        }
        async with line(config) as gate:
            for model, (input_usd, output_usd) in {"m": (2.5, 10), "o3-2025-04-16": (2, 8)}.items():
                got = await gate.chat(f"What is {model}?", model=model)
                used = got.json["usage"]
                dollars = used["prompt_tokens"] * input_usd + used["completion_tokens"] * output_usd
                assert dollars and float(got.headers["x-understudy-cost"]) == pytest.approx(dollars / 1e6)
