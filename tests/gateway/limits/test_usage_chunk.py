"""Usage that was asked for upstream only: its chunk goes, and its nulls; every other byte stays."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.limits.usage_chunk import UsageStripper

SAID = b'data: {"id":"c","choices":[{"index":0,"delta":{"content":"a"}}],"usage":null}\n\n'
PLAIN = b'data: {"id":"c","choices":[{"index":0,"delta":{"content":"a"}}]}\n\n'
LAST = b'data: {"id":"c","choices":[],"usage":{"prompt_tokens":1,"completion_tokens":2}}\n\n'
DONE = b"data: [DONE]\n\n"


def through(*chunks: bytes) -> bytes:
    strip = UsageStripper()
    return b"".join(map(strip, chunks)) + strip.rest()


def test_the_last_chunk_goes_and_nulls_with_it() -> None:
    assert through(SAID, SAID, LAST, DONE) == PLAIN + PLAIN + DONE


@given(
    st.lists(st.integers(0, len(SAID + LAST + DONE)), max_size=6), st.sampled_from([b"\n", b"\r\n", b"\r"])
)
def test_wherever_the_chunks_are_cut(cuts: list[int], line_end: bytes) -> None:
    whole = (SAID + LAST + DONE).replace(b"\n", line_end)
    bounds = [0, *sorted(min(cut, len(whole)) for cut in cuts), len(whole)]
    pieces = [whole[a:b] for a, b in itertools.pairwise(bounds)]
    assert through(*pieces) == (PLAIN + DONE).replace(b"\n", line_end)


@pytest.mark.parametrize(
    "event",
    [
        b'data: {"choices":[{"delta":{"content":"say \\"usage\\":null, please"}}]}\n\n',
        b'data: {"choices":[{"delta":{}}],"x":{"usage":null}}\n\n',
        # An engine that tells its usage beside the last words, unasked.
        b'data: {"choices":[{"delta":{},"finish_reason":"stop"}],"usage":{"prompt_tokens":1}}\n\n',
        b': "usage"\n\n',
        b'data: {"usage": broken\n\n',
        b'data: ["usage"]\n\n',
        b'event: error\ndata: {"error":{"message":"no \\"usage\\""}}\n\n',
    ],
)
def test_what_only_looks_like_it_stays(event: bytes) -> None:
    assert through(event, DONE) == event + DONE


def test_a_null_at_the_beginning_goes_too() -> None:
    assert through(b'data: {"usage": null, "choices": [1]}\n\n') == b'data: {"choices": [1]}\n\n'


def test_whole_events_are_taken_at_once_unless_half_of_one_waits() -> None:
    strip = UsageStripper()
    assert strip.at_once(SAID + LAST) == PLAIN and strip.at_once(LAST) == b""
    assert strip.at_once(SAID[:-1]) is None
    assert strip(SAID[:9]) == b"" and strip.at_once(SAID) is None
    assert strip(SAID[9:]) == PLAIN and strip.at_once(PLAIN) == PLAIN


def test_half_an_event_at_the_end_is_not_lost() -> None:
    assert through(SAID, b'data: {"choi') == PLAIN + b'data: {"choi'


def test_an_event_too_large_to_be_held_passes_as_it_comes() -> None:
    large = b'data: {"choices":[{"delta":{"content":"' + b"x" * (2**20 + 1)
    assert through(large, b'"}}],"usage":null}\n\n') == large + b'"}}],"usage":null}\n\n'
