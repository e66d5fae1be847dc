"""Text completions and embeddings of configured models, over real sockets: repeats hit, all is booked."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from tests.flow.line import Asked, Line, Upstream, line, upstream

openai = pytest.importorskip("openai")

USAGE = {"prompt_tokens": 4, "completion_tokens": 6, "total_tokens": 10}
PRICE = {"input_usd_per_mtok": 1.0, "output_usd_per_mtok": 2.0}
HEAD = {"id": "cmpl-1", "object": "text_completion", "created": 1, "model": "m"}


def choice(index: int, text: str, finish: str | None) -> dict[str, Any]:
    return {"text": text, "index": index, "logprobs": None, "finish_reason": finish}


async def answers(request: web.Request, asked: Asked) -> web.StreamResponse:
    """A server that goes on with prompts, and makes vectors."""
    body = asked.json
    if request.path.endswith("/embeddings"):
        vector = {"object": "embedding", "index": 0, "embedding": [0.5, 0.25]}
        usage = {"prompt_tokens": 5, "total_tokens": 5}
        return web.json_response({"object": "list", "data": [vector], "model": body["model"], "usage": usage})
    prompts = body["prompt"] if isinstance(body["prompt"], list) else [body["prompt"]]
    if not body.get("stream"):
        choices = [choice(i, f"{prompt} upon a time", "stop") for i, prompt in enumerate(prompts)]
        return web.json_response(HEAD | {"choices": choices, "usage": USAGE})
    response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
    await response.prepare(request)
    for i, prompt in enumerate(prompts):
        for text, finish in ((f"{prompt} upon", None), (" a time", None), ("", "stop")):
            await response.write(
                b"data: " + json.dumps(HEAD | {"choices": [choice(i, text, finish)]}).encode() + b"\n\n"
            )
    if (body.get("stream_options") or {}).get("include_usage"):
        await response.write(
            b"data: " + json.dumps(HEAD | {"choices": [], "usage": USAGE}).encode() + b"\n\n"
        )
    await response.write(b"data: [DONE]\n\n")
    return response


@pytest.fixture
async def behind() -> AsyncIterator[Upstream]:
    async with upstream() as made:
        made.script = answers
        yield made


@pytest.fixture
async def gate(behind: Upstream, tmp_path: Path) -> AsyncIterator[Line]:
    engine = {"base_url": behind.url, "api_key": "own", "price": PRICE}
    config = {
        "engines": {"words": engine | {"model": "real"}, "chats": engine | {"apis": ["chat"]}},
        "models": {"babbage": {"engines": ["words"]}, "chatty": {"engines": ["words", "chats"]}},
        "memory": {"data_dir": str(tmp_path / "data"), "examples": {"enabled": False}},
    }
    async with line(config) as made:
        yield made


@pytest.fixture
async def client(gate: Line) -> AsyncIterator[Any]:
    async with openai.AsyncOpenAI(base_url=gate.url, api_key="client", max_retries=0) as made:
        yield made


def costs(gate: Line) -> list[float | None]:
    memory = gate.gateway.memory
    assert memory is not None and memory.requests is not None
    return [row.cost_usd for row in reversed(memory.requests.recent())]


async def test_a_prompt_is_gone_on_with_and_repeats_hit(client: Any, gate: Line, behind: Upstream) -> None:
    for _ in range(2):
        answer = await client.completions.create(model="babbage", prompt="Once", max_tokens=9)
        assert answer.choices[0].text == "Once upon a time" and answer.usage.total_tokens == 10
        await gate.settled()
    stream = await client.completions.create(
        model="babbage", prompt="Once", max_tokens=9, stream=True, stream_options={"include_usage": True}
    )
    chunks = [chunk async for chunk in stream]
    assert "".join(chunk.choices[0].text for chunk in chunks if chunk.choices) == "Once upon a time"
    assert chunks[-1].usage.total_tokens == 10
    await gate.settled()
    assert len(behind.asked) == 1 and behind.asked[0].json["model"] == "real"
    assert costs(gate) == [pytest.approx((4 + 2 * 6) / 1e6), 0, 0]


async def test_a_stream_is_remembered_and_its_usage_told_to_nobody_who_did_not_ask(
    client: Any, gate: Line, behind: Upstream
) -> None:
    for _ in range(2):
        stream = await client.completions.create(model="babbage", prompt=["A", "B"], stream=True)
        chunks = [chunk async for chunk in stream]
        texts = {0: "", 1: ""}
        for chunk in chunks:
            assert chunk.usage is None
            for each in chunk.choices:
                texts[each.index] += each.text
        assert texts == {0: "A upon a time", 1: "B upon a time"}
        await gate.settled()
    assert len(behind.asked) == 1
    assert behind.asked[0].json["stream_options"] == {"include_usage": True}
    assert costs(gate) == [pytest.approx((4 + 2 * 6) / 1e6), 0]


async def test_only_who_speaks_it_goes_on_with_a_prompt(client: Any, gate: Line) -> None:
    raw = await client.completions.with_raw_response.create(model="chatty", prompt="Once")
    assert raw.headers["x-understudy-engine"] == "words"
    with pytest.raises(openai.BadRequestError) as wrong:
        await client.completions.create(model="babbage", prompt={"a": 1})
    assert wrong.value.param == "prompt"
    with pytest.raises(openai.NotFoundError):
        await client.completions.create(model="nobodys", prompt="Once")


async def test_embeddings_of_a_served_model_are_remembered_and_booked(
    client: Any, gate: Line, behind: Upstream
) -> None:
    for _ in range(2):
        made = await client.embeddings.create(model="babbage", input="Hi", encoding_format="float")
        assert made.data[0].embedding == [0.5, 0.25]
        await gate.settled()
    raw = await client.embeddings.with_raw_response.create(
        model="babbage", input="Hi", encoding_format="float"
    )
    assert "; hit" in raw.headers["Cache-Status"]
    assert len(behind.asked) == 1 and behind.asked[0].json["model"] == "real"
    memory = gate.gateway.memory
    assert memory is not None
    await gate.settled()
    booked = memory.store.decisions.usage.sums(["api"])
    sums = {each.api: each.amounts for each in booked if each.line == "answer"}
    assert sums["embeddings"].requests == 3 and sums["embeddings"].cost_usd == pytest.approx(5e-6)
