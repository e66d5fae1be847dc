"""What an answer used: told at its end, else estimated from all that was said; in every API, whoever left when."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from engines.answers.heard import characters
from engines.answers.reader import Reader
from engines.chat import Usage
from engines.sse import DONE, encode

EVENTS = "text/event-stream"


def chat(delta: dict[str, Any], end: str | None = None, **top: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": delta, "finish_reason": end}]} | top


def call(name: str = "", arguments: str = "") -> dict[str, Any]:
    return {"tool_calls": [{"index": 0, "id": "call_0", "function": {"name": name, "arguments": arguments}}]}


CHAT_USAGE = {"prompt_tokens": 10, "completion_tokens": 500, "total_tokens": 510}
START = {"type": "message_start", "message": {"usage": {"input_tokens": 12, "output_tokens": 1}}}
STREAMS: dict[str, list[dict[str, Any]]] = {
    "text": [*[chat({"content": "w" * 40})] * 5, chat({}, "stop"), {"choices": [], "usage": CHAT_USAGE}],
    "tool calls": [
        chat(call("look", "")),
        *[chat(call("", '{"a":' * 8))] * 5,
        chat({}, "tool_calls", usage=CHAT_USAGE),
    ],
    "reasoning": [*[chat({"reasoning_content": "hm" * 20})] * 5, chat({}, "stop", usage=CHAT_USAGE)],
    "refusal": [*[chat({"refusal": "no" * 20})] * 5, chat({}, "stop", usage=CHAT_USAGE)],
    "transcript": [
        *[chat({"audio": {"data": "Q" * 4000, "transcript": "la" * 20}})] * 5,
        chat({}, "stop", usage=CHAT_USAGE),
    ],
    "cumulative": [
        *[
            chat({"content": "w" * 40}, usage={"prompt_tokens": 10, "completion_tokens": i})
            for i in range(1, 6)
        ],
        chat({}, "stop", usage=CHAT_USAGE),
    ],
    "messages": [
        START,
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        *[{"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "w" * 40}}] * 5,
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 500}},
        {"type": "message_stop"},
    ],
    "responses": [
        {"type": "response.created", "response": {"status": "in_progress", "output": [], "usage": None}},
        *[{"type": "response.function_call_arguments.delta", "delta": "w" * 40}] * 5,
        {"type": "response.completed", "response": {"usage": {"input_tokens": 10, "output_tokens": 500}}},
    ],
}


@pytest.mark.parametrize("name", STREAMS)
def test_a_stream_left_at_any_event_used_at_least_what_it_said(name: str) -> None:
    said = STREAMS[name]
    reader, words = Reader(EVENTS), 0
    for event in said:
        reader.feed(encode(orjson.dumps(event)))
        used = reader.usage(7)
        words += (
            40
            if "www" in str(event) or any(word in str(event) for word in ("hmhm", "nono", "lala", '{"a":{'))
            else 0
        )
        assert used.completion_tokens >= words / 4 and used.prompt_tokens >= 7
        assert used.estimated or used.completion_tokens == 500
    reader.feed(DONE)
    assert reader.usage(7).completion_tokens == 500 and not reader.usage(7).estimated


def test_what_the_sum_holds_beyond_the_prompt_is_output() -> None:
    reader = Reader("application/json")
    usage = {"prompt_tokens": 10120, "completion_tokens": 1499, "total_tokens": 14428}
    reader.feed(orjson.dumps({"choices": [], "usage": usage}))
    assert reader.told() == Usage(10120, 4308)


@pytest.mark.parametrize(
    "told",
    [
        {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop", "usage": CHAT_USAGE}]},
        chat({}, "stop", x_groq={"id": "r", "usage": CHAT_USAGE}),
    ],
    ids=["moonshot", "groq"],
)
def test_usage_is_read_wherever_a_provider_says_it(told: dict[str, Any]) -> None:
    reader = Reader(EVENTS)
    for event in (chat({"content": "x"}), told):
        reader.feed(encode(orjson.dumps(event)))
    assert reader.told() == Usage(10, 500)


def test_an_answer_that_cannot_be_read_is_estimated_by_its_size() -> None:
    reader = Reader("application/json", "br")
    reader.feed(b"x" * 400)
    assert reader.usage(7) == Usage(7, 100, estimated=True)
    half = Reader("application/json")
    half.feed(b'{"choices": [{"message": {"content": "' + b"x" * 400)
    assert half.usage(7).completion_tokens > 100 and half.usage(7).estimated


def test_bytes_and_names_of_things_are_no_words() -> None:
    assert characters({"role": "assistant", "id": "x" * 50, "content": "four"}) == 4
    assert characters([{"type": "image_url", "image_url": {"url": "data:" + "A" * 99}}]) == 0
    assert characters({"type": "redacted_thinking", "data": "x" * 40}) == 40
    assert characters({"name": "f", "input": {"a": 1}}) == 8
