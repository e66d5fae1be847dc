"""What is no answer although its status is 200, and where a stream begins to say something."""

from __future__ import annotations

import gzip
import json
from typing import Any

import pytest

from engines.answers.beginning import Begun, begun, wrong_with
from tests.flow.line import completion, events


def body(**fields: Any) -> bytes:
    return json.dumps(fields).encode()


@pytest.mark.parametrize(
    "wrong",
    [
        b"",
        b"<html>busy</html>",
        body(error={"message": "overloaded"}),
        json.dumps(completion("Forty-two."))[:-20].encode(),
        json.dumps(completion("")).encode(),
        json.dumps(completion("x", message={"content": None})).encode(),
        b'"Forty-two."',
    ],
)
def test_what_is_no_answer_is_none_packed_or_not(wrong: bytes) -> None:
    assert wrong_with(wrong, {}) is not None
    assert wrong_with(gzip.compress(wrong), {"Content-Encoding": "gzip"}) is not None


@pytest.mark.parametrize(
    "right",
    [
        completion("Forty-two."),
        completion("x", message={"content": None, "refusal": "No."}),
        completion("x", message={"content": None, "tool_calls": [{"id": "1"}]}),
        completion("", finish_reason="length"),
        completion("", finish_reason="content_filter"),
        {"error": {"message": "ignored"}} | completion("Forty-two."),
        {"object": "list", "data": [], "error": None},
    ],
)
def test_what_is_an_answer_is_one(right: dict[str, Any]) -> None:
    assert wrong_with(json.dumps(right).encode(), {}) is None


def test_what_cannot_be_read_or_is_too_large_is_taken_for_an_answer() -> None:
    assert wrong_with(b"\x1b\x00", {"Content-Encoding": "br"}) is None
    assert wrong_with(gzip.compress(b" " * 2**21), {"Content-Encoding": "gzip"}) is None


def stream(*chunks: Any) -> bytes:
    return b"".join(b"data: " + json.dumps(chunk).encode() + b"\n\n" for chunk in chunks)


def chunk(delta: dict[str, Any], finish: str | None = None, **more: Any) -> dict[str, Any]:
    return {"id": "1", "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]} | more


@pytest.mark.parametrize(
    ("piece", "amounts_to"),
    [
        (b"", Begun.NOTHING),
        (b": keep-alive\n\n", Begun.NOTHING),
        (b"data: [DONE]\n\n", Begun.NOTHING),
        (stream(chunk({"role": "assistant", "content": ""})), Begun.NOTHING),
        (stream({"choices": [], "prompt_filter_results": []}), Begun.NOTHING),
        (stream(chunk({"role": "assistant"}), chunk({"content": "Forty"})), Begun.DATA),
        (stream(chunk({"reasoning_content": "Hm"})), Begun.DATA),
        (stream(chunk({"tool_calls": [{"index": 0}]})), Begun.DATA),
        (stream(chunk({}, "stop")), Begun.DATA),
        (b"data: not JSON\n\n", Begun.DATA),
        (stream({"type": "response.created"}), Begun.NOTHING),
        (stream({"error": {"message": "busy"}}), Begun.FAILED),
        (stream(chunk({"role": "assistant"}), {"error": {"code": 429}}), Begun.FAILED),
        (stream(chunk({}, "error", error={"code": 502})), Begun.FAILED),
        (stream(chunk({"content": ""}, "error")), Begun.FAILED),
        (stream(chunk({"content": "Forty"}), {"error": {}}), Begun.DATA),
    ],
)
def test_where_a_stream_begins_to_say_something(piece: bytes, amounts_to: Begun) -> None:
    assert begun(piece) is amounts_to


def test_a_whole_stream_says_something() -> None:
    assert begun(b"".join(events("Forty-two.", usage=True))) is Begun.DATA
