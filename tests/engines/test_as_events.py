"""A remembered answer said again as a stream: the same text, in pieces that end at words, and never too many of them."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from engines.as_events import as_events
from tests.answers import from_events
from tests.flow.line import completion


def replayed(text: str) -> bytes:
    return as_events(json.dumps(completion(text)).encode(), include_usage=False)


@given(st.text(alphabet=st.sampled_from("ab \n\t\u00a0é"), max_size=300))
def test_the_same_text_in_whole_words(text: str) -> None:
    assembled = from_events(replayed(text))
    assert assembled is not None and assembled.whole and assembled.text() == text
    events = [json.loads(line[6:]) for line in replayed(text).split(b"\n\n") if line.startswith(b"data: {")]
    pieces = [piece for e in events[1:] if (piece := e["choices"][0]["delta"].get("content"))]
    assert all(len(piece) >= 24 and piece[-1].isspace() for piece in pieces[:-1])
    assert all(not piece[0].isspace() for piece in pieces[1:])


def test_a_long_answer_comes_in_no_more_pieces_than_a_thousand() -> None:
    text = "word " * 200_000
    body = replayed(text)
    assert body.count(b"data: ") < 1100
    assembled = from_events(body)
    assert assembled is not None and assembled.text() == text
