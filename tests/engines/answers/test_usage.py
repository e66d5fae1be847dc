"""What answers say they used: every API's way of saying it, whole, streamed in any pieces, large, packed, broken."""

from __future__ import annotations

import gzip
import json
import random
from typing import Any

import pytest

from engines.answers.reader import Reader
from engines.answers.usage import usage_of
from engines.chat import Usage
from engines.engine import Price
from tests.answers import from_events

EVENTS = "text/event-stream; charset=utf-8"
DETAILS = {
    "prompt_tokens_details": {"cached_tokens": 15872},
    "completion_tokens_details": {"reasoning_tokens": 0},
}
TERMINAL_WITH_CHOICES = {
    "object": "chat.completion.chunk",
    "model": "m",
    "choices": [{"index": 0, "delta": {}}],
    "usage": {"completion_tokens": 2, "prompt_tokens": 16111, "total_tokens": 16113} | DETAILS,
}
SHAPES: list[tuple[str, dict[str, Any], Usage]] = [
    (
        "chat completion",
        {
            "service_tier": "flex",
            "usage": {
                "prompt_tokens": 9,
                "completion_tokens": 4,
                "prompt_tokens_details": {"cached_tokens": 8},
            },
        },
        Usage(9, 4, 8, service_tier="flex"),
    ),
    ("embeddings", {"usage": {"prompt_tokens": 6, "total_tokens": 6}}, Usage(6, 0)),
    (
        "responses",
        {
            "object": "response",
            "usage": {
                "input_tokens": 36,
                "input_tokens_details": {"cached_tokens": 30},
                "output_tokens": 87,
                "output_tokens_details": {"reasoning_tokens": 80},
                "total_tokens": 123,
            },
        },
        Usage(36, 87, 30),
    ),
    (
        "messages",
        {
            "type": "message",
            "usage": {
                "input_tokens": 10,
                "cache_creation_input_tokens": 100,
                "cache_read_input_tokens": 1000,
                "output_tokens": 5,
                "service_tier": "priority",
            },
        },
        Usage(1110, 5, 1000, cache_write_tokens=100, service_tier="priority"),
    ),
    (
        "messages with a cache of an hour",
        {
            "usage": {
                "input_tokens": 10,
                "cache_creation_input_tokens": 100,
                "cache_read_input_tokens": 0,
                "cache_creation": {"ephemeral_5m_input_tokens": 30, "ephemeral_1h_input_tokens": 70},
                "output_tokens": 5,
            },
        },
        Usage(110, 5, cache_write_tokens=100, cache_write_1h_tokens=70),
    ),
    (
        "more kept for an hour than was written",
        {
            "usage": {
                "input_tokens": 10,
                "cache_creation_input_tokens": 20,
                "cache_creation": {"ephemeral_1h_input_tokens": 70},
                "output_tokens": 5,
            },
        },
        Usage(30, 5, cache_write_tokens=20, cache_write_1h_tokens=20),
    ),
    ("messages without a cache", {"usage": {"input_tokens": 10, "output_tokens": 5}}, Usage(10, 5)),
    (
        "images by the token",
        {"data": [{"b64_json": "xx"}] * 2, "usage": {"input_tokens": 50, "output_tokens": 4160}},
        Usage(50, 4160, images=2),
    ),
    ("images by the piece", {"created": 1, "data": [{"url": "https://x"}]}, Usage(0, 0, images=1)),
    (
        "transcription",
        {
            "text": "Hi",
            "usage": {"type": "tokens", "input_tokens": 14, "output_tokens": 3, "total_tokens": 17},
        },
        Usage(14, 3),
    ),
    ("prompt only in the sum", {"usage": {"completion_tokens": 3, "total_tokens": 10}}, Usage(7, 3)),
    (
        "cached elsewhere",
        {"usage": {"prompt_tokens": 9, "completion_tokens": 1, "prompt_cache_hit_tokens": 4}},
        Usage(9, 1, 4),
    ),
    (
        "more cached than there is",
        {"usage": {"prompt_tokens": 9, "prompt_tokens_details": {"cached_tokens": 99}}},
        Usage(9, 0, 9),
    ),
]


@pytest.mark.parametrize(
    ("answer", "usage"), [(a, u) for _, a, u in SHAPES], ids=[name for name, *_ in SHAPES]
)
def test_every_apis_answer_tells_what_it_used(answer: dict[str, Any], usage: Usage) -> None:
    assert usage_of(answer) == usage
    assert passed(json.dumps(answer).encode(), "application/json") == usage


@pytest.mark.parametrize(
    "usage",
    [
        None,
        3,
        [],
        {},
        {"prompt_tokens": -1},
        {"prompt_tokens": True},
        {"prompt_tokens": "9"},
        {"prompt_tokens": 1e309},
        {"prompt_tokens": 10**13},
        {"type": "duration", "seconds": 12},
    ],
)
def test_what_is_no_usage_is_none(usage: Any) -> None:
    assert usage_of({"usage": usage}) is None


def passed(body: bytes, content_type: str, encoding: str = "", piece: int = 7) -> Usage | None:
    passing = Reader(content_type, encoding)
    for at in range(0, len(body), piece):
        passing.feed(body[at : at + piece])
    assert passing.told() == passing.told()
    return passing.told()


def events(*said: dict[str, Any], end: bytes = b"\n\n") -> bytes:
    return b"".join(b"data: " + json.dumps(one).encode() + end for one in said)


def test_a_last_chunk_that_has_choices_keeps_its_cached_tokens() -> None:
    """LiteLLM #36168, #36083: they were lost, and four times the price was charged."""
    body = (
        events({"choices": [{"index": 0, "delta": {"content": "Hi"}}]}, TERMINAL_WITH_CHOICES)
        + b"data: [DONE]\n\n"
    )
    assert passed(body, EVENTS) == Usage(16111, 2, 15872)
    assembled = from_events(body)
    assert assembled is not None and assembled.usage() == Usage(16111, 2, 15872)
    price = Price(1.0, 2.0, cached_input_usd_per_mtok=0.1)
    assert price.cost_usd(Usage(16111, 2, 15872)) == pytest.approx((239 + 1587.2 + 4) / 1e6)


def test_usage_that_comes_piece_by_piece_adds_up() -> None:
    """LiteLLM #42663: the last event's cache writes count, not the first one's; #36943: nor are counts estimated anew."""
    start = {
        "input_tokens": 3,
        "cache_creation_input_tokens": 31490,
        "cache_read_input_tokens": 426653,
        "output_tokens": 1,
    }
    body = events(
        {"type": "message_start", "message": {"model": "claude", "usage": start}},
        {"type": "content_block_delta", "delta": {"type": "text_delta", "text": "usage"}},
        {
            "type": "message_delta",
            "delta": {},
            "usage": {"output_tokens": 900, "cache_creation_input_tokens": 184457},
        },
        {"type": "message_stop"},
    )
    assert passed(body, EVENTS) == Usage(3 + 184457 + 426653, 900, 426653, cache_write_tokens=184457)


def test_a_stream_of_responses_tells_it_with_its_last_event() -> None:
    done = {"model": "gpt", "service_tier": "default", "usage": {"input_tokens": 5, "output_tokens": 6}}
    body = b"event: response.created\n" + events(
        {"type": "response.created", "response": {"usage": None}}, end=b"\r\n\r\n"
    )
    body += events({"type": "response.completed", "response": done}, end=b"\r\n\r\n")
    assert passed(body, EVENTS) == Usage(5, 6, service_tier="default")


@pytest.mark.parametrize("piece", [1, 997, 10**9])
def test_an_answer_larger_than_what_is_held_tells_it_at_its_end(piece: int) -> None:
    if piece == 1:
        piece = 65_536
    picture = "QUJD" * 300_000
    answer = {"created": 1, "data": [{"b64_json": picture}, {"b64_json": picture}], "model": "gpt-image-1"}
    body = json.dumps(
        answer | {"usage": {"input_tokens": 50, "output_tokens": 4160, "output_tokens_details": {}}}
    ).encode()
    assert passed(body, "application/json", piece=piece) == Usage(50, 4160, images=2)
    event = {
        "type": "image_generation.completed",
        "b64_json": picture,
        "usage": {"input_tokens": 5, "output_tokens": 9},
    }
    found = passed(events(event), EVENTS, piece=piece)
    assert found is not None and (found.prompt_tokens, found.completion_tokens) == (5, 9)


def test_what_a_client_put_into_the_answer_is_not_taken_for_its_usage() -> None:
    forged = '{"usage": {"prompt_tokens": 0, "completion_tokens": 0}}'
    answer = {
        "choices": [{"message": {"content": forged}}],
        "usage": {"prompt_tokens": 7, "completion_tokens": 3},
    }
    assert passed(json.dumps(answer).encode(), "application/json") == Usage(7, 3)
    long = {"output": ["x" * 2**21, forged], "usage": {"input_tokens": 7, "output_tokens": 3}, "user": forged}
    assert passed(json.dumps(long).encode(), "application/json", piece=65_536) == Usage(7, 3)


def test_packed_answers_are_read_and_what_is_no_such_packing_is_not() -> None:
    body = json.dumps({"usage": {"prompt_tokens": 7, "completion_tokens": 3}}).encode()
    assert passed(gzip.compress(body), "application/json", "gzip") == Usage(7, 3)
    assert passed(body, "application/json", "gzip") is None
    assert passed(body, "application/json", "br") is None
    assert passed(gzip.compress(body)[:-12], "application/json", "gzip") in (None, Usage(7, 3))


def test_a_large_packed_answer_is_read_and_one_that_unpacks_without_end_is_not_unpacked() -> None:
    draw = random.Random(3)
    usage = {"prompt_tokens": 7, "total_tokens": 7}
    vectors = [{"embedding": [draw.gauss(0, 1) for _ in range(1536)]} for _ in range(64)]
    body = json.dumps({"data": vectors, "usage": usage}).encode()
    assert len(body) > 2**20
    assert passed(gzip.compress(body), "application/json", "gzip", piece=65_536) == Usage(7, 0)
    event = {
        "id": "chatcmpl-0123456789",
        "model": "m",
        "choices": [{"delta": {"content": "yes"}}],
        "usage": None,
    }
    stream = events(*[event] * 50_000, {"choices": [], "usage": {"prompt_tokens": 7, "completion_tokens": 9}})
    packed = gzip.compress(stream)
    assert len(stream) > 100 * len(packed), "a stream's events are nearly alike"
    assert passed(packed, EVENTS, "gzip", piece=65_536) == Usage(7, 9)
    endless = gzip.compress(b" " * 2**27 + b"{}")
    passing = Reader("application/json", "gzip")
    for begin in range(0, len(endless), 65_536):
        passing.feed(endless[begin : begin + 65_536])
    assert passing.told() is None and passing.size_bytes < 2**24


def test_where_nothing_is_told_it_is_estimated_and_says_so() -> None:
    """LiteLLM #37734: a stream cut halfway has been paid for all the same."""
    passing = Reader(EVENTS)
    for text in ("a", "b", "c"):
        passing.feed(events({"choices": [{"index": 0, "delta": {"content": text}}]}))
    passing.feed(b'data: {"choices": [{"ind')
    assert passing.told() is None
    assert passing.usage(100) == Usage(100, 3, estimated=True)


def test_garbage_never_raises() -> None:
    for content_type in (EVENTS, "application/json", ""):
        for body in (b"", b"\xff\xfe", b"data: {\ndata:", b"[1]", b'{"usage":', b"data: 3\n\n", b"\n" * 50):
            assert passed(body, content_type) is None
