"""Streams are read for what they carry, however they are cut and spaced."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadtest.events import StreamReader, read_message


def chunk(delta: dict[str, Any] | None = None, **more: Any) -> bytes:
    choices = (
        [] if delta is None else [{"index": 0, "delta": delta, "finish_reason": more.pop("finish", None)}]
    )
    return b"data: " + json.dumps({"model": "m", "choices": choices, **more}).encode() + b"\n\n"


STREAM = (
    b": ping\n\n"
    + chunk({"role": "assistant", "content": ""})
    + chunk({"content": "Hé"})
    + chunk({"content": 'data: "x"\\n\n'})
    + chunk({}, finish="stop")
    + chunk(usage={"prompt_tokens": 3, "completion_tokens": 2})
    + b"data: [DONE]\n\n"
)


@given(st.lists(st.integers(0, len(STREAM)), max_size=10), st.booleans())
def test_cuts_and_line_ends_do_not_matter(cuts: list[int], crlf: bool) -> None:
    data = STREAM.replace(b"\n", b"\r\n") if crlf else STREAM
    reader = StreamReader(keep_text=True)
    edges = [0, *sorted(cuts), len(data)]
    for start, end in itertools.pairwise(edges):
        reader.feed(data[start:end])
    assert reader.tokens_seen == 2 and "".join(reader.text).startswith("Hé")
    assert reader.saw_done and reader.saw_finish and reader.complete and not reader.error
    assert reader.usage == {"prompt_tokens": 3, "completion_tokens": 2} and reader.model == "m"


@pytest.mark.parametrize("field", ["reasoning_content", "reasoning", "refusal"])
def test_thinking_counts_as_content(field: str) -> None:
    assert StreamReader().feed(chunk({field: "hm"})) == 1


def test_tool_calls_and_legacy_text_count_as_content() -> None:
    assert StreamReader().feed(chunk({"tool_calls": [{"index": 0}]})) == 1
    assert StreamReader().feed(b'event: x\ndata: {"choices": [{"text": "a"}]}\n\n') == 1


@pytest.mark.parametrize("payload", [b'{"error": {"message": "no"}}', b"{", b"[1]"])
def test_an_error_or_nonsense_in_an_event_is_kept(payload: bytes) -> None:
    reader = StreamReader()
    reader.feed(b"data: " + payload + b"\n\n")
    assert reader.error and not reader.complete


def test_a_stream_without_its_end_is_not_complete() -> None:
    reader = StreamReader()
    reader.feed(chunk({"content": "a"}))
    assert not reader.complete


@pytest.mark.parametrize(
    ("body", "wrong"),
    [
        (b'{"choices": [{"message": {"content": "hi"}}]}', ""),
        (b'{"choices": [{"text": "hi"}]}', ""),
        (b'{"data": []}', ""),
        (b"<html>", "not JSON"),
        (b"[]", "not an OpenAI answer"),
        (b'{"ok": true}', "not an OpenAI answer"),
        (b'{"error": {"message": "x"}}', "error in a 200 answer"),
    ],
)
def test_a_whole_answer_is_known_for_what_it_is(body: bytes, wrong: str) -> None:
    assert read_message(body)[0] == wrong
