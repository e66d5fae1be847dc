"""The codec of Anthropic's API: how its streams begin and end, what is remembered, and its errors."""

from __future__ import annotations

import gzip
import json
from typing import Any

import orjson
import pytest

from engines.answers.answer import Body
from engines.answers.beginning import Begun, begun, wrong_with
from engines.codecs.message_answer import as_events
from engines.codecs.messages import MESSAGES
from engines.codecs.table import CODECS, codec_of, request_id_header
from tests.engines.codecs.test_message_answer import MESSAGE, stream

FIELDS = {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "Hi"}]}
EVENTS = {"Content-Type": "text/event-stream"}
START = {"type": "message_start", "message": {}}
DELTA = {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "a"}}
ERROR = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}


def test_a_request_is_changed_in_its_own_format() -> None:
    chat = MESSAGES.read(orjson.dumps(FIELDS), dict(FIELDS))
    assert codec_of(chat) is CODECS["messages"] is MESSAGES and MESSAGES.changed(chat, model="m") is chat
    assert json.loads(MESSAGES.changed(chat, model="n").body) == FIELDS | {"model": "n"}
    big = MESSAGES.read(b"{}", FIELDS | {"metadata": {"x": 2**70}})
    assert json.loads(MESSAGES.changed(big, model="n").body)["metadata"] == {"x": 2**70}
    again = MESSAGES.again(chat, chat.messages, without=frozenset({"metadata"}), max_tokens=4)
    assert json.loads(again.body) == FIELDS | {"max_tokens": 4, "stream": False}


@pytest.mark.parametrize(
    ("said", "amounts_to"),
    [
        ([START, {"type": "ping"}, {"type": "content_block_start"}], Begun.NOTHING),
        ([START, DELTA], Begun.DATA),
        ([START, {"type": "brand_new"}], Begun.DATA),
        ([START, ERROR], Begun.FAILED),
    ],
)
def test_how_a_stream_begins(said: list[dict[str, Any]], amounts_to: Begun) -> None:
    assert begun(stream(*said)) is amounts_to
    assert begun(stream(START) + b'data: {"type": "cont', cut=True) is Begun.NOTHING


@pytest.mark.parametrize("encoding", ["identity", "gzip"])
def test_a_stream_ends_with_its_last_event(encoding: str) -> None:
    pack = gzip.compress if encoding == "gzip" else bytes
    for body, finished in ((as_events(MESSAGE), True), (stream(START, DELTA), False)):
        tail = MESSAGES.tail(EVENTS | {"Content-Encoding": encoding})
        assert tail is not None
        tail.feed(pack(body))
        assert tail.finished() is tail.done() is finished and tail.cut(delimited=True) is not finished
        assert not tail.failed()
    assert MESSAGES.tail({"Content-Type": "application/json"}) is None


def test_an_error_ends_a_stream_and_is_said_as_it_is_said_here() -> None:
    tail = MESSAGES.tail(EVENTS)
    assert tail is not None
    tail.feed(stream(START, ERROR))
    assert tail.finished() and tail.failed()
    kind, data = tail.error_event("Broken.", "upstream_stream_broken").strip().split(b"\n")
    assert kind == b"event: error"
    said = {"type": "api_error", "message": "Broken.", "code": "upstream_stream_broken"}
    assert json.loads(data.removeprefix(b"data: ")) == {"type": "error", "error": said}


def test_what_is_wrong_with_an_answer() -> None:
    assert wrong_with(orjson.dumps(MESSAGE | {"content": []}), {}) is None
    assert wrong_with(gzip.compress(orjson.dumps(MESSAGE)), {"Content-Encoding": "gzip"}) is None
    assert wrong_with(b"?", {"Content-Encoding": "br"}) is None
    told = [wrong_with(body, {}) for body in (b"", b"{", b"[]", orjson.dumps(ERROR))]
    assert told == ["empty", "no JSON", "no object", "an error"]


def test_what_is_remembered_and_said_again() -> None:
    body = as_events(MESSAGE)
    chat = MESSAGES.read(b"{}", dict(FIELDS))
    for kept in (
        Body((body,), len(body), "text/event-stream"),
        Body((orjson.dumps(MESSAGE),), 9, "application/json"),
    ):
        told = MESSAGES.assembled(kept)
        assert told is not None and told.whole and MESSAGES.refusal(chat, told) is None
        stored = MESSAGES.stored(told)
        assert orjson.loads(MESSAGES.replayed(stored, chat)) == MESSAGE
        assert MESSAGES.events(stored, chat) == body
    hosted = orjson.dumps(MESSAGE | {"content": [{"type": "server_tool_use"}]})
    told = MESSAGES.assembled(Body((hosted,), len(hosted), "application/json"))
    assert told is not None and MESSAGES.refusal(chat, told) == "not_only_messages"
    stateful = MESSAGES.read(b"{}", FIELDS | {"container": "c"})
    assert MESSAGES.refusal(stateful, told) == "stateful"
    assert MESSAGES.assembled(Body()) is None


@pytest.mark.parametrize(
    ("status", "kind"),
    [(400, "invalid_request_error"), (404, "not_found_error"), (429, "rate_limit_error"), (502, "api_error")],
)
def test_errors_are_said_as_anthropic_says_them(status: int, kind: str) -> None:
    said = json.loads(MESSAGES.error(status, "No.", code="c", param="p"))
    assert said == {"type": "error", "error": {"type": kind, "message": "No.", "code": "c"}}
    assert request_id_header("messages") == "request-id" and request_id_header("chat") == "x-request-id"
