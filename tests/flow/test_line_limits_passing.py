"""Limits of what no pipeline answers: the default upstream's endpoints, and a run's steps."""

from __future__ import annotations

import gzip
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from aiohttp import web

from store.people.allowance import NANO
from store.people.limits import Limits
from tests.flow.line import Asked, Line, Upstream, line, upstream
from tests.flow.test_line_limits import COST_USD, PRICE, budget, make
from tests.flow.test_line_runs import run_of

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def behind() -> AsyncIterator[Upstream]:
    async with upstream() as made:
        yield made


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def gate(behind: Upstream, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Line]:
    folder: Path = tmp_path_factory.mktemp("limits")
    config: dict[str, Any] = {
        "upstream": {"base_url": behind.url, "api_key": "sk-up", "prices": {"*": PRICE}},
        "engines": {"big": {"base_url": behind.url, "api_key": "sk-up", "price": PRICE}},
        "models": {"m": {"engines": ["big"]}},
        "memory": {"data_dir": str(folder), "examples": {"enabled": False}, "exact": {"enabled": False}},
    }
    async with line(config) as made:
        yield made


@pytest.mark.slow
async def test_what_the_default_upstream_answers_is_reserved_and_settled(
    gate: Line, behind: Upstream
) -> None:
    async def script(request: web.Request, asked: Asked) -> web.StreamResponse:
        assert not asked.json.get("stream") or asked.json["stream_options"] == {"include_usage": True}
        return await behind.stream(request, asked) if asked.json.get("stream") else web.json_response(USED)

    behind.script = script
    who = await make(gate, budget(1))
    plain = await who.chat("Hello", model="another")
    streamed = await who.chat("Hello", model="another", stream=True)
    assert plain.status == streamed.status == 200 and b"usage" not in streamed.body
    assert await who.spent("usd:day") == round((COST_USD + COST_USD) * NANO)
    poor = await make(gate, budget(COST_USD / 10))
    refused = await poor.chat("Hello", model="another")
    assert refused.status == 429 and refused.json["error"]["code"] == "insufficient_quota"


USED = {
    "object": "chat.completion",
    "choices": [{"index": 0, "message": {"role": "assistant", "content": "Hi"}, "finish_reason": "stop"}],
    "usage": {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10},
}


async def test_the_most_output_is_sent_to_the_default_upstream_too(gate: Line, behind: Upstream) -> None:
    behind.script = None
    who = await make(gate, Limits(max_output_tokens=9))
    behind.asked.clear()
    assert (await who.chat("Hello", model="another")).status == 200
    assert behind.asked[-1].json["max_completion_tokens"] == 9
    assert (await who.chat("Hello", model="another", max_tokens=10)).status == 400
    untouched = await make(gate, Limits(requests_per_minute=9))
    raw = json.dumps(
        {"model": "another", "messages": [{"role": "user", "content": "\u00e9"}]}, indent=3
    ).encode()
    assert (await gate.post("/chat/completions", raw, untouched.headers)).status == 200
    assert behind.asked[-1].body == raw


@pytest.mark.slow
async def test_each_step_of_a_run_is_paid_for_by_the_key_that_sent_it(gate: Line, behind: Upstream) -> None:
    behind.script = None
    who = await make(gate, budget(1))
    got = await gate.post("/runs", run_of(("B {{a}}", "b"), ("A", "a")), who.headers)
    assert got.status == 200 and got.json["status"] == "done", got.body
    assert await who.spent("usd:day") == 2 * round(COST_USD * NANO)
    poor = await make(gate, budget(COST_USD / 10))
    failed = await gate.post("/runs", run_of(("C", "c")), poor.headers)
    assert failed.json["status"] == "failed" and b"insufficient_quota" in failed.body


async def test_a_stream_of_completions_is_counted_and_bounded_in_its_own_words(
    gate: Line, behind: Upstream
) -> None:
    said = {"id": "c", "object": "text_completion", "created": 1, "model": "m"}
    choice = {"index": 0, "text": "Hi", "logprobs": None, "finish_reason": "stop"}
    last = said | {"choices": [], "usage": {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10}}
    shown = b"data: " + json.dumps(said | {"choices": [choice]}).encode() + b"\n\n"

    async def script(request: web.Request, asked: Asked) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        await response.write(shown + b"data: " + json.dumps(last).encode() + b"\n\ndata: [DONE]\n\n")
        return response

    behind.script = script
    who = await make(gate, Limits(budgets=budget(1).budgets, max_output_tokens=9))
    got = await gate.post("/completions", {"model": "m", "prompt": "Say hi", "stream": True}, who.headers)
    assert got.status == 200 and got.body == shown + b"data: [DONE]\n\n"
    sent = behind.asked[-1].json
    assert sent["max_tokens"] == 9 and sent["stream_options"] == {"include_usage": True}
    assert sent["prompt"] == "Say hi" and "messages" not in sent
    assert await who.spent("usd:day") == round(COST_USD * NANO)


@pytest.mark.slow
async def test_responses_are_counted_and_bounded_in_their_own_words(gate: Line, behind: Upstream) -> None:
    message = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "status": "completed",
        "content": [{"type": "output_text", "text": "Hi", "annotations": []}],
    }
    usage = {"input_tokens": 7, "output_tokens": 3, "total_tokens": 10}

    async def script(request: web.Request, asked: Asked) -> web.StreamResponse:
        return web.json_response(
            {
                "id": "resp_1",
                "object": "response",
                "status": "completed",
                "model": "m",
                "output": [message],
                "usage": usage,
            }
        )

    behind.script = script
    who = await make(gate, Limits(budgets=budget(1).budgets, max_output_tokens=90))
    got = await gate.post("/responses", {"model": "m", "input": "Say hi"}, who.headers)
    assert got.status == 200, got.body
    assert behind.asked[-1].json["max_output_tokens"] == 90
    assert await who.spent("usd:day") == round(COST_USD * NANO)
    more = await gate.post("/responses", {"model": "m", "input": "Hi", "max_output_tokens": 91}, who.headers)
    assert more.status == 400 and more.json["error"]["param"] == "max_output_tokens"


async def test_a_budget_that_is_spent_is_told_in_the_shape_of_the_api(gate: Line) -> None:
    poor = await make(gate, budget(COST_USD / 10))
    message = {"model": "another", "max_tokens": 50, "messages": [{"role": "user", "content": "Hi"}]}
    got = await gate.post("/messages", message, poor.headers)
    assert got.status == 429 and got.headers["x-should-retry"] == "false"
    assert got.json["type"] == "error" and got.json["error"]["type"] == "rate_limit_error"


@pytest.mark.parametrize("model", ["m", "another"])
async def test_what_is_packed_is_reserved_unpacked(gate: Line, behind: Upstream, model: str) -> None:
    behind.script = None
    behind.asked.clear()
    # 50,000 tokens of input; the most output is read in spite of the packing, too.
    body = {"model": model, "messages": [{"role": "user", "content": "many words " * 20_000}]}
    packed = gzip.compress(json.dumps(body).encode())
    headers = {"Content-Encoding": "gzip"}
    poor = await make(gate, budget(0.04))
    got = await gate.post("/chat/completions", packed, poor.headers | headers)
    assert got.status == 429 and got.json["error"]["code"] == "insufficient_quota" and not behind.asked
    short = await make(gate, Limits(max_output_tokens=9))
    more = gzip.compress(json.dumps(body | {"max_tokens": 10}).encode())
    assert (await gate.post("/chat/completions", more, short.headers | headers)).status == 400


@pytest.mark.parametrize("model", ["m", "another"])
async def test_what_is_answered_in_the_background_costs_what_it_may_take(
    gate: Line, behind: Upstream, model: str
) -> None:
    queued = {"id": "resp_1", "object": "response", "status": "queued", "output": [], "usage": None}

    async def script(request: web.Request, asked: Asked) -> web.StreamResponse:
        return web.json_response(queued | {"model": model, "background": True})

    behind.script = script
    who = await make(gate, budget(1))
    body = {"model": model, "input": "Think", "background": True, "max_output_tokens": 1000}
    assert (await gate.post("/responses", body, who.headers)).status == 200
    assert await who.spent("usd:day") >= 1000 * 10_000


async def test_endpoints_of_vllm_are_counted_too(gate: Line, behind: Upstream) -> None:
    async def script(request: web.Request, asked: Asked) -> web.StreamResponse:
        return web.json_response({"results": [], "usage": {"total_tokens": 100}})

    behind.script = script
    who = await make(gate, budget(1))
    body = {"model": "another", "query": "x", "documents": ["y"] * 100}
    assert (await gate.post("/rerank", body, who.headers)).status == 200
    assert await who.spent("usd:day") > 0
    slow = await make(gate, Limits(tokens_per_minute=50))
    assert (await gate.post("/rerank", body, slow.headers)).status == 400
