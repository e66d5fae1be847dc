"""The codec of chat completions says what the modules behind it say."""

from __future__ import annotations

import json

import orjson

from engines.answers.answer import Body
from engines.answers.beginning import Begun, begun, wrong_with
from engines.as_events import as_events
from engines.chat import ChatRequest
from engines.chat_json import read_chat_request
from engines.codecs.chat import CHAT
from engines.codecs.codec import Codec
from engines.codecs.table import CODECS, codec_of

FIELDS = {"model": "m", "messages": [{"role": "user", "content": "Hi"}], "stream": True}
BODY = orjson.dumps(FIELDS)
ANSWER = orjson.dumps(
    {"id": "c", "choices": [{"index": 0, "message": {"content": "Hello"}, "finish_reason": "stop"}]}
)


def read() -> ChatRequest:
    return CHAT.read(BODY, dict(FIELDS))


def test_it_reads_and_changes_a_request_as_a_chat_completion() -> None:
    codec: Codec = CHAT
    chat = codec.read(BODY, dict(FIELDS))
    assert chat == read_chat_request(BODY, dict(FIELDS))
    assert codec_of(chat) is codec_of(None) is CHAT is CODECS["chat"]
    assert codec.changed(chat) is chat
    assert json.loads(codec.changed(chat, model="n").body)["model"] == "n"
    assert chat.own_fields is chat.fields


def test_it_replays_what_was_stored() -> None:
    assembled = CHAT.assembled(Body((ANSWER,), len(ANSWER), "application/json"))
    assert assembled is not None and assembled.text() == "Hello"
    assert CHAT.refusal(read(), assembled) is None
    assert CHAT.replayed(ANSWER, read()) == ANSWER
    assert orjson.loads(CHAT.stored(assembled)) == orjson.loads(ANSWER)
    assert CHAT.events(ANSWER, read()) == as_events(ANSWER, include_usage=False)


def test_its_streams_end_and_break_as_those_of_chat_completions() -> None:
    tail = CHAT.tail({"Content-Type": "text/event-stream"})
    assert tail is not None and not tail.finished()
    assert tail.error_event("It broke.", "broken").startswith(b'\n\ndata: {"error":')
    tail.feed(b"data: [DONE]\n\n")
    assert tail.finished()
    assert begun(b": comment\n\n") is Begun.NOTHING
    assert wrong_with(b"", {}) == "empty"
    assert b'"param":"x"' in CHAT.error(400, "No.", param="x")
