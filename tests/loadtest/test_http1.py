"""The response reader gives the same answer however the bytes are cut."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadtest.http1 import ProtocolError, ResponseReader

PLAIN = b"HTTP/1.1 200 OK\r\nContent-Length: 11\r\nX-Thing: A b \r\n\r\nhello world"
CHUNKED = (
    b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 201 Created\r\nTransfer-Encoding: chunked\r\n\r\n"
    b"5\r\nhello\r\n6;note=1\r\n world\r\n0\r\nTrailer: x\r\n\r\n"
)
BARE_END = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nb\r\nhello world\r\n0\r\n\r\n"


def read(data: bytes, cuts: list[int]) -> tuple[ResponseReader, bytes]:
    reader, body = ResponseReader(), b""
    edges = [0, *sorted(cut % len(data) for cut in cuts), len(data)]
    for start, end in itertools.pairwise(edges):
        if start < end:
            body += reader.feed(data[start:end])
    return reader, body


@given(st.sampled_from([PLAIN, CHUNKED, BARE_END]), st.lists(st.integers(0, 1000), max_size=8))
def test_cuts_do_not_matter(data: bytes, cuts: list[int]) -> None:
    reader, body = read(data, cuts)
    assert body == b"hello world"
    assert reader.done and reader.keep_alive


@pytest.mark.parametrize("data", [PLAIN, CHUNKED, BARE_END])
def test_an_answer_is_not_done_before_its_last_byte(data: bytes) -> None:
    reader = ResponseReader()
    for byte in data[:-1]:
        reader.feed(bytes([byte]))
        assert not reader.done
    reader.feed(data[-1:])
    assert reader.done


def test_headers_are_found_by_lower_case_name() -> None:
    reader, _ = read(PLAIN, [])
    assert reader.header(b"x-thing") == b"a b"
    assert reader.header(b"x-other") is None


@pytest.mark.parametrize(
    "head",
    [
        b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nxxEXTRA",
    ],
)
def test_a_connection_that_may_not_be_used_again_is_not(head: bytes) -> None:
    reader, _ = read(head, [])
    assert reader.done and not reader.keep_alive


def test_without_a_length_the_answer_ends_with_the_connection() -> None:
    reader, body = read(b"HTTP/1.1 200 OK\r\n\r\nhello", [])
    assert body == b"hello" and not reader.done
    assert reader.end() and not reader.keep_alive


def test_a_status_without_body_is_done_at_once() -> None:
    reader, _ = read(b"HTTP/1.1 204 No Content\r\n\r\n", [])
    assert reader.done


def test_a_cut_answer_is_not_complete() -> None:
    reader, _ = read(PLAIN[:-3], [])
    assert not reader.end()


@pytest.mark.parametrize(
    "data",
    [
        b"SSH-2.0-OpenSSH_9.2\r\n",
        b"HTTP/1.1 abc\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: many\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nxyz\r\n",
        b"HTTP/1.1 200 OK\r\nx: " + b"y" * 300_000,
    ],
)
def test_what_is_not_http_is_said_to_be_none(data: bytes) -> None:
    with pytest.raises(ProtocolError):
        ResponseReader().feed(data)
