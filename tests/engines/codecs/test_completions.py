"""The codec of text completions: one prompt or several, plain and streamed, remembered and said again."""

from __future__ import annotations

import json
from typing import Any

import orjson
import pytest

from engines.answers.answer import Body
from engines.answers.beginning import Begun, begun, wrong_with
from engines.chat import ChatRequest
from engines.codecs.completions import COMPLETIONS
from engines.codecs.table import CODECS, codec_of
from engines.errors import RequestError
from engines.sse import DONE, encode

LOGPROBS = {"tokens": ["a"], "token_logprobs": [-0.1], "top_logprobs": None, "text_offset": [0]}


def choice(index: int, text: str, finish: str | None = None, **more: Any) -> dict[str, Any]:
    return {"text": text, "index": index, "logprobs": None, "finish_reason": finish} | more


HEAD = {"id": "cmpl-1", "object": "text_completion", "created": 1, "model": "m"}
USAGE = {"prompt_tokens": 3, "completion_tokens": 9, "total_tokens": 12}
TEXT = "One two three four five six seven eight nine ten eleven."
ANSWER = HEAD | {"choices": [choice(0, TEXT, "stop"), choice(1, "Another", "stop")], "usage": USAGE}


def read(**fields: Any) -> ChatRequest:
    return COMPLETIONS.read(b"{}", {"model": "m", "prompt": "Once", **fields})


def streamed(*chunks: dict[str, Any]) -> Body:
    body = b"".join(encode(orjson.dumps(chunk)) for chunk in chunks) + DONE
    return Body((body,), len(body), "text/event-stream")


def test_a_prompt_is_no_question() -> None:
    chat = read(max_tokens=5, suffix="!", stream=True, stream_options={"include_usage": True})
    assert chat.messages == [{"role": "prompt", "content": "Once"}]
    assert (chat.api, chat.stream, chat.include_usage, chat.choices) == ("completions", True, True, 1)
    assert chat.fields["max_tokens"] == 5 and chat.own_fields["suffix"] == "!"
    assert codec_of(chat) is CODECS["completions"] is COMPLETIONS


@pytest.mark.parametrize(
    ("prompt", "choices"),
    [(["a", "b"], 4), ([1, 2, 3], 2), ([[1, 2], [3]], 4), ("a", 2), (None, 2)],
)
def test_each_prompt_has_its_choices(prompt: Any, choices: int) -> None:
    assert read(prompt=prompt, n=2).choices == choices


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"prompt": {}}, "prompt"),
        ({"prompt": []}, "prompt"),
        ({"prompt": ["a", {}]}, "prompt[1]"),
        ({"model": 1}, "model"),
        ({"stream": 1}, "stream"),
        ({"stream_options": 1}, "stream_options"),
    ],
)
def test_what_is_wrong_is_named(fields: dict[str, Any], param: str) -> None:
    with pytest.raises(RequestError) as refused:
        read(**fields)
    assert refused.value.param == param


def test_a_request_is_changed_in_its_own_format() -> None:
    chat = read()
    assert COMPLETIONS.changed(chat, messages=chat.messages) is chat
    assert json.loads(COMPLETIONS.changed(chat, model="n").body) == {"model": "n", "prompt": "Once"}
    again = COMPLETIONS.again(read(stream=True, user="u"), [], without=frozenset({"user"}), max_tokens=4)
    assert json.loads(again.body) == {"model": "m", "prompt": "Once", "stream": False, "max_tokens": 4}


def test_a_stream_is_put_together_and_said_again() -> None:
    plain = COMPLETIONS.assembled(Body((orjson.dumps(ANSWER),), 9, "application/json"))
    assert plain is not None and plain.whole and plain.text() == TEXT
    chat = read(stream=True, stream_options={"include_usage": True})
    body = COMPLETIONS.events(COMPLETIONS.stored(plain), chat)
    assert body.endswith(DONE)
    told = COMPLETIONS.assembled(Body((body,), len(body), "text/event-stream"))
    assert told is not None and told.whole and told.own == ANSWER
    usage = told.usage()
    assert usage is not None and usage.completion_tokens == 9
    tail = COMPLETIONS.tail({"Content-Type": "text/event-stream"}, 2)
    assert tail is not None
    tail.feed(body)
    assert tail.finished()
    assert COMPLETIONS.replayed(b"x", chat) == b"x" and COMPLETIONS.refusal(chat, told) is None


def test_logprobs_join_and_what_is_unknown_is_kept() -> None:
    pieces = [choice(0, "a", logprobs=LOGPROBS), choice(0, "b", "stop", logprobs=LOGPROBS)]
    told = COMPLETIONS.assembled(streamed(*(HEAD | {"choices": [piece]} for piece in pieces)))
    assert told is not None and told.whole and told.own is not None
    assert told.own["choices"][0]["logprobs"]["tokens"] == ["a", "a"]
    odd = [
        {"text": "no index", "token_ids": [1]},
        {"text": "!", "token_ids": [2], "stop_reason": 5, "finish_reason": "stop"},
    ]
    told = COMPLETIONS.assembled(streamed(*(HEAD | {"choices": [one]} for one in odd)))
    assert told is not None and told.whole and told.own is not None
    assert told.own["choices"][0] == {
        "index": 0,
        "text": "no index!",
        "token_ids": [1, 2],
        "stop_reason": 5,
        "finish_reason": "stop",
        "logprobs": None,
    }
    told = COMPLETIONS.assembled(streamed(HEAD | {"choices": [choice(0, "a")]}, {"error": {"message": "x"}}))
    assert told is not None and not told.whole
    assert COMPLETIONS.assembled(streamed()) is None and COMPLETIONS.assembled(Body()) is None


def test_how_a_stream_begins() -> None:
    silent, said = HEAD | {"choices": [choice(0, "")]}, HEAD | {"choices": [choice(0, "a")]}
    assert begun(streamed(silent).chunks[0]) is Begun.NOTHING
    assert begun(streamed(silent, said).chunks[0]) is Begun.DATA
    assert begun(streamed({"error": {"message": "x"}}).chunks[0]) is Begun.FAILED
    assert begun(b'data: {"cho', cut=True) is Begun.NOTHING
    assert wrong_with(orjson.dumps(ANSWER), {}) is None
    assert json.loads(COMPLETIONS.error(400, "No."))["error"]["type"] == "invalid_request_error"
