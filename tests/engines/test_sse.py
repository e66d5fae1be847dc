"""Server-sent events on bytes: any line ending, any split, and how a stream says that it is over."""

from __future__ import annotations

import gzip
import itertools
import json
import re
import time
import zlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engines.answers.tail import Tail, tail_of
from engines.sse import EventCutter, begins_with_error, encode, events

DONE = b"data: [DONE]\n\n"


def chunk(content: str = "a", finish: str | None = None, index: int = 0) -> bytes:
    choice = {"index": index, "delta": {"content": content}, "finish_reason": finish}
    return b"data: " + json.dumps({"choices": [choice]}).encode() + b"\n\n"


def ends(*chunks: bytes) -> bool:
    tail = Tail()
    for piece in chunks:
        tail.feed(piece)
    return tail.finished()


@pytest.mark.parametrize("newline", [b"\n", b"\r\n", b"\r"])
def test_lines_may_end_in_any_way(newline: bytes) -> None:
    body = newline.join(
        [b": hello", b"data: a", b"data:b", b"id: 7", b"", b"", b"event: x", b"data:  c", b"", b""]
    )
    assert list(events(body)) == [b"a\nb", b" c"]


def test_a_bom_is_ignored_and_a_last_event_needs_no_blank_line() -> None:
    assert list(events(b"\xef\xbb\xbfdata: a\n\ndata: b")) == [b"a", b"b"]


def test_an_event_without_data_is_none() -> None:
    assert list(events(b"event: ping\n\n: comment\n\nretry: 5\n\n")) == []


@given(st.lists(st.binary(max_size=40).filter(lambda b: b"\n" not in b and b"\r" not in b)))
def test_what_is_encoded_is_read_back(data: list[bytes]) -> None:
    assert list(events(b"".join(map(encode, data)))) == data


@pytest.mark.parametrize(
    "ending",
    [
        DONE,
        b"data: [DONE]",
        b"data: [DONE]\n",
        b"data: [DONE]\r\n\r\n",
        b"data:[DONE]\r\r",
        DONE + b": bye\n\n",
        chunk(finish="stop"),
        chunk(finish="stop") + b'data: {"choices":[],"usage":{"total_tokens":3}}\n\n',
        b'data: {"error":{"message":"x"}}\n\n',
        b'event: error\ndata: {"type":"error"}\n\n',
        b'event: response.completed\ndata: {"type":"response.completed"}\n\n',
        b'data: {"type":"response.failed"}\n\n',
        b'data: {"type":"response.incomplete"}\n\n',
        b'event: message_stop\ndata: {"type":"message_stop"}\n\n',
        b'data: {"type": "response.completed", "text": "' + b"x" * 100_000 + b'"}\n\n',
        b'event: response.completed\r\ndata: {"type":"response.completed","a":"'
        + b"x" * 100_000
        + b'"}\r\n\r\n',
    ],
)
@pytest.mark.parametrize("before", [b"", chunk(), chunk() * 2000], ids=["alone", "one before", "many before"])
def test_a_stream_that_says_it_is_over_is_finished(before: bytes, ending: bytes) -> None:
    assert ends(before, ending)


@pytest.mark.parametrize(
    "ending",
    [
        b"",
        b": only a comment\n\n",
        chunk(),
        chunk("[DONE]"),
        chunk("\ndata: [DONE]\n\n"),
        chunk('{"finish_reason":"stop"}'),
        chunk('"response.completed" message_stop'),
        b"data: [DONE",
        b"data: [DON\n\n",
        b"data: not json [DONE]\n\n",
        b'data: {"choices":[{"finish_reason":"stop"}]',
        chunk(finish="stop") + chunk(index=1),
        b'data: {"choices":[],"usage":{}}\n\n',
        b"data: 7\n\n",
        b'data: {"type":"response.output_text.delta","delta":"' + b"x" * 100_000 + b'"}\n\n',
        b'data: {"type":"response.completed","a":"' + b"x" * 100_000,
        b'data: {"choices":[{"index":0,"delta":{"content":"'
        + b"[DONE] " * 5000
        + b'"},"finish_reason":null}]}\n\n',
    ],
)
@pytest.mark.parametrize("before", [b"", chunk(), chunk() * 2000], ids=["alone", "one before", "many before"])
def test_a_stream_that_does_not_is_not(before: bytes, ending: bytes) -> None:
    assert not ends(before, ending)


def test_several_choices_must_all_have_ended_where_no_done_says_so() -> None:
    first, second = chunk(finish="stop"), chunk(finish="length", index=1)
    for parts, ended in (
        ([first], False),
        ([second, first], True),
        ([second, chunk() * 2000, first], True),
        ([second, chunk(index=1) * 2000, second], False),
        ([first, DONE], True),
        ([b'data: {"error":{"message":"x"}}\n\n'], True),
    ):
        tail = Tail(2)
        for part in parts:
            tail.feed(part)
        assert tail.finished() is ended, parts[0]


def test_only_done_itself_is_done() -> None:
    for body, done in ((DONE, True), (chunk(finish="stop") + DONE, True), (chunk(finish="stop"), False)):
        tail = Tail()
        tail.feed(body)
        assert tail.done() is done


@pytest.mark.parametrize(
    ("body", "delimited", "cut"),
    [
        (b"", True, False),
        (b"", False, True),
        (b": waiting\n\n", True, True),
        (chunk(), True, True),
        (b'{"object":"chat.completion","choices":[]}', True, False),
        (b'{"object":"chat.completion","choices":[]}', False, True),
        (b'{"a":"' + b"data: x " * 10_000 + b'"}', True, False),
        (chunk() * 2000, True, True),
        (b"\xef\xbb\xbf" + chunk(), True, True),
        (chunk(finish="stop"), False, False),
    ],
)
def test_what_holds_no_line_of_an_event_stream_is_cut_only_where_nothing_says_that_it_is_whole(
    body: bytes, delimited: bool, cut: bool
) -> None:
    tail = Tail()
    for start in range(0, len(body), 1000):
        tail.feed(body[start : start + 1000])
    assert tail.cut(delimited=delimited) is cut


@pytest.mark.parametrize("wbits", [31, 15], ids=["gzip", "deflate"])
def test_a_compressed_stream_tells_its_end_too(wbits: int) -> None:
    for body, cut in ((chunk() * 3, True), (chunk() + DONE, False)):
        compressor = zlib.compressobj(wbits=wbits)
        packed = compressor.compress(body) + compressor.flush()
        tail = tail_of({"Content-Type": "text/event-stream", "Content-Encoding": "gzip"})
        assert tail is not None
        for start in range(len(packed)):
            tail.feed(packed[start : start + 1])
        assert tail.cut(delimited=True) is cut and tail.finished() is not cut


@pytest.mark.parametrize("body", [b"not gzip at all", gzip.compress(b"x" * 2**24)])
def test_what_cannot_be_inflated_within_measure_is_not_surely_cut(body: bytes) -> None:
    tail = tail_of({"Content-Type": "text/event-stream", "Content-Encoding": "gzip"})
    assert tail is not None
    tail.feed(body)
    assert not tail.finished() and not tail.cut(delimited=True)
    assert sum(map(len, tail._kept)) <= 2**20


def test_a_large_event_in_the_middle_is_forgotten_again() -> None:
    large = b'data: {"type":"response.completed","a":"' + b"x" * 100_000 + b'"}\n\n'
    assert not ends(large, chunk())
    assert not ends(large, chunk() * 500)
    assert ends(large, chunk() * 500, DONE)


pieces = st.sampled_from(
    [
        DONE,
        b": c\n\n",
        chunk(),
        chunk("x" * 9000),
        chunk("x" * 40_000),
        chunk(finish="stop"),
        chunk(index=1),
        b'data: {"choices":[],"usage":{}}\n\n',
        b'data: {"type":"response.completed","a":"' + b"y" * 50_000 + b'"}\n\n',
        b'data: {"error":{}}\r\n\r\n',
    ]
)


@settings(max_examples=150, deadline=None)
@given(st.lists(pieces, min_size=1, max_size=8), st.data())
def test_how_the_bytes_are_cut_does_not_matter(parts: list[bytes], data: st.DataObject) -> None:
    body = b"".join(parts)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(body)), max_size=12)))
    bounds = [0, *cuts, len(body)]
    split = [body[a:b] for a, b in itertools.pairwise(bounds)]
    assert ends(*split) == ends(body)


@settings(max_examples=50)
@given(st.lists(st.binary(max_size=3000), max_size=60))
def test_no_bytes_ever_raise_and_little_is_kept(chunks: list[bytes]) -> None:
    tail = Tail()
    for piece in chunks:
        tail.feed(piece)
    assert tail.finished() in (True, False)
    assert tail.cut(delimited=False) is not tail.finished()
    assert sum(map(len, tail._kept)) <= 5 * 8192


def test_a_stream_may_begin_with_an_error() -> None:
    assert begins_with_error(b'data: {"error":{"message":"x"}}\n\n')
    assert begins_with_error(b'data:{"error"')
    assert begins_with_error(b"event: error\ndata: {}\n\n")
    assert not begins_with_error(chunk("error"))
    assert not begins_with_error(b"")


_ENDS_WITH_BLANK_LINE = re.compile(rb"(\r\n|\r|\n)(\r\n|\r|\n)\Z")


class TestEventCutter:
    @settings(max_examples=300)
    @given(
        st.lists(
            st.sampled_from([b"data: a", b"\n", b"\r\n", b"\n\n", b"\r\n\r\n", b"\r", b"\r\r", b": c", b"x"]),
            max_size=12,
        )
    )
    def test_no_byte_is_lost_and_no_piece_but_the_last_ends_inside_an_event(
        self, chunks: list[bytes]
    ) -> None:
        cutter = EventCutter()
        pieces = [piece for chunk in chunks if (piece := cutter.whole(chunk))]
        rest = cutter.rest()
        assert b"".join((*pieces, rest)) == b"".join(chunks)
        sent = b""
        for piece in pieces:
            sent += piece
            assert _ENDS_WITH_BLANK_LINE.search(sent) and not sent.endswith((b"a\r\n", b"c\r\n", b"x\r\n"))
        assert not re.search(rb"\n\n|\n\r|\r\r", rest), "nothing is held back that is whole"

    def test_half_an_event_waits_for_its_rest(self) -> None:
        cutter = EventCutter()
        assert cutter.whole(b"data: a\n\ndata: b") == b"data: a\n\n"
        assert cutter.whole(b"c\n\n") == b"data: bc\n\n"

    @pytest.mark.parametrize(
        "blank", [b"\n\n", b"\n\r\n", b"\n\r", b"\r\n\n", b"\r\n\r\n", b"\r\n\r", b"\r\r\n", b"\r\r"]
    )
    @pytest.mark.parametrize("size", [1, 2, 3, 100])
    def test_a_blank_line_may_end_in_any_way(self, blank: bytes, size: int) -> None:
        body = (b"data: a" + blank) * 2
        cutter = EventCutter()
        pieces = [cutter.whole(body[at : at + size]) for at in range(0, len(body), size)]
        assert b"".join(pieces) + cutter.rest() == body
        assert b"".join(pieces).count(b"data: a") == 2

    def test_an_event_that_is_too_large_passes_as_it_comes(self) -> None:
        cutter = EventCutter(100)
        assert cutter.whole(b"data: a\n\ndata: " + b"x" * 90) == b"data: a\n\n" and not cutter.given_up
        assert cutter.whole(b"y" * 10) == b"data: " + b"x" * 90 + b"y" * 10 and cutter.given_up
        assert cutter.whole(b"z") == b"z" and cutter.whole(b"\n\ndata: b") == b"\n\ndata: b"
        assert cutter.rest() == b""

    def test_many_small_pieces_of_a_large_event_cost_no_more_than_few(self) -> None:
        """It took seconds when each piece was joined to all before it."""
        cutter, piece = EventCutter(2**25), b"x" * 64
        began = time.process_time()
        for _ in range(2**17):
            assert cutter.whole(piece) == b""
        assert len(cutter.whole(b"\n\n")) == 2**23 + 2
        assert time.process_time() - began < 2.0
