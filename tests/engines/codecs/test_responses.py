"""The codec of `/v1/responses`: what is changed, when a stream is over, and what a replay repeats of its request."""

from __future__ import annotations

import gzip
from typing import Any

import orjson
import pytest

from engines.answers.answer import Body
from engines.answers.beginning import Begun, begun, wrong_with
from engines.answers.tail import InflatedTail, Tail
from engines.chat import IN_BODY, ChatRequest
from engines.codecs.response_answer import as_events
from engines.codecs.response_request import said_before
from engines.codecs.responses import RESPONSES
from engines.codecs.table import codec_of
from tests.engines.codecs.test_response_answer import response, told

EVENTS = {"Content-Type": "text/event-stream"}


def read(**fields: Any) -> ChatRequest:
    return RESPONSES.read(orjson.dumps(fields), fields)


def test_it_is_asked_under_another_name_and_by_ourselves() -> None:
    chat = read(model="m", input="Hi", user="u", stream=True, max_output_tokens=9)
    assert codec_of(chat) is RESPONSES and RESPONSES.changed(chat, model="m") is chat
    assert orjson.loads(RESPONSES.changed(chat, model="n").body)["model"] == "n"
    again = RESPONSES.again(chat, chat.messages, without=frozenset({"user"}), max_tokens=5)
    assert orjson.loads(again.body) == {
        "model": "m",
        "input": "Hi",
        "stream": False,
        "store": False,
        "max_output_tokens": 5,
    }


def test_a_conversation_that_was_kept_is_put_before_the_input() -> None:
    chat = read(model="m", input="And then?", previous_response_id="resp_1", instructions="Be brief.")
    call = {
        "type": "function_call",
        "id": "fc",
        "status": "completed",
        "call_id": "c",
        "name": "f",
        "arguments": "{}",
    }
    output = [{"type": "reasoning", "id": "rs"}, response()["output"][0], call]
    before = [{"role": "user", "content": "Hi"}, *said_before(output)]
    made = RESPONSES.said_here(chat, before, {})
    assert made.state == IN_BODY and orjson.loads(made.body) == {
        "model": "m",
        "instructions": "Be brief.",
        "input": [
            {"role": "user", "content": "Hi"},
            {"role": "assistant", "content": "Forty-two."},
            {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"},
            {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "And then?"}]},
        ],
    }
    items: list[Any] = [
        {"id": "msg_1"},
        {"type": "item_reference", "id": "msg_2"},
        {"role": "user", "content": "And?"},
    ]
    named = read(input=items, background=True)
    made = RESPONSES.said_here(named, None, {"msg_1": response()["output"][0]})
    assert made.own_fields["input"] == [{"role": "assistant", "content": "Forty-two."}, *items[1:]]
    assert made.state == "background"


def test_integers_beyond_64_bits_survive() -> None:
    chat = read(model="m", input="Hi")
    huge = RESPONSES.read(b"", {"model": "m", "input": "Hi", "seed": 2**70})
    assert str(2**70).encode() in RESPONSES.changed(huge, model="n").body
    assert chat.own_fields == {"model": "m", "input": "Hi"}


def test_a_stream_is_over_with_its_terminal_event_however_large() -> None:
    for text in ("short", "long " * 10_000):
        body = as_events(response(text))
        tail = RESPONSES.tail(EVENTS)
        assert tail is not None
        for at in range(0, len(body), 1000):
            assert not tail.finished()
            tail.feed(body[at : at + 1000])
        assert tail.finished() and tail.done() and not tail.cut(delimited=True)
    # As vLLM orders its members: only the line before them tells.
    tail = Tail(ends=RESPONSES.ends)
    tail.feed(
        b'event: response.completed\ndata: {"response":"'
        + b"x" * 20_000
        + b'","type":"response.completed"}\n\n'
    )
    assert tail.finished()


def test_a_break_is_told_under_the_next_number() -> None:
    body = as_events(response())
    cut = body[: body.index(b"event: response.output_text.done")]
    for tail, sent in (
        (RESPONSES.tail(EVENTS), cut),
        (InflatedTail(ends=RESPONSES.ends), gzip.compress(cut)),
    ):
        assert tail is not None
        tail.feed(sent)
        assert not tail.finished()
        (event,) = told(tail.error_event("It broke.", "broken"))
        assert event == {
            "type": "error",
            "sequence_number": len(told(cut)),
            "code": "broken",
            "message": "It broke.",
            "param": None,
        }
    assert told(Tail(ends=RESPONSES.ends).error_event("It broke.", "broken"))[0]["sequence_number"] == 0
    assert RESPONSES.tail({"Content-Type": "application/json"}) is None
    assert isinstance(RESPONSES.tail(EVENTS | {"Content-Encoding": "gzip"}), InflatedTail)


@pytest.mark.parametrize(
    ("piece", "amounts_to"),
    [
        (
            b'data: {"type":"response.created"}\n\ndata: {"type":"response.output_item.added"}\n\n',
            Begun.NOTHING,
        ),
        (b'data: {"type":"response.created"}\n\ndata: {"type":"response.output_text.delta"}\n\n', Begun.DATA),
        (b'data: {"type":"response.of_next_year"}\n\n', Begun.DATA),
        (b'data: {"type":"response.failed"}\n\n', Begun.FAILED),
        (b'event: error\ndata: {"type":"error","message":"x"}\n\n', Begun.FAILED),
        (b": keepalive\n\n", Begun.NOTHING),
        (b"data: not json\n\n", Begun.DATA),
    ],
)
def test_what_its_first_events_amount_to(piece: bytes, amounts_to: Begun) -> None:
    assert begun(piece) is amounts_to


def test_a_replay_repeats_the_fields_of_who_asks_now() -> None:
    stored = orjson.dumps(response(user="ann", store=True, metadata={}))
    assert RESPONSES.replayed(stored, read(model="m", input="Hi", user="ann")) is stored
    bobs = orjson.loads(RESPONSES.replayed(stored, read(model="m", input="Hi", user="bob", store=False)))
    assert (bobs["user"], bobs["store"]) == ("bob", False)
    assert orjson.loads(RESPONSES.replayed(stored, read(model="m", input="Hi")))["user"] is None
    last = told(RESPONSES.events(stored, read(model="m", input="Hi", stream=True)))[-1]
    assert last["response"]["user"] is None and last["response"]["store"] is True


def test_what_is_remembered() -> None:
    plain = RESPONSES.assembled(Body((orjson.dumps(response()),), 1, "application/json"))
    assert plain is not None and orjson.loads(RESPONSES.stored(plain)) == response()
    assert RESPONSES.refusal(read(input="Hi"), plain) is None
    assert RESPONSES.refusal(read(input="Hi", background=True), plain) == "stateful"
    call = {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"}
    stream = as_events(response(output=[call]))
    called = RESPONSES.assembled(Body((stream,), len(stream), "text/event-stream; charset=utf-8"))
    assert called is not None and RESPONSES.refusal(read(input="Hi"), called) == "not_only_messages"
    assert RESPONSES.assembled(Body()) is None
    assert wrong_with(b"", {}) == "empty" and b'"param":"x"' in RESPONSES.error(400, "No.", param="x")
