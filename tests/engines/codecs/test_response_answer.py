"""Answers of `/v1/responses`: read from their events, and said as events again."""

from __future__ import annotations

from functools import partial
from typing import Any

import orjson
import pytest

from engines.answers.response import Response
from engines.codecs.response_answer import as_events, only_messages
from engines.sse import events
from tests import answers

USAGE = {
    "input_tokens": 7,
    "output_tokens": 3,
    "total_tokens": 10,
    "input_tokens_details": {"cached_tokens": 2},
}


from_events, from_object = (
    partial(answers.from_events, merge=Response),
    partial(answers.from_json, merge=Response),
)


def response(text: str = "Forty-two.", **more: Any) -> dict[str, Any]:
    part = {"type": "output_text", "text": text, "annotations": [{"type": "url_citation"}], "logprobs": []}
    item = {"id": "msg_1", "type": "message", "role": "assistant", "status": "completed", "content": [part]}
    made = {"id": "resp_1", "object": "response", "created_at": 1, "model": "m", "status": "completed"}
    return made | {"error": None, "output": [item], "usage": USAGE} | more


def told(body: bytes) -> list[dict[str, Any]]:
    return [orjson.loads(data) for data in events(body)]


@pytest.mark.parametrize("text", ["", "Forty-two.", "wörld 🙂 " * 300])
def test_a_replay_numbers_its_events_and_says_all_of_the_answer(text: str) -> None:
    whole = response(text)
    body = as_events(whole)
    found = told(body)
    assert [one["sequence_number"] for one in found] == list(range(len(found)))
    assert found[0]["response"]["status"] == "in_progress" and found[0]["response"]["usage"] is None
    assert found[-1]["type"] == "response.completed" and found[-1]["response"] == whole
    deltas = [one["delta"] for one in found if one["type"] == "response.output_text.delta"]
    assert "".join(deltas) == text and b"[DONE]" not in body
    again = from_events(body)
    assert again is not None and again.whole and again.own == whole and again.text() == text
    assert told(as_events(whole, after=3)) == found[4:]


def test_refusals_and_calls_are_replayed_too() -> None:
    refusal = {"type": "refusal", "refusal": "No."}
    refused = response(output=[{"id": "m", "type": "message", "role": "assistant", "content": [refusal]}])
    kinds = [one["type"] for one in told(as_events(refused))]
    assert "response.refusal.delta" in kinds and "response.refusal.done" in kinds
    call = {"id": "fc", "type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"}
    assert told(as_events(response(output=[call])))[2]["item"] == call


def test_an_answer_is_said_as_a_chat_completion() -> None:
    found = from_object(orjson.dumps(response()))
    assert found is not None and found.whole
    usage = found.usage()
    assert usage is not None
    assert (usage.prompt_tokens, usage.completion_tokens, usage.cached_tokens) == (7, 3, 2)
    assert (found.text(), found.finish_reason()) == ("Forty-two.", "stop")
    call = {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"}
    called = from_object(orjson.dumps(response(output=[call])))
    assert called is not None and called.calls_tools() and called.finish_reason() == "tool_calls"


@pytest.mark.parametrize(
    ("more", "whole", "reason"),
    [
        ({"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}}, True, "length"),
        (
            {"status": "incomplete", "incomplete_details": {"reason": "content_filter"}},
            True,
            "content_filter",
        ),
        ({"status": "failed", "error": {"code": "server_error"}}, False, "error"),
        ({"status": "queued"}, False, ""),
    ],
)
def test_how_it_ended_is_told(more: dict[str, Any], whole: bool, reason: str) -> None:
    found = from_object(orjson.dumps(response(**more)))
    assert found is not None and (found.whole, found.finish_reason()) == (whole, reason)


def test_a_stream_that_broke_off_is_what_it_said_so_far() -> None:
    body = as_events(response("one two three four five six seven"))
    cut = from_events(body[: body.index(b"event: response.output_text.done")])
    assert cut is not None and not cut.whole and cut.text().startswith("one two")
    assert from_events(b"data: 1\n\n: x\n\n") is None
    garbled = from_events(b"data: {garbled\n\n" + body)
    assert garbled is not None and not garbled.whole


def test_an_end_without_its_output_is_put_together_from_its_items() -> None:
    whole = response()
    lines = told(as_events(whole))
    lines[-1]["response"] = {**whole, "output": []}
    body = b"".join(b"data: " + orjson.dumps(one) + b"\n\n" for one in lines)
    found = from_events(body)
    assert found is not None and found.own == whole


def test_what_is_no_response_is_none() -> None:
    for body in (b"", b"[]", b'{"error":{}}', b"not json"):
        assert from_object(body) is None


def test_only_messages_of_text_are_replayed() -> None:
    assert only_messages(response())
    message = response()["output"][0]
    for others in ([], [{"type": "reasoning"}, message], [{"type": "function_call"}], "x"):
        assert not only_messages(response(output=others))
