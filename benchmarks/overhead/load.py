"""The load of benchmarks.overhead: closed-loop requests and paced streams over raw connections, every answer checked.

It speaks just enough HTTP to be far cheaper than what it measures.
"""

from __future__ import annotations

import asyncio
import itertools
import math
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import cast

from benchmarks.overhead.upstream import event

_UNTIL_FIRST_S = 0.1
"""Until the first of paced requests is due: all connections are open by then."""
_LENGTH = re.compile(rb"\r\ncontent-length: (\d+)\r\n", re.IGNORECASE)


def chat_request(body: bytes, extra: bytes = b"") -> bytes:
    """A chat completion as the official SDK sends it, header by header; `extra` holds whole header lines."""
    return (
        b"POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nAccept-Encoding: gzip, deflate\r\n"
        b"Connection: keep-alive\r\nAccept: application/json\r\nContent-Type: application/json\r\n"
        b"User-Agent: OpenAI/Python 2.8.1\r\nX-Stainless-Lang: python\r\nX-Stainless-Package-Version: 2.8.1\r\n"
        b"X-Stainless-OS: Linux\r\nX-Stainless-Arch: x64\r\nX-Stainless-Runtime: CPython\r\n"
        b"X-Stainless-Runtime-Version: 3.11.2\r\nAuthorization: Bearer sk-bench-0123456789\r\n"
        b"X-Stainless-Async: false\r\nx-stainless-retry-count: 0\r\nx-stainless-read-timeout: 600\r\n"
        b"%sContent-Length: %d\r\n\r\n%s" % (extra, len(body), body)
    )


@dataclass
class Batch:
    """What came of a batch of requests."""

    answered: int = 0
    wall_s: float = 0.0
    hits: int = 0
    """Answers the gateway says came from memory."""
    offloaded: int = 0
    """Answers the gateway says the small engine gave."""
    unproven: int = 0
    """Answers that the gateway says the large engine gave since no other is proven there."""
    by_student: int = 0
    """Answers the gateway says a task's student gave."""
    wrong: list[str] = field(default_factory=list)
    latencies_s: list[float] = field(default_factory=list)

    def latency_ms(self, share: float) -> float:
        """The latency that so many of the requests did not exceed, in milliseconds; 0.5: the median."""
        return sorted(self.latencies_s)[math.ceil(share * len(self.latencies_s)) - 1] * 1000


Right = Callable[[bytes], bool]
"""Whether an answer's body is the right one."""


class _Asker(asyncio.Protocol):
    """One connection that asks, reads the answer, checks it, and asks again until there is nothing left to ask.

    `due`: when each request is to be asked (time.perf_counter); None: as soon as the one before is answered. A request that
    is asked late, since all connections waited for answers, counts from when it was due: what a client would have waited.
    """

    def __init__(
        self, requests: Iterator[bytes], right: Right, batch: Batch, due: Iterator[float] | None
    ) -> None:
        self._requests = requests
        self._right = right
        self._batch = batch
        self._due = due
        self._buffer = b""
        self._asked_at = 0.0
        self._loop = asyncio.get_running_loop()
        self.done: asyncio.Future[None] = self._loop.create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._ask()

    def _ask(self) -> None:
        request = next(self._requests, None)
        if request is None:
            self._transport.close()
            return
        now = time.perf_counter()
        due = now if self._due is None else next(self._due)
        if due > now:
            self._loop.call_later(due - now, self._send, request)
        else:
            self._asked_at = due
            self._transport.write(request)

    def _send(self, request: bytes) -> None:
        # A timer is a millisecond late or early; that is no latency of the server.
        self._asked_at = time.perf_counter()
        self._transport.write(request)

    def data_received(self, data: bytes) -> None:
        self._buffer = data = self._buffer + data if self._buffer else data
        end = data.find(b"\r\n\r\n")
        if end < 0:
            return
        found = _LENGTH.search(data, 0, end + 2)
        if found is None:
            self._batch.wrong.append(f"an answer without a length: {data[:200]!r}")
            self._transport.close()
            return
        if len(data) < end + 4 + int(found[1]):
            return
        batch = self._batch
        batch.latencies_s.append(time.perf_counter() - self._asked_at)
        if not data.startswith(b"HTTP/1.1 200") or not self._right(data[end + 4 :]):
            batch.wrong.append(data[:300].decode("latin-1"))
        batch.answered += 1
        head = data[:end]
        batch.hits += b"understudy; hit" in head
        batch.offloaded += b"x-understudy-engine: small" in head
        batch.unproven += b"x-understudy-reason: shadow" in head or b"x-understudy-reason: proof" in head
        batch.by_student += b"x-understudy-engine: student" in head
        self._buffer = b""
        self._ask()

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.done.done():
            self.done.set_result(None)


async def ask(
    port: int,
    requests: Iterator[bytes],
    expected: bytes | Right,
    *,
    connections: int,
    per_s: float | None = None,
    limit_s: float = 120,
) -> Batch:
    """Ask all `requests` over so many connections, each with one request under way at a time.

    `expected`: every answer's body, or what tells a right one. `per_s`: evenly so many a second, whatever the answers take,
    as long as a connection is free; None: as many as they answer.
    """
    loop = asyncio.get_running_loop()
    right = expected.__eq__ if isinstance(expected, bytes) else expected
    batch = Batch()
    began = time.perf_counter()
    due = None if per_s is None else itertools.count(began + _UNTIL_FIRST_S, 1 / per_s)
    askers = []
    for _ in range(connections):
        _, asker = await loop.create_connection(
            lambda: _Asker(requests, right, batch, due), "127.0.0.1", port
        )
        askers.append(asker)
    async with asyncio.timeout(limit_s):
        await asyncio.gather(*(asker.done for asker in askers))
    batch.wall_s = time.perf_counter() - began
    return batch


@dataclass
class Streams:
    """What came of a batch of paced streams."""

    streams: int
    chunks: int
    """Of all streams together."""
    wall_s: float
    wrong: list[str]
    """Streams whose bytes were not exactly their own, in order and whole."""


class _Reader(asyncio.Protocol):
    """One connection that asks for one stream and keeps what comes."""

    def __init__(self, request: bytes) -> None:
        self._request = request
        self.received = bytearray()
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        self.received += data
        if self.received.endswith(b"\r\n0\r\n\r\n"):
            self._transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.done.done():
            self.done.set_result(None)


async def read_streams(
    port: int,
    *,
    streams: int,
    chunks: int,
    interval_ms: float,
    first_id: int = 0,
    body: Callable[[int], bytes],
    while_open: Callable[[], None] = lambda: None,
    limit_s: float = 60,
) -> Streams:
    """Read so many streams at once, `chunks` each, one per `interval_ms`, evenly out of step with one another.

    `while_open` is called now and then while they run. Chunks that arrive late are never skipped: each stream is compared
    with the exact bytes it should hold.
    """
    loop = asyncio.get_running_loop()
    began = time.perf_counter()
    readers: list[_Reader] = []
    for n in range(streams):
        stream = first_id + n
        header = b"x-bench-stream: %d,%d,%g,%g\r\n" % (stream, chunks, interval_ms, interval_ms * n / streams)
        request = chat_request(body(stream), header)
        _, reader = await loop.create_connection(partial(_Reader, request), "127.0.0.1", port)
        readers.append(reader)
    finished = asyncio.gather(*(reader.done for reader in readers))
    async with asyncio.timeout(limit_s):
        while not finished.done():
            await asyncio.wait([finished], timeout=0.1)
            while_open()
    wall_s = time.perf_counter() - began
    wrong = []
    for n, reader in enumerate(readers):
        expected = b"".join(event(first_id + n, k, chunks) for k in range(chunks))
        if (problem := _not_as_expected(bytes(reader.received), expected)) is not None:
            wrong.append(f"stream {first_id + n}: {problem}")
    return Streams(streams, streams * chunks, wall_s, wrong)


def _not_as_expected(received: bytes, expected: bytes) -> str | None:
    head, separator, framed = received.partition(b"\r\n\r\n")
    if not separator or not head.startswith(b"HTTP/1.1 200"):
        return f"answered {received[:200]!r}"
    body, whole = dechunked(framed)
    if not whole:
        return f"ended after {len(body)} of {len(expected)} bytes"
    if body != expected:
        at = next((i for i, (a, b) in enumerate(zip(body, expected, strict=False)) if a != b), len(body))
        return f"differs from byte {at} on: {body[at : at + 80]!r}"
    return None


def dechunked(framed: bytes) -> tuple[bytes, bool]:
    """The body in chunked framing (RFC 9112 §7.1), and whether its last chunk is there."""
    pieces: list[bytes] = []
    at = 0
    while (line := framed.find(b"\r\n", at)) >= 0:
        size = int(framed[at:line], 16)
        if size == 0:
            return b"".join(pieces), True
        pieces.append(framed[line + 2 : line + 2 + size])
        at = line + 2 + size + 2
    return b"".join(pieces), False
