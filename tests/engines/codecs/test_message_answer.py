"""Answers of `/v1/messages`: from events, as a chat completion, and as events again, as Anthropic's own SDK reads them."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import AsyncIterator
from functools import partial
from typing import Any

import orjson
import pytest

from engines.answers.message import Message
from engines.codecs.message_answer import as_events
from engines.sse import events
from tests import answers

USAGE = {
    "input_tokens": 5,
    "cache_read_input_tokens": 7,
    "cache_creation_input_tokens": 2,
    "output_tokens": 11,
    "service_tier": "standard",
}
CITED = {
    "type": "text",
    "text": "Rain, it says. " * 9,
    "citations": [{"type": "char_location", "cited_text": "Rain"}],
}
MESSAGE: dict[str, Any] = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "model": "claude",
    "content": [
        {"type": "thinking", "thinking": "Let me see. " * 12, "signature": "c2ln"},
        CITED,
        {"type": "tool_use", "id": "toolu_1", "name": "weather", "input": {"city": "Oslo"}},
    ],
    "stop_reason": "tool_use",
    "stop_sequence": None,
    "usage": USAGE,
}


from_events, from_object = (
    partial(answers.from_events, merge=Message),
    partial(answers.from_json, merge=Message),
)


def test_what_it_says_as_events_is_what_it_was() -> None:
    told = from_events(as_events(MESSAGE))
    assert told is not None and told.whole and told.own == MESSAGE


@pytest.mark.slow
def test_anthropics_own_sdk_reads_the_events() -> None:
    anthropic = pytest.importorskip("anthropic")
    httpx = pytest.importorskip("httpx2", reason="the transport of the SDK")

    async def body() -> AsyncIterator[bytes]:
        yield as_events(MESSAGE)

    def answer(request: Any) -> Any:
        return httpx.Response(200, headers={"Content-Type": "text/event-stream"}, content=body())

    async def ask() -> dict[str, Any]:
        client = anthropic.AsyncAnthropic(
            api_key="k", http_client=httpx.AsyncClient(transport=httpx.MockTransport(answer))
        )
        async with client.messages.stream(model="claude", max_tokens=9, messages=[]) as stream:
            message = await stream.get_final_message()
        return dict(message.to_dict())

    said = asyncio.run(ask())
    assert said["content"][0] == MESSAGE["content"][0] and said["content"][2] == MESSAGE["content"][2]
    assert said["content"][1]["text"] == CITED["text"] and said["stop_reason"] == "tool_use"
    assert said["usage"]["output_tokens"] == 11 and said["usage"]["cache_read_input_tokens"] == 7


def test_it_is_said_as_a_chat_completion() -> None:
    told = from_object(orjson.dumps(MESSAGE))
    assert told is not None and told.whole and told.calls_tools()
    assert told.text() == CITED["text"] and told.finish_reason() == "tool_calls"
    usage = told.usage()
    assert usage is not None
    assert (usage.prompt_tokens, usage.completion_tokens, usage.cached_tokens) == (14, 11, 7)


@pytest.mark.parametrize(
    ("reason", "finish"),
    [
        ("end_turn", "stop"),
        ("stop_sequence", "stop"),
        ("max_tokens", "length"),
        ("refusal", "content_filter"),
        ("pause_turn", "pause_turn"),
    ],
)
def test_reasons_to_stop(reason: str, finish: str) -> None:
    told = from_object(orjson.dumps(MESSAGE | {"stop_reason": reason}))
    assert told is not None and told.finish_reason() == finish


def stream(*changed: dict[str, Any]) -> bytes:
    return b"".join(b"data: " + orjson.dumps(event) + b"\n\n" for event in changed)


def _said() -> list[dict[str, Any]]:
    return [orjson.loads(data) for data in events(as_events(MESSAGE))]


def test_usage_is_what_the_last_event_says_of_all() -> None:
    said = copy.deepcopy(_said())
    said[0]["message"]["usage"] = {"input_tokens": 5, "output_tokens": 1}
    said[-2]["usage"] = {"output_tokens": 20, "input_tokens": None}
    told = from_events(stream(*said))
    usage = told.usage() if told else None
    assert usage is not None and (usage.prompt_tokens, usage.completion_tokens) == (5, 20)


def test_what_vllm_adds_is_no_part_of_the_answer() -> None:
    begun = {"type": "message_start", "message": {"id": "chatcmpl-1", "content": [], "model": "m"}}
    ended = {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": USAGE}
    body = stream(begun, *_said()[1:-2], ended, {"type": "message_stop"}) + b"data: [DONE]\n\n"
    told = from_events(body)
    assert told is not None and told.whole and told.finish_reason() == "stop" and told.own is not None
    assert told.own == MESSAGE | {"id": "chatcmpl-1", "model": "m", "stop_reason": "end_turn"}


def test_pings_say_nothing_and_what_is_not_understood_is_not_whole() -> None:
    said = _said()
    for more, whole in (({"type": "ping"}, True), ({"type": "brand_new"}, False)):
        told = from_events(stream(said[0], more, *said[1:]))
        assert told is not None and told.whole is whole
    for cut in (said[:-1], said[:-2] + said[-1:], said[:5]):
        told = from_events(stream(*cut))
        assert told is not None and not told.whole
    odd = {"type": "content_block_delta", "index": 0, "delta": {"type": "brand_new_delta"}}
    told = from_events(stream(*said[:2], odd, *said[2:]))
    assert told is not None and not told.whole


def test_an_error_halfway_is_not_whole() -> None:
    error = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
    told = from_events(stream(*_said()[:4], error))
    assert told is not None and not told.whole
    assert from_events(stream(error)) is None and from_object(orjson.dumps(error)) is None
