"""A streamed answer becomes one object, an object a stream again, and nothing said is lost on the way."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engines.answers.answer import Assembled
from engines.answers.usage import usage_of
from engines.as_events import as_events
from engines.chat import Usage
from engines.sse import DONE, encode
from tests.answers import from_events, from_json

HEAD = {"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": "m", "system_fingerprint": "fp"}


def chunk(delta: dict[str, Any], finish: str | None = None, index: int = 0, **more: Any) -> bytes:
    choice = {"index": index, "delta": delta, "logprobs": None, "finish_reason": finish} | more
    return encode(json.dumps(HEAD | {"choices": [choice]}).encode())


def stream(*pieces: bytes) -> bytes:
    return b"".join(pieces) + DONE


def test_pieces_join_in_order() -> None:
    answer = from_events(
        stream(
            chunk({"role": "assistant", "content": ""}),
            chunk({"content": "For"}),
            chunk({"content": "ty"}, "stop"),
        )
    )
    assert answer is not None and answer.whole
    assert answer.text() == "Forty" and answer.finish_reason() == "stop"
    assert (
        answer.completion["object"] == "chat.completion" and answer.completion["system_fingerprint"] == "fp"
    )


def test_choices_that_interleave_stay_apart() -> None:
    pieces = [chunk({"content": f"{i}:{k} "}, index=i) for k in range(3) for i in (2, 0, 1)]
    ends = [chunk({}, "stop", index=i) for i in (0, 1, 2)]
    answer = from_events(stream(*pieces, *ends))
    assert answer is not None and answer.whole
    assert [c["message"]["content"] for c in answer.choices()] == [
        "0:0 0:1 0:2 ",
        "1:0 1:1 1:2 ",
        "2:0 2:1 2:2 ",
    ]


def test_tool_calls_are_put_together_from_fragments() -> None:
    first = {
        "tool_calls": [
            {"index": 0, "id": "a", "type": "function", "function": {"name": "f", "arguments": ""}}
        ]
    }
    more = {"tool_calls": [{"index": 0, "function": {"arguments": '{"x":'}}]}
    last = {"tool_calls": [{"index": 0, "function": {"arguments": "1}"}}]}
    answer = from_events(stream(chunk(first), chunk(more), chunk(last), chunk({}, "tool_calls")))
    assert answer is not None and answer.whole and answer.calls_tools()
    call = answer.choices()[0]["message"]["tool_calls"][0]
    assert call == {"id": "a", "type": "function", "function": {"name": "f", "arguments": '{"x":1}'}}


def test_log_probabilities_of_all_chunks_are_kept() -> None:
    pieces = [
        chunk({"content": w}, logprobs={"content": [{"token": w}], "refusal": None}) for w in ("a", "b")
    ]
    answer = from_events(stream(*pieces, chunk({}, "stop")))
    assert answer is not None
    assert [t["token"] for t in answer.choices()[0]["logprobs"]["content"]] == ["a", "b"]


@pytest.mark.parametrize(
    "body",
    [
        chunk({"content": "half"}),
        stream(chunk({"content": "no finish reason"})),
        stream(chunk({"content": "a", "mood": "glad"}), chunk({"mood": "sad"}, "stop")),
        stream(chunk({"content": "a"}), encode(b'{"error":{"message":"m"}}'), chunk({}, "stop")),
        stream(chunk({"content": "a"}), encode(b"{not json"), chunk({}, "stop")),
        stream(chunk({"content": "a"}, brand_new=1), chunk({}, "stop", brand_new={"a": 1})),
    ],
    ids=["cut", "no finish", "two values of a delta", "error", "bad json", "two types in a choice"],
)
def test_what_is_not_whole_or_not_understood_is_never_taken_for_whole(body: bytes) -> None:
    answer = from_events(body)
    assert answer is not None and not answer.whole


def test_a_stream_whose_choices_ended_is_whole_without_done() -> None:
    answer = from_events(chunk({"content": "all of it"}, "stop"))
    assert answer is not None and answer.whole


@pytest.mark.parametrize("body", [b"", DONE, b": comment\n\n", encode(b"[1,2]")])
def test_a_stream_without_a_chunk_is_nothing(body: bytes) -> None:
    assert from_events(body) is None


@pytest.mark.parametrize("body", [b"", b"<html>", b"[1]", b'{"choices": 3}', b'{"object":"list"}'])
def test_a_body_that_is_not_a_completion_is_nothing(body: bytes) -> None:
    assert from_json(body) is None


@given(st.lists(st.text(min_size=1), min_size=1, max_size=3), st.booleans())
def test_stored_answers_replay_word_for_word(texts: list[str], include_usage: bool) -> None:
    choices = [
        {"index": i, "message": {"role": "assistant", "content": t}, "finish_reason": "stop"}
        for i, t in enumerate(texts)
    ]
    usage = {"usage": {"prompt_tokens": 3, "completion_tokens": 4, "total_tokens": 7}}
    stored = json.dumps({"id": "c1", "object": "chat.completion", "choices": choices} | usage).encode()
    replayed = from_events(as_events(stored, include_usage=include_usage))
    assert replayed is not None and replayed.whole
    assert [c["message"]["content"] for c in replayed.choices()] == texts
    assert replayed.usage() == (Usage(3, 4) if include_usage else None)


@pytest.mark.parametrize(
    "usage", [None, 3, {}, {"prompt_tokens": "3"}, {"prompt_tokens": 3, "completion_tokens": None}]
)
def test_malformed_usage_is_no_usage(usage: object) -> None:
    assert usage_of({"usage": usage}) is None


def test_cached_tokens_are_read() -> None:
    usage = {"prompt_tokens": 9, "completion_tokens": 1, "prompt_tokens_details": {"cached_tokens": 8}}
    assert usage_of({"usage": usage}) == Usage(9, 1, 8)


def test_calls_of_tools_are_compared_by_what_they_call_and_with_which_values() -> None:
    def calling(id: str, arguments: str) -> str:
        function = {"name": "f", "arguments": arguments}
        message = {"content": None, "tool_calls": [{"id": id, "function": function}]}
        return Assembled(
            {"choices": [{"message": message, "finish_reason": "tool_calls"}]}, whole=True
        ).said()

    assert calling("1", '{"a": 1}') == calling("2", '{ "a":1 }') != calling("1", '{"a": 2}')
    assert "not JSON" in calling("1", "not JSON")


def test_what_is_said_without_tools_is_the_text() -> None:
    assert Assembled({"choices": [{"message": {"content": "Yes."}}]}, whole=True).said() == "Yes."


def test_the_fingerprint_tells_which_model_and_system_an_answer_names_and_nothing_else() -> None:
    def told(**members: Any) -> str:
        said = {"index": 0, "message": {"role": "assistant", "content": "Forty"}, "finish_reason": "stop"}
        answer = from_json(json.dumps({"id": "1", "choices": [said]} | members).encode())
        assert answer is not None
        return answer.fingerprint()

    streamed = from_events(stream(chunk({"content": "Forty"}, "stop")))
    assert streamed is not None and streamed.fingerprint() == told(model="m", system_fingerprint="fp")
    assert len({told(model="m"), told(model="n"), told(model="m", system_fingerprint="fp")}) == 3
    assert told() == told(model="", system_fingerprint=None) == ""
