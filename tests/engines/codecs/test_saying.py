"""Answers that are made here, in each API's words: what a codec says it reads again, whole and as it grows."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from engines.answers.answer import Body
from engines.answers.tail import tail_of
from engines.chat import ChatRequest, Usage
from engines.codecs.codec import Codec
from engines.codecs.said import Said
from engines.codecs.table import CODECS
from engines.errors import RequestError
from engines.sse import events

ASKED: dict[str, dict[str, Any]] = {
    "chat": {
        "messages": [{"role": "user", "content": "x"}],
        "stream_options": {"include_usage": True},
    },
    "responses": {"input": "x", "metadata": {"mine": '"sequence_number":7'}},
    "messages": {"messages": [{"role": "user", "content": "x"}], "max_tokens": 9},
    "completions": {"prompt": "x", "stream_options": {"include_usage": True}},
}
CALL = {"id": "call_1", "type": "function", "function": {"name": "f", "arguments": '{"a":1}'}}
PIECES = ['The "end"\n\n', "data: [DONE]", " of it."]
WHOLE = Said("abc", 17, "m", "".join(PIECES), usage=Usage(5, 3, 2))
KINDS = {"Content-Type": "text/event-stream"}


def asked(api: str) -> tuple[Codec, ChatRequest]:
    codec, fields = CODECS[api], {"model": "m", "stream": True, **ASKED[api]}
    return codec, codec.read(orjson.dumps(fields), fields)


def grown(api: str, said: Said) -> bytes:
    codec, chat = asked(api)
    saying = codec.saying(chat, streams=True)
    saying.begin(said.id, said.model, said.created_s)
    sent = []
    for piece in PIECES:
        saying.text(piece)
        sent.append(saying.take())
    said.ends(saying)
    return b"".join([*sent, saying.take()])


@pytest.mark.parametrize("api", ASKED)
def test_what_grows_is_read_as_what_came_whole(api: str) -> None:
    codec, chat = asked(api)
    stream, body = grown(api, WHOLE), orjson.dumps(codec.said(WHOLE, chat))
    ways = (
        (stream, "text/event-stream"),
        (body, "application/json"),
        (codec.events(body, chat), "text/event-stream"),
    )
    for sent, kind in ways:
        assembled = codec.assembled(Body([sent], len(sent), kind))
        assert assembled is not None and assembled.whole and not assembled.unmerged
        assert assembled.text() == WHOLE.text and assembled.used(99) == Usage(5, 3, 2)
        assert assembled.finish_reason() == "stop"
    tail = tail_of(KINDS, ends=codec.ends)
    assert tail is not None
    tail.feed(stream)
    assert tail.done() and not tail.failed()


def test_events_of_responses_are_numbered_without_gaps() -> None:
    told = [orjson.loads(each) for each in events(grown("responses", WHOLE))]
    assert [each["sequence_number"] for each in told] == list(range(len(told)))
    deltas = [each["delta"] for each in told if each["type"] == "response.output_text.delta"]
    assert deltas == PIECES and told[-1]["response"]["metadata"] == ASKED["responses"]["metadata"]


@pytest.mark.parametrize("api", ["chat", "responses", "messages"])
@pytest.mark.parametrize("text", ["", WHOLE.text])
def test_calls_of_tools_are_told_beside_the_text(api: str, text: str) -> None:
    codec, chat = asked(api)
    said = Said("abc", 17, "m", text, [CALL], "tool_calls", Usage(5, 3))
    body = orjson.dumps(codec.said(said, chat))
    stream = grown(api, said) if text else codec.events(body, chat)
    for sent, kind in (body, "application/json"), (stream, "text/event-stream"):
        assembled = codec.assembled(Body([sent], len(sent), kind))
        assert assembled is not None and assembled.calls_tools() and (assembled.text() or "") == text
        (call,) = assembled.choices()[0]["message"]["tool_calls"]
        assert (call["id"], call["function"]["name"]) == ("call_1", "f")
        assert orjson.loads(call["function"]["arguments"]) == {"a": 1}


@pytest.mark.parametrize("api", ASKED)
def test_an_answer_that_breaks_off_says_so_last(api: str) -> None:
    codec, chat = asked(api)
    saying = codec.saying(chat, streams=True)
    saying.begin("abc", "m", 17)
    saying.text("Os")
    error = RequestError("Step 'a' failed.", status=424, code="step_failed", param="a")
    stream = saying.take() + codec.failed(error, number=saying.number)
    tail = tail_of(KINDS, ends=codec.ends)
    assert tail is not None
    tail.feed(stream)
    assert tail.finished() and tail.failed()
    last = orjson.loads(list(events(stream))[-1])
    told = last.get("error") or last
    assert (told["message"], told["code"]) == ("Step 'a' failed.", "step_failed")


def test_an_answer_that_was_cut_is_no_whole_response() -> None:
    codec, chat = asked("responses")
    short = codec.said(Said("abc", 17, "m", "Os", finish_reason="length"), chat)
    assert short["status"] == "incomplete"
    assert short["incomplete_details"] == {"reason": "max_output_tokens"}
