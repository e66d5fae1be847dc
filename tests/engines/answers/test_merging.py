"""What a stream says piece by piece becomes one object: members known and unknown, whatever providers make of them."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from engines.answers.answer import Assembled, Body
from engines.as_events import EVENTS
from engines.chat import ChatRequest
from engines.codecs.chat import CHAT
from engines.codecs.completions import COMPLETIONS
from engines.codecs.messages import MESSAGES
from engines.sse import DONE, encode

HEAD = {"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": "m"}
ASKED = ChatRequest(b"{}", {}, "m", [], stream=True, include_usage=False)


def chunk(delta: Any = None, end: str | None = None, choice: Any = (), **top: Any) -> dict[str, Any]:
    return HEAD | {"choices": [{"index": 0, "delta": delta, "finish_reason": end, **dict(choice)}]} | top


def merged(*said: dict[str, Any], codec: Any = CHAT) -> Assembled:
    body = b"".join(encode(orjson.dumps(one)) for one in said) + DONE
    answer = codec.assembled(Body([body], len(body), EVENTS))
    assert isinstance(answer, Assembled)
    return answer


def message(*said: dict[str, Any]) -> dict[str, Any]:
    answer = merged(*said)
    assert answer.whole, answer.unmerged
    found: dict[str, Any] = answer.choices()[0]["message"]
    return found


ONE = {"index": 0, "id": "a", "type": "function", "function": {"name": "f", "arguments": '{"x":1}'}}
OTHER = {"index": 0, "id": "b", "type": "function", "function": {"name": "g", "arguments": "{}"}}


@pytest.mark.parametrize(
    ("said", "wanted"),
    [
        (
            [chunk({"content": "a"}, None, {"matched_stop": None}), chunk({}, "stop", {"matched_stop": 5})],
            {"content": "a"},
        ),
        ([chunk({"content": "a"}), chunk(None, "stop")], {"content": "a"}),
        ([chunk({"content": "a"}), HEAD | {"choices": None}, chunk({}, "stop")], {"content": "a"}),
        ([chunk({"content": "a"}), {}, chunk({}, "stop")], {"content": "a"}),
        (
            [
                chunk({"content": ""}),
                chunk({"content": [{"type": "thinking", "thinking": []}]}),
                chunk({"content": "H"}, "stop"),
            ],
            {"content": [{"type": "thinking", "thinking": []}, {"type": "text", "text": "H"}]},
        ),
        (
            [
                chunk({"audio": {"id": "x", "data": "QU"}}),
                chunk({"audio": {"data": "JD", "transcript": "A"}}),
                chunk({}, "stop"),
            ],
            {"content": None, "audio": {"id": "x", "data": "QUJD", "transcript": "A"}},
        ),
        (
            [
                chunk({"reasoning_details": [{"text": "a"}]}),
                chunk({"reasoning_details": [{"text": "b"}]}, "stop"),
            ],
            {"content": None, "reasoning_details": [{"text": "a"}, {"text": "b"}]},
        ),
        (
            [chunk({"tool_calls": [ONE]}), chunk({"tool_calls": [OTHER]}), chunk({}, "tool_calls")],
            {
                "content": None,
                "tool_calls": [{k: v for k, v in call.items() if k != "index"} for call in (ONE, OTHER)],
            },
        ),
    ],
    ids=[
        "sglang",
        "null delta",
        "null choices",
        "ping",
        "magistral",
        "audio",
        "openrouter",
        "two calls at one index",
    ],
)
def test_what_providers_stream_is_one_message(said: list[dict[str, Any]], wanted: dict[str, Any]) -> None:
    assert message(*said) == {"role": "assistant"} | wanted


def test_the_head_is_the_last_that_is_not_empty_and_late_members_are_kept() -> None:
    first = {"choices": [], "created": 0, "id": "", "model": "", "object": "", "prompt_filter_results": []}
    answer = merged(
        first,
        chunk({"content": "a"}, citations=["u"]),
        chunk({}, "stop", {"native_finish_reason": "end"}, citations=["u", "v"], timings={"n": 3}),
    )
    assert answer.whole and answer.completion["id"] == "c1" and answer.completion["created"] == 1
    assert answer.completion["citations"] == ["u", "v"] and answer.completion["timings"] == {"n": 3}
    assert answer.choices()[0]["native_finish_reason"] == "end"


def test_what_nobody_can_merge_is_named_and_never_taken_for_whole() -> None:
    answer = merged(chunk({"mood": "glad"}), chunk({"mood": "sad", "content": "a"}, "stop"))
    assert not answer.whole and answer.unmerged == ("mood",)
    same = merged(chunk({"mood": "glad"}), chunk({"mood": "glad", "content": "a"}, "stop"))
    assert same.whole


@pytest.mark.parametrize(
    ("said", "means"), [("eos", "stop"), ("COMPLETE", "stop"), ("end_turn", "stop"), ("length", "length")]
)
def test_finish_reasons_mean_the_same_whatever_they_are_called(said: str, means: str) -> None:
    answer = merged(chunk({"content": "a"}), chunk({}, said))
    assert answer.finish_reason() == means and answer.choices()[0]["finish_reason"] == said


@pytest.mark.parametrize(
    "said",
    [
        [
            chunk(
                {"role": "assistant", "content": "Hello, you", "reasoning": "Hm"},
                None,
                {"logprobs": {"content": [1]}},
            ),
            chunk({}, "stop", {"a": {"b": 1}}, x=[1]),
        ],
        [chunk({"tool_calls": [ONE]}), chunk({"tool_calls": [OTHER]}), chunk({}, "tool_calls")],
        [chunk({"content": [{"type": "thinking"}]}), chunk({"content": "x"}, "stop")],
    ],
)
def test_a_replay_says_everything_that_was_said(said: list[dict[str, Any]]) -> None:
    answer = merged(*said)
    replayed = CHAT.events(CHAT.stored(answer), ASKED)
    again = CHAT.assembled(Body([replayed], len(replayed), EVENTS))
    assert (
        again is not None
        and again.whole
        and again.completion == answer.completion | {"choices": again.choices()}
    )
    for one, other in zip(answer.choices(), again.choices(), strict=True):
        assert {"logprobs": None} | one == {"logprobs": None} | other


def test_a_text_completions_further_members_are_replayed() -> None:
    head = {"id": "t", "object": "text_completion", "created": 1, "model": "m"}
    none = {"logprobs": None, "stop_reason": None, "prompt_token_ids": None, "token_ids": None}
    answer = merged(
        head | {"choices": [{"index": 0, "text": "Hi", "finish_reason": None} | none]},
        head | {"choices": [{"index": 0, "text": "", "finish_reason": "stop"} | none | {"stop_reason": 7}]},
        codec=COMPLETIONS,
    )
    assert answer.whole
    replayed = COMPLETIONS.events(COMPLETIONS.stored(answer), ASKED)
    again = COMPLETIONS.assembled(Body([replayed], len(replayed), EVENTS))
    assert again is not None and again.own == answer.own


def test_a_messages_late_members_are_part_of_it() -> None:
    message = {"id": "m", "type": "message", "role": "assistant", "model": "c", "content": []}
    usage = {"input_tokens": 9, "output_tokens": 2}
    answer = merged(
        {"type": "message_start", "message": message | {"usage": usage | {"output_tokens": 1}}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Hi"}},
        {"type": "content_block_stop", "index": 0},
        {
            "type": "message_delta",
            "delta": {"stop_reason": "end_turn"},
            "usage": usage,
            "context_management": {"x": 1},
        },
        {"type": "message_stop"},
        codec=MESSAGES,
    )
    assert answer.whole and answer.own is not None and answer.own["context_management"] == {"x": 1}
    replayed = MESSAGES.events(MESSAGES.stored(answer), ASKED)
    again = MESSAGES.assembled(Body([replayed], len(replayed), EVENTS))
    assert again is not None and again.own == answer.own
