"""Answers as servers say them that are not quite as their API has them, heard and said part by part."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from engines.answers.usage import usage_of
from engines.chat import ChatRequest
from engines.codecs.parts import Saying
from engines.codecs.table import CODECS
from engines.sse import events

APIS = ("chat", "responses", "messages")


def asked(api: str, **more: Any) -> ChatRequest:
    said = {"input": "Hi"} if api == "responses" else {"messages": [{"role": "user", "content": "Hi"}]}
    fields = {"model": "m", "stream": True, **said, **more}
    return CODECS[api].read(orjson.dumps(fields), fields)


def heard(client: str, engine: str, said: list[dict[str, Any]], *, done: bool = True, **more: Any) -> Saying:
    saying = CODECS[client].saying(asked(client, **more), streams=True)
    hearing = CODECS[engine].hearing(saying)
    for event in said:
        hearing.hear(event)
    if done:
        hearing.done()
    return saying


def chunk(reason: str | None = None, **delta: Any) -> dict[str, Any]:
    choice = {"index": 0, "delta": delta, "finish_reason": reason}
    return {"id": "1", "object": "chat.completion.chunk", "model": "m", "choices": [choice]}


def call(name: str = "", arguments: str = "", **more: Any) -> dict[str, Any]:
    return more | {"function": {"name": name, "arguments": arguments} if name else {"arguments": arguments}}


def blocks(saying: Saying) -> list[dict[str, Any]]:
    return list(saying.whole()["content"])


def test_calls_are_told_apart_by_their_ids_where_all_have_one_index() -> None:
    said = [
        chunk(tool_calls=[call("a", '{"x":1}', index=0, id="c1"), call("b", '{"y":2}', index=0, id="c2")]),
        chunk("tool_calls"),
    ]
    uses = [(block["id"], block["name"], block["input"]) for block in blocks(heard("messages", "chat", said))]
    assert uses == [("c1", "a", {"x": 1}), ("c2", "b", {"y": 2})]


def test_a_server_that_repeats_a_calls_id_goes_on_with_it() -> None:
    pieces = [call("a", '{"x"', index=0, id="c1"), call("", ":1}", index=0, id="c1"), call("", " ", index=0)]
    said = [chunk(tool_calls=[each]) for each in pieces]
    assert blocks(heard("messages", "chat", [*said, chunk("tool_calls")]))[0]["input"] == {"x": 1}


def test_a_call_that_goes_on_after_another_began_is_not_guessed_at() -> None:
    said = [
        chunk(tool_calls=[call("a", "{", index=0, id="c1")]),
        chunk(tool_calls=[call("b", "{}", index=1, id="c2")]),
        chunk(tool_calls=[call("", "}", index=0)]),
    ]
    with pytest.raises(ValueError, match="after another one began"):
        heard("messages", "chat", said)


def test_arguments_that_are_no_json_are_told_to_the_model_again() -> None:
    said = [chunk(tool_calls=[call("a", '{"x":', index=0, id="c1")]), chunk("length")]
    assert blocks(heard("messages", "chat", said))[0]["input"] == {"INVALID_JSON": '{"x":'}


def test_thinking_in_parts_of_a_content_is_reasoning() -> None:
    thinking = [{"type": "thinking", "thinking": [{"type": "text", "text": "Hm."}]}]
    said = [chunk(content=thinking), chunk(content="Yes."), chunk("stop")]
    thought, text = blocks(heard("messages", "chat", said))
    assert (thought["thinking"], text["text"]) == ("Hm.", "Yes.")


@pytest.mark.parametrize("client", APIS)
def test_a_stream_without_its_end_has_none(client: str) -> None:
    saying = heard(client, "chat", [chunk(content="Yes")])
    assert not saying.ended
    kinds = [orjson.loads(data).get("type") for data in events(saying.take())]
    assert not {"message_stop", "response.completed"} & set(kinds)


@pytest.mark.parametrize("client", APIS)
def test_what_is_not_told_of_the_usage_is_estimated_and_says_so(client: str) -> None:
    used = usage_of(heard(client, "chat", [chunk(content="Yes, indeed."), chunk("stop")]).whole())
    assert used is not None and used.estimated
    assert (used.prompt_tokens, used.completion_tokens) == (5, 3)


def test_a_choice_that_ends_in_an_error_fails() -> None:
    saying = heard("messages", "chat", [chunk(content="Yes"), chunk("error")])
    assert saying.failure is not None and not saying.ended


def test_a_stop_sequence_is_told_to_who_has_a_word_for_it() -> None:
    end = {"type": "message_delta", "delta": {"stop_reason": "stop_sequence", "stop_sequence": "END"}}
    begun = {"type": "message_start", "message": {"id": "msg_1", "model": "m"}}
    said = [begun, end, {"type": "message_stop"}]
    assert heard("chat", "messages", said).whole()["choices"][0]["stop_reason"] == "END"
    assert heard("responses", "messages", said).lost == {"stop_sequence"}


def test_a_tool_without_arguments_is_called_with_none() -> None:
    block = {"type": "tool_use", "id": "c1", "name": "a", "input": {}}
    said = [
        {"type": "message_start", "message": {"id": "msg_1", "model": "m"}},
        {"type": "content_block_start", "index": 0, "content_block": block},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "tool_use"}},
        {"type": "message_stop"},
    ]
    (made,) = heard("chat", "messages", said).whole()["choices"][0]["message"]["tool_calls"]
    assert made["function"] == {"name": "a", "arguments": "{}"}


def test_a_custom_tool_is_called_with_its_text() -> None:
    tools = [{"type": "custom", "name": "patch"}]
    said = [
        chunk(tool_calls=[call("patch", '{"inp', index=0, id="c1")]),
        chunk(tool_calls=[call("", 'ut":"a\\nb"}', index=0)]),
        chunk("tool_calls"),
    ]
    saying = heard("responses", "chat", said, tools=tools)
    (item,) = saying.whole()["output"]
    assert (item["type"], item["call_id"], item["input"]) == ("custom_tool_call", "c1", "a\nb")
    kinds = [orjson.loads(data)["type"] for data in events(saying.take())]
    assert kinds.count("response.custom_tool_call_input.delta") == 1


def test_what_only_its_engine_can_read_comes_back_to_it() -> None:
    said = [
        {"type": "message_start", "message": {"id": "msg_1", "model": "m"}},
        {"type": "content_block_start", "content_block": {"type": "redacted_thinking", "data": "x+y="}},
        {"type": "content_block_stop"},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}},
        {"type": "message_stop"},
    ]
    (item,) = heard("responses", "messages", said).whole()["output"]
    assert item["encrypted_content"] == "anthropic.redacted:x+y="
    message = heard("chat", "messages", said).whole()["choices"][0]["message"]
    assert message["thinking_blocks"] == [{"type": "redacted_thinking", "data": "x+y="}]


@pytest.mark.parametrize("client", APIS)
def test_what_no_api_has_a_word_for_is_noted(client: str) -> None:
    said = [
        {"type": "message_start", "message": {"id": "msg_1", "model": "m"}},
        {"type": "content_block_start", "content_block": {"type": "server_tool_use", "id": "s", "name": "x"}},
        {"type": "content_block_delta", "delta": {"type": "input_json_delta", "partial_json": "{}"}},
        {"type": "content_block_stop"},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}},
        {"type": "message_stop"},
    ]
    saying = heard(client, "messages", said)
    assert saying.ended and saying.lost == {"server_tool_use"}


def test_an_item_that_came_without_pieces_is_said_at_its_end() -> None:
    part = {"type": "output_text", "text": "Yes.", "annotations": [{"type": "url_citation"}]}
    item = {"type": "message", "id": "msg_1", "content": [part]}
    response = {"id": "resp_1", "model": "m", "status": "completed", "output": [item]}
    said = [
        {"type": "response.created", "response": response | {"output": []}},
        {"type": "response.output_item.added", "output_index": 0, "item": item | {"content": []}},
        {"type": "response.output_item.done", "output_index": 0, "item": item},
        {"type": "response.completed", "response": response},
    ]
    saying = heard("chat", "responses", said)
    assert saying.whole()["choices"][0]["message"]["content"] == "Yes." and saying.lost == {"annotations"}


def test_reasoning_and_its_summary_are_said_once() -> None:
    where = {"output_index": 0, "item_id": "rs_1"}
    said = [
        {"type": "response.created", "response": {"id": "resp_1", "model": "m"}},
        {"type": "response.output_item.added", "output_index": 0, "item": {"type": "reasoning"}},
        {"type": "response.reasoning_summary_text.delta", **where, "summary_index": 0, "delta": "One."},
        {"type": "response.reasoning_summary_text.delta", **where, "summary_index": 1, "delta": "Two."},
        {"type": "response.reasoning_text.delta", **where, "content_index": 0, "delta": "The same."},
        {"type": "response.output_item.done", "output_index": 0, "item": {"type": "reasoning"}},
        {"type": "response.completed", "response": {"id": "resp_1", "status": "completed", "output": []}},
    ]
    message = heard("chat", "responses", said).whole()["choices"][0]["message"]
    assert message["reasoning_content"] == "One.\n\nTwo."
