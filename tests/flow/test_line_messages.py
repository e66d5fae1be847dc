"""Anthropic's Messages API over real sockets, mostly by its own SDK, unchanged: only its `base_url` names the gateway."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from store.people.limits import Budget, Limits, Terms
from store.records import RequestRecord
from tests.flow.line import Asked, Line, Upstream, line, upstream
from tests.flow.messages_upstream import OVERLOADED, TEXT, TOOL_USE, answers, encoded, events, message

anthropic = pytest.importorskip("anthropic")

ASKED = [{"role": "user", "content": "What is six times seven?"}]
PRICE = {
    "input_usd_per_mtok": 1.0,
    "output_usd_per_mtok": 10.0,
    "cached_input_usd_per_mtok": 0.1,
    "advanced": {"cache_write_usd_per_mtok": 2.0},
}
COST_USD = (5 * 1.0 + 7 * 0.1 + 2 * 2.0 + 3 * 10.0) / 1e6


def engine(behind: Upstream, **more: Any) -> dict[str, Any]:
    return {"kind": "anthropic", "base_url": behind.url, "api_key": "sk-own", "price": PRICE} | more


def config(behind: Upstream, data: Path | None, **more: Any) -> dict[str, Any]:
    engines = {
        "claude": engine(behind, model="claude-real"),
        "busy": engine(behind, model="overloaded", advanced={"attempts": 1}),
        "halfway": engine(behind, model="halfway"),
        "words": {"base_url": behind.url, "api_key": "sk-words", "apis": ["completions"]},
    }
    models = {
        "claude": {"engines": ["claude"]},
        "safe": {"engines": ["claude", "busy"]},
        "halfway": {"engines": ["halfway"]},
        "mixed": {"engines": ["claude", "words"]},
        "words": {"engines": ["words"]},
    }
    memory = {"data_dir": str(data), "examples": {"enabled": False}} if data is not None else None
    return {"engines": engines, "models": models, "memory": memory} | more


@pytest.fixture
async def behind() -> AsyncIterator[Upstream]:
    async with upstream() as made:
        made.script = answers
        yield made


@pytest.fixture
async def gate(behind: Upstream, tmp_path: Path) -> AsyncIterator[Line]:
    async with line(config(behind, tmp_path / "data")) as made:
        yield made


@pytest.fixture
async def client(gate: Line) -> AsyncIterator[Any]:
    async with sdk(gate) as made:
        yield made


def sdk(gate: Line, key: str = "sk-client") -> Any:
    return anthropic.AsyncAnthropic(base_url=gate.url.removesuffix("/v1"), api_key=key, max_retries=0)


def booked(gate: Line, decision_id: str) -> RequestRecord:
    memory = gate.gateway.memory
    assert memory is not None and memory.requests is not None
    row = memory.requests.get(decision_id)
    assert row is not None
    return row


async def test_a_repeat_is_answered_from_memory_and_both_are_booked(
    client: Any, gate: Line, behind: Upstream
) -> None:
    ids, seen = [], []
    for _ in range(2):
        raw = await client.messages.with_raw_response.create(model="claude", max_tokens=50, messages=ASKED)
        said = await raw.parse()
        seen.append(said.to_dict())
        ids.append(raw.headers["x-understudy-decision-id"])
        assert said.content[0].text == TEXT and said.usage.cache_read_input_tokens == 7
        assert raw.headers["request-id"]
        await gate.settled()
    assert len(behind.asked) == 1 and seen[0] == seen[1]
    asked = behind.asked[0]
    assert asked.path == "/v1/messages" and asked.json["model"] == "claude-real"
    assert asked.headers["x-api-key"] == "sk-own" and "Authorization" not in asked.headers
    first, second = (booked(gate, one) for one in ids)
    assert (first.prompt_tokens, first.completion_tokens) == (14, 3)
    assert first.cost_usd == pytest.approx(COST_USD) and second.cost_usd == 0 and second.outcome == "hit"


async def test_streams_and_plain_answers_stand_for_each_other(
    client: Any, gate: Line, behind: Upstream
) -> None:
    ids = []
    for _ in range(2):
        async with client.messages.stream(model="claude", max_tokens=50, messages=ASKED) as stream:
            said = [text async for text in stream.text_stream]
            message = await stream.get_final_message()
        ids.append(stream.response.headers["x-understudy-decision-id"])
        assert "".join(said) == TEXT and len(said) > 1
        assert message.usage.output_tokens == 3 and message.stop_reason == "end_turn"
        await gate.settled()
    plain = await client.messages.create(model="claude", max_tokens=50, messages=ASKED)
    assert plain.to_dict() == message.to_dict() | {"parsed_output": None} or plain.content[0].text == TEXT
    assert len(behind.asked) == 1
    assert booked(gate, ids[0]).cost_usd == pytest.approx(COST_USD) and booked(gate, ids[1]).cost_usd == 0


async def test_tools_pass_and_are_not_remembered(client: Any, gate: Line, behind: Upstream) -> None:
    tools = [{"name": "weather", "input_schema": {"type": "object"}}]
    for _ in range(2):
        async with client.messages.stream(
            model="claude", max_tokens=50, messages=ASKED, tools=tools
        ) as stream:
            message = await stream.get_final_message()
        assert message.content[1].input == TOOL_USE["input"] and message.stop_reason == "tool_use"
        await gate.settled()
    assert len(behind.asked) == 2


async def test_version_beta_and_query_are_passed_on_and_tell_requests_apart(
    client: Any, gate: Line, behind: Upstream
) -> None:
    for beta in ("one-2026-01-01", "two-2026-01-01"):
        headers = {"anthropic-version": "2024-01-01", "anthropic-beta": beta}
        await client.messages.create(model="claude", max_tokens=50, messages=ASKED, extra_headers=headers)
        await gate.settled()
    seen = [(each.headers["anthropic-version"], each.headers["anthropic-beta"]) for each in behind.asked]
    assert seen == [("2024-01-01", "one-2026-01-01"), ("2024-01-01", "two-2026-01-01")]
    got = await gate.post("/messages?beta=true", {"model": "claude", "max_tokens": 9, "messages": ASKED})
    assert got.status == 200 and behind.asked[2].path == "/v1/messages?beta=true"


async def test_tokens_are_counted_by_the_engine(client: Any, behind: Upstream) -> None:
    assert (await client.messages.count_tokens(model="claude", messages=ASKED)).input_tokens == 9
    assert behind.asked[0].path == "/v1/messages/count_tokens"
    assert behind.asked[0].json["model"] == "claude-real"


async def test_another_engine_answers_where_one_is_overloaded(client: Any, gate: Line) -> None:
    for stream in (False, True):
        raw = await client.messages.with_raw_response.create(
            model="safe", max_tokens=50 + stream, messages=ASKED, stream=stream
        )
        assert raw.headers["x-understudy-engine"] == "claude"
        assert raw.headers["x-understudy-failed-over"].startswith("busy")
        if stream:
            assert [event.type async for event in await raw.parse()][-1] == "message_stop"


async def test_only_engines_that_speak_it_are_asked(client: Any, gate: Line, behind: Upstream) -> None:
    raw = await client.messages.with_raw_response.create(model="mixed", max_tokens=50, messages=ASKED)
    assert raw.headers["x-understudy-engine"] == "claude"
    with pytest.raises(anthropic.NotFoundError, match="speaks the API at /messages") as refused:
        await client.messages.create(model="words", max_tokens=50, messages=ASKED)
    assert refused.value.body["error"]["code"] == "api_not_spoken"
    # And no text completion is asked of one that speaks Messages only.
    got = await gate.post("/completions", {"model": "claude", "prompt": "Hi"})
    assert got.json["error"]["code"] == "api_not_spoken"


async def test_an_error_halfway_is_a_broken_stream(client: Any, gate: Line, behind: Upstream) -> None:
    for _ in range(2):
        with pytest.raises(anthropic.APIStatusError) as broken:
            async with client.messages.stream(model="halfway", max_tokens=50, messages=ASKED) as stream:
                await stream.get_final_message()
        assert broken.value.body == OVERLOADED
        await gate.settled()
        assert booked(gate, stream.response.headers["x-understudy-decision-id"]).outcome == "failed"
    assert len(behind.asked) == 2, "nothing of it was remembered"


async def test_errors_of_the_gateway_have_anthropics_shape(client: Any, gate: Line) -> None:
    with pytest.raises(anthropic.NotFoundError) as lost:
        await client.messages.create(model="nobodys", max_tokens=50, messages=ASKED)
    assert lost.value.body["error"]["type"] == "not_found_error" and lost.value.request_id
    with pytest.raises(anthropic.BadRequestError) as wrong:
        await client.messages.create(model="claude", max_tokens=50, messages="hi")
    assert wrong.value.body["type"] == "error" and "'messages' must be a list" in str(wrong.value)
    got = await gate.post("/messages", b"{")
    assert (got.status, got.json["error"]["type"]) == (400, "invalid_request_error")


async def test_a_gateway_key_stands_in_x_api_key(behind: Upstream, tmp_path: Path) -> None:
    async with line(config(behind, tmp_path / "data")) as gate:
        memory = gate.gateway.memory
        assert memory is not None
        _, secret = memory.store.keys.create("team", "laptop")
        body = {"model": "claude", "max_tokens": 50, "messages": ASKED}
        assert (await gate.post("/messages", body, {"x-api-key": secret})).status == 200
        async with sdk(gate, secret) as client, sdk(gate) as stranger:
            message = await client.messages.create(model="claude", max_tokens=50, messages=ASKED)
            assert message.content[0].text == TEXT
            with pytest.raises(anthropic.AuthenticationError) as refused:
                await stranger.messages.create(model="claude", max_tokens=50, messages=ASKED)
        assert refused.value.body["error"]["type"] == "authentication_error"
    assert {each.headers["x-api-key"] for each in behind.asked} == {"sk-own"}


async def test_without_memory_or_models_it_goes_to_the_upstream_as_it_came(behind: Upstream) -> None:
    async with line({"upstream": {"base_url": behind.url}}) as gate, sdk(gate) as client:
        message = await client.messages.create(model="m", max_tokens=50, messages=ASKED)
        assert message.content[0].text == TEXT
        async with client.messages.stream(model="m", max_tokens=50, messages=ASKED) as stream:
            assert (await stream.get_final_message()).content[0].text == TEXT
    assert [each.headers["Authorization"] for each in behind.asked] == ["Bearer sk-client"] * 2


async def test_a_stream_that_is_cut_ends_with_an_error_of_its_kind(behind: Upstream) -> None:
    async def cut(request: web.Request, asked: Asked) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        for event in events(message(asked.json))[:5]:
            await response.write(encoded(event))
        return response

    behind.script = cut
    async with line({"upstream": {"base_url": behind.url}}) as gate, sdk(gate) as client:
        with pytest.raises(anthropic.APIStatusError) as broken:
            async with client.messages.stream(model="m", max_tokens=50, messages=ASKED) as stream:
                await stream.get_final_message()
    assert broken.value.body["error"]["code"] == "upstream_stream_broken"


async def test_the_same_question_asked_at_once_is_asked_once(client: Any, behind: Upstream) -> None:
    together = [client.messages.create(model="claude", max_tokens=50, messages=ASKED) for _ in range(4)]
    said = await asyncio.gather(*together)
    assert {message.content[0].text for message in said} == {TEXT} and len(behind.asked) == 1


async def test_what_the_engine_holds_goes_to_the_reference_and_is_not_remembered(
    client: Any, gate: Line, behind: Upstream
) -> None:
    search = [{"type": "web_search_20250305", "name": "web_search"}]
    for _ in range(2):
        raw = await client.messages.with_raw_response.create(
            model="claude", max_tokens=50, messages=ASKED, tools=search
        )
        assert "fwd=bypass" in raw.headers["Cache-Status"]
        await gate.settled()
    assert len(behind.asked) == 2


async def test_similar_questions_are_routed_where_engines_speak_it(behind: Upstream, tmp_path: Path) -> None:
    both = ["chat", "messages"]
    config = {
        "engines": {
            "small": engine(behind, model="small", apis=both),
            "large": engine(behind, model="large"),
            "words": {"base_url": behind.url, "api_key": "sk-words", "apis": ["completions"]},
        },
        "models": {
            "claude": {"engines": ["small", "large"], "policy": "few_shot", "few_shot": {"m": 1}},
            "apart": {"engines": ["words", "large"], "policy": "few_shot", "few_shot": {"m": 1}},
        },
        "memory": {"data_dir": str(tmp_path / "data"), "exact": {"enabled": False}},
    }
    question = "How do I list all files in a directory on Linux, including hidden ones?"
    alike = "How can I list all files in a Linux directory, including the hidden ones?"
    async with line(config) as gate, sdk(gate) as client:
        for model, said in (("claude", "small"), ("apart", "large")):
            for asked in (question, alike):
                await client.messages.create(
                    model=model,
                    max_tokens=50,
                    system="Be brief.",
                    messages=[{"role": "user", "content": asked}],
                )
                await gate.settled()
            assert behind.asked[-1].json["model"] == said
    routed = behind.asked[1].json
    assert routed["system"] == "Be brief." and routed["messages"] == [
        {"role": "user", "content": question},
        {"role": "assistant", "content": TEXT},
        {"role": "user", "content": alike},
    ]


async def test_limits_hold_and_are_told_as_anthropic_tells_them(behind: Upstream, tmp_path: Path) -> None:
    async with line(config(behind, tmp_path / "data")) as gate:
        memory = gate.gateway.memory
        assert memory is not None
        keys = memory.store.keys
        _, few = keys.create("team", "few", terms=Terms(limits=Limits(requests_per_minute=1)))
        _, poor = keys.create("team", "poor", terms=Terms(limits=Limits(budgets=(Budget(1e-6, "day"),))))
        _, short = keys.create("team", "short", terms=Terms(limits=Limits(max_output_tokens=20)))
        _, narrow = keys.create("team", "narrow", terms=Terms(limits=Limits(models=("gpt-*",))))
        asking = {"model": "claude", "max_tokens": 50, "messages": ASKED}
        async with sdk(gate, few) as client:
            await client.messages.create(**asking)
            with pytest.raises(anthropic.RateLimitError) as limited:
                await client.messages.create(**asking)
        assert limited.value.body["type"] == "error"
        assert limited.value.body["error"]["type"] == "rate_limit_error"
        assert int(limited.value.response.headers["Retry-After"]) > 0
        async with sdk(gate, poor) as client:
            with pytest.raises(anthropic.RateLimitError) as spent:
                await client.messages.create(**asking | {"max_tokens": 49})
        assert spent.value.body["error"]["code"] == "insufficient_quota"
        assert spent.value.response.headers["x-should-retry"] == "false"
        async with sdk(gate, short) as client:
            with pytest.raises(anthropic.BadRequestError, match="20"):
                await client.messages.create(**asking)
        async with sdk(gate, narrow) as client:
            with pytest.raises(anthropic.PermissionDeniedError) as refused:
                await client.messages.create(**asking)
        assert refused.value.body["error"]["type"] == "permission_error"
    assert len(behind.asked) == 1


async def test_a_vllm_server_speaks_it_too(behind: Upstream, tmp_path: Path) -> None:
    async def vllm(request: web.Request, asked: Asked) -> web.StreamResponse:
        if request.method == "GET":
            return web.Response(status=404)
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        start, *rest = events(message(asked.json))
        begun = {"id": "chatcmpl-1", "content": [], "model": asked.json["model"]}
        for event in (start | {"message": begun | {"usage": {"input_tokens": 5, "output_tokens": 0}}}, *rest):
            await response.write(encoded(event))
        await response.write(b"data: [DONE]\n\n")
        return response

    behind.script = vllm
    engines = {"local": {"kind": "vllm", "base_url": behind.url, "model": "tiny"}}
    memory = {"data_dir": str(tmp_path / "data"), "examples": {"enabled": False}}
    async with line({"engines": engines, "models": {"m": {"engines": ["local"]}}, "memory": memory}) as gate:
        async with sdk(gate) as client:
            for _ in range(2):
                async with client.messages.stream(model="m", max_tokens=50, messages=ASKED) as stream:
                    said = await stream.get_final_message()
                assert said.content[0].text == TEXT and said.stop_reason == "end_turn"
                await gate.settled()
            plain = await client.messages.create(model="m", max_tokens=50, messages=ASKED)
            assert (plain.type, plain.role, plain.content[0].text) == ("message", "assistant", TEXT)
    (asked,) = [one for one in behind.asked if one.body]
    assert asked.path == "/v1/messages" and asked.json["model"] == "tiny" and asked.json["cache_salt"]
