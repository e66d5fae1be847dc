"""What can be continued, and how another engine's stream becomes the rest of an answer."""

from __future__ import annotations

import itertools
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engines.errors import StreamBroken
from engines.partial_answer import PartialAnswer, read_partial, spliced, split_at_failure
from engines.sse import DONE, events

HEAD = {"id": "first", "object": "chat.completion.chunk", "created": 1, "model": "large"}
OTHER = {"id": "second", "object": "chat.completion.chunk", "created": 2, "model": "small"}


def event(
    head: dict[str, Any], delta: dict[str, Any] | None, finish: str | None = None, **more: Any
) -> bytes:
    choices = (
        [] if delta is None else [{"index": 0, "delta": delta, "finish_reason": finish, "logprobs": None}]
    )
    return b"data: " + json.dumps(head | {"choices": choices} | more).encode() + b"\n\n"


def said(text: str, *, role_told: bool = True) -> PartialAnswer:
    return PartialAnswer(HEAD, text, role_told, 1)


async def follow(
    partial: PartialAnswer, *chunks: bytes, tokens: int = 2, repeats: bool = False
) -> list[dict[str, Any]]:
    async def source() -> AsyncIterator[bytes]:
        for chunk in chunks:
            yield chunk

    body = b"".join([piece async for piece in spliced(source(), partial, tokens, repeats=repeats)])
    return [json.loads(data) for data in events(body) if data != b"[DONE]"]


def text_of(chunks: list[dict[str, Any]]) -> str:
    return "".join(c["choices"][0]["delta"].get("content") or "" for c in chunks if c["choices"])


class TestReading:
    def test_the_text_and_the_head_are_found(self) -> None:
        sent = event(HEAD, {"role": "assistant", "content": ""}) + event(HEAD, {"content": "Forty"})
        assert read_partial(sent + b": a comment\n\n" + event(HEAD, {"content": "-t"})) == PartialAnswer(
            HEAD, "Forty-t", True, 2
        )

    def test_nothing_said_yet_is_a_partial_answer_too(self) -> None:
        assert read_partial(b"") == PartialAnswer({}, "", False, 0)

    @pytest.mark.parametrize(
        "last",
        [
            event(HEAD, {}, "stop"),
            event(HEAD, {"reasoning_content": "Hm"}),
            event(HEAD, {"tool_calls": [{"index": 0}]}),
            b"data: not JSON\n\n",
            b"data: "
            + json.dumps(HEAD | {"choices": [{"index": 1, "delta": {"content": "x"}}]}).encode()
            + b"\n\n",
        ],
    )
    def test_what_is_finished_or_more_than_text_is_not_continued(self, last: bytes) -> None:
        assert read_partial(event(HEAD, {"content": "Forty"}) + last) is None


@pytest.mark.parametrize(
    ("error", "failed"),
    [
        ({"message": "EngineCore died", "type": "InternalServerError", "code": 500}, True),
        ({"message": "busy", "type": "overloaded_error", "code": None}, True),
        ({"message": "too long", "type": "BadRequestError", "code": 400}, False),
        ({"message": "no", "type": "invalid_request_error", "code": "content_filter"}, False),
        ({"message": "slow down", "type": "rate_limit", "code": 429}, True),
        ("what", False),
    ],
)
def test_a_refusal_is_no_failure_of_the_engine(error: Any, failed: bool) -> None:
    piece = b"data: " + json.dumps({"error": error}).encode() + b"\n\n"
    assert split_at_failure(piece) == ((b"", piece) if failed else (piece, b""))


DIED = b'{"error": {"type": "server_error"}}'


@pytest.mark.parametrize(
    ("piece", "good"),
    [
        (b'data: {"a":1}\n\ndata: ' + DIED + b"\n\ndata: [DONE]\n\n", b'data: {"a":1}\n\n'),
        (b'data: {"a":1}\r\n\r\ndata:' + DIED + b"\r\n\r\n", b'data: {"a":1}\r\n\r\n'),
        (b"event: error\ndata: " + DIED + b"\n\n", b""),
        (b'data: {"id":"1","choices":[{"delta":{},"finish_reason":"error"}],"error":{"code":502}}\n\n', b""),
        (b'data: {"choices":[{"delta":{"content":""},"finish_reason":"error"}]}\n\n', b""),
        (b'data: {"choices":[{"delta":{"content":"error"}}]}\n\n', None),
        (b'data: {"content":"data: {\\"error\\""}\n\n', None),
        (b"data: [DONE]\n\n", None),
    ],
)
def test_a_stream_is_split_at_its_error_and_at_nothing_that_is_merely_said(
    piece: bytes, good: bytes | None
) -> None:
    before, error = split_at_failure(piece)
    assert before + error == piece
    assert before == (piece if good is None else good)


class TestFollowing:
    async def test_it_goes_on_under_the_same_id_and_tells_no_role_twice(self) -> None:
        chunks = await follow(
            said("Forty"),
            event(OTHER, {"role": "assistant", "content": ""}),
            event(OTHER, {"content": "-two"}) + event(OTHER, {"content": "."}),
            event(OTHER, {}, "stop") + DONE,
        )
        assert text_of(chunks) == "-two." and all(c | HEAD == c for c in chunks)
        assert not any("role" in c["choices"][0]["delta"] for c in chunks)
        assert [c["choices"][0]["finish_reason"] for c in chunks] == [None, None, "stop"]

    async def test_the_role_is_told_where_it_was_not_yet(self) -> None:
        chunks = await follow(said("", role_told=False), event(OTHER, {"role": "assistant", "content": ""}))
        assert chunks[0]["choices"][0]["delta"]["role"] == "assistant"

    async def test_tokens_add_up(self) -> None:
        usage = {"prompt_tokens": 12, "completion_tokens": 3, "total_tokens": 15}
        chunks = await follow(said("Forty"), event(OTHER, None, usage=usage))
        assert chunks[0]["usage"] == {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}

    async def test_asked_afresh_nothing_is_added(self) -> None:
        usage = {"prompt_tokens": 12, "completion_tokens": 3, "total_tokens": 15}
        chunks = await follow(said(""), event(OTHER, None, usage=usage), tokens=0)
        assert chunks[0]["usage"] == usage

    @given(
        st.text("ab \n", max_size=8), st.text("ab \n", max_size=8), st.lists(st.integers(0, 8), max_size=3)
    )
    async def test_blanks_that_were_left_out_are_not_said_twice(
        self, before: str, after: str, cuts: list[int]
    ) -> None:
        """Whatever the seam: an engine that goes on exactly where the stripped text ended gives the text as it should be."""
        whole = before + after
        rest = whole[len(before.rstrip()) :]
        edges = [0, *sorted(min(cut, len(rest)) for cut in cuts), len(rest)]
        pieces = [event(OTHER, {"content": rest[a:b]}) for a, b in itertools.pairwise(edges)]
        assert before + text_of(await follow(said(before), *pieces)) == whole

    async def test_what_cannot_be_read_passes_as_it_is(self) -> None:
        async def source() -> AsyncIterator[bytes]:
            yield b"data: not JSON\n\n"

        assert [piece async for piece in spliced(source(), said("x"), 1)] == [b"data: not JSON\n\n"]


async def test_what_an_engine_repeats_is_left_out_and_not_counted_twice() -> None:
    events_ = [
        event(OTHER, {"role": "assistant", "content": ""}),
        event(OTHER, {"reasoning_content": "I am to go on."}),
        event(OTHER, {"content": "one"}),
        event(OTHER, {"content": " two thr"}),
        event(OTHER, {"content": "ee"}),
        event(OTHER, {}, "stop"),
        event(OTHER, None, usage={"prompt_tokens": 90, "completion_tokens": 3, "total_tokens": 93}),
        DONE,
    ]
    got = await follow(said("one two"), *events_, repeats=True)
    assert text_of(got) == " three" and got[-1]["usage"]["completion_tokens"] == 3
    assert all(chunk["id"] == "first" for chunk in got)
    assert not any(
        key in choice["delta"]
        for chunk in got
        for choice in chunk["choices"]
        for key in ("role", "reasoning_content")
    )


@pytest.mark.parametrize(
    "events_",
    [
        [event(OTHER, {"content": "Something else"})],
        [event(OTHER, {"content": "one"}), event(OTHER, {}, "stop")],
        [event(OTHER, {"content": "one"}), DONE],
        [event(OTHER, {"content": "one"}), b'data: {"error": {"message": "dead"}}\n\n'],
    ],
)
async def test_of_what_repeats_nothing_no_event_is_sent(events_: list[bytes]) -> None:
    with pytest.raises(StreamBroken):
        await follow(said("one two"), *events_, repeats=True)
