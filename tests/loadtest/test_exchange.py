"""One request's bookkeeping: how it ended, and what its headers say."""

from __future__ import annotations

import math
from array import array

import pytest

from loadtest.exchange import Exchange
from loadtest.records import AT, Names

SSE = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n"
TOKEN = b'data: {"choices":[{"delta":{"content":"a"}}]}\n\n'
JSON_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n"


def exchange() -> Exchange:
    found = Exchange(b"", 100.0, 100.0)
    found.begun_s = 100.0
    return found


def outcome(found: Exchange) -> str:
    names = Names()
    return names.texts[int(found.row(names, 100.0, b"", b"")[AT["outcome"]])]


def test_tokens_that_come_together_have_no_gap_between_them() -> None:
    found, gaps = exchange(), array("d")
    found.feed(SSE + TOKEN, gaps)
    found.feed(TOKEN + TOKEN, gaps)
    assert len(gaps) == 2 and gaps[0] > 0 and gaps[1] == 0


def test_the_gaps_of_the_warm_up_are_not_kept() -> None:
    found, gaps = exchange(), array("d")
    found.warm = True
    found.feed(SSE + TOKEN * 3, gaps)
    assert not gaps and found.first_s


@pytest.mark.parametrize(
    ("data", "closed", "said"),
    [
        (SSE + TOKEN + b"data: [DONE]\n\n", True, "ok"),
        (SSE + TOKEN, True, "stream ended without its terminal event"),
        (SSE + b'data: {"error": {"message": "x"}}\n\n', True, "stream: error event"),
        (JSON_HEAD + b"content-length: 99\r\n\r\n{", True, "cut off: the answer began and did not end"),
        (JSON_HEAD + b"content-length: 2\r\n\r\n{]", False, "not JSON"),
        (JSON_HEAD + b"content-length: 0\r\n\r\n", False, "not JSON"),
        (b"HTTP/1.1 503 No\r\ncontent-length: 0\r\n\r\n", False, "http 503"),
        (b"", True, "connection closed without an answer"),
        (b"\x00\x01\x02", False, "not HTTP/1.1"),
    ],
)
def test_every_way_of_ending_has_its_name(data: bytes, closed: bool, said: str) -> None:
    found = exchange()
    if data:
        found.feed(data, array("d"))
    if closed:
        found.peer_closed()
    assert found.ended and outcome(found) == said


@pytest.mark.parametrize(
    ("header", "status"),
    [
        (b"cache-status: understudy; hit; detail=exact", "hit (exact)"),
        (b"Cache-Status: cdn; fwd=miss, understudy; hit", "hit"),
        (b"cache-status: understudy; fwd=miss; stored", "miss"),
        (b"cache-status: understudy; fwd=bypass", "bypass"),
        (b"x-cache: HIT", "hit"),
        (b"x-cache: MISS from x", "miss"),
        (b"x-other: 1", ""),
    ],
)
def test_the_cache_status_is_read_from_headers(header: bytes, status: str) -> None:
    found, names = exchange(), Names()
    body = b'{"choices":[{"text":"a"}]}'
    found.feed(
        b"HTTP/1.1 200 OK\r\n%s\r\ncontent-length: %d\r\n\r\n%s" % (header, len(body), body), array("d")
    )
    assert names.texts[int(found.row(names, 0.0, b"", b"")[AT["cache"]])] == status


def test_engine_quality_and_usage_reach_the_row() -> None:
    found, names = exchange(), Names()
    body = b'{"model":"m","choices":[{"text":"a"}],"usage":{"prompt_tokens":7,"completion_tokens":3}}'
    head = b"HTTP/1.1 200 OK\r\nx-engine: small\r\nx-quality: 0.75\r\ncontent-length: %d\r\n\r\n" % len(body)
    assert found.feed(head + body, array("d"))
    row = found.row(names, 100.0, b"x-engine", b"x-quality")
    assert names.texts[int(row[AT["engine"]])] == "small" and names.texts[int(row[AT["model"]])] == "m"
    assert (row[AT["quality"]], row[AT["tokens_in"]], row[AT["tokens_out"]]) == (0.75, 7, 3)
    assert math.isnan(row[AT["ttft_s"]])


def test_an_expected_text_is_looked_for_in_the_answer() -> None:
    for expect, quality in (("FORTY", 1.0), ("fifty", 0.0)):
        found = exchange()
        found.expect = expect
        body = b'{"choices":[{"message":{"content":"It is forty-two."}}]}'
        found.feed(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%s" % (len(body), body), array("d"))
        assert found.row(Names(), 0.0, b"", b"")[AT["quality"]] == quality
