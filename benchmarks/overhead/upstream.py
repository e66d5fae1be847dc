"""The upstream of benchmarks.overhead: raw HTTP on an asyncio Protocol, so that it costs a tenth of what is measured.

    python -m benchmarks.overhead.upstream PORT

Any POST is answered with the same completion of about 1 KiB, or, where it carries `x-bench-label: LABEL`, with one that
says just that. One that carries `x-bench-stream: ID,CHUNKS,INTERVAL_MS,OFFSET_MS` gets a stream of that many chunks, paced,
in which every chunk tells whose it is and which. That is what `understudy load serve-mock` does not do, and what it takes
to see streams mixed up or out of order.
"""

from __future__ import annotations

import asyncio
import gc
import json
import sys
from functools import lru_cache
from typing import cast

import uvloop

INPUT_TOKENS, OUTPUT_TOKENS = 60, 140
"""What each answer says that it used."""
_TEXT = "The understudy knows the part by heart and waits in the wings. " * 11


def completion(text: str) -> bytes:
    """A JSON answer that says `text`."""
    return json.dumps(
        {
            "id": "chatcmpl-bench",
            "object": "chat.completion",
            "created": 1_700_000_000,
            "model": "bench",
            "choices": [
                {
                    "index": 0,
                    "message": {"role": "assistant", "content": text},
                    "logprobs": None,
                    "finish_reason": "stop",
                }
            ],
            "usage": {
                "prompt_tokens": INPUT_TOKENS,
                "completion_tokens": OUTPUT_TOKENS,
                "total_tokens": INPUT_TOKENS + OUTPUT_TOKENS,
            },
        }
    ).encode()


def _answer(body: bytes) -> bytes:
    return (
        b"HTTP/1.1 200 OK\r\nServer: bench\r\nContent-Type: application/json\r\nx-request-id: req-1\r\n"
        b"openai-processing-ms: 5\r\nx-ratelimit-remaining-requests: 9999\r\nContent-Length: %d\r\n\r\n%s"
        % (len(body), body)
    )


_BODY = completion(_TEXT)
ANSWER = _answer(_BODY)
_STREAM_HEAD = (
    b"HTTP/1.1 200 OK\r\nServer: bench\r\nContent-Type: text/event-stream\r\nx-request-id: req-1\r\n"
    b"Transfer-Encoding: chunked\r\n\r\n"
)
_STREAM_HEADER = b"\r\nx-bench-stream: "
_LABEL_HEADER = b"\r\nx-bench-label: "
_LENGTH_HEADER = b"\r\ncontent-length: "


def body() -> bytes:
    """The JSON answer's body."""
    return _BODY


def event(stream: int, k: int, chunks: int) -> bytes:
    """The k-th of a stream's events; the last one says that it is over."""
    if k < chunks - 1:
        choice = b'{"index":0,"delta":{"content":" word-%d-%d"},"finish_reason":null}' % (stream, k)
    else:
        choice = b'{"index":0,"delta":{},"finish_reason":"stop"}'
    done = b"data: [DONE]\n\n" if k == chunks - 1 else b""
    return (
        b'data: {"id":"chatcmpl-%d","object":"chat.completion.chunk","created":1700000000,"model":"bench",'
        b'"choices":[%s]}\n\n%s' % (stream, choice, done)
    )


class Upstream(asyncio.Protocol):
    """One connection; one request at a time."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._held = b""
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport."""
        self._transport = cast(asyncio.Transport, transport)

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop a stream whose reader has gone."""
        if self._timer is not None:
            self._timer.cancel()

    def data_received(self, data: bytes) -> None:
        """Answer when a request is whole."""
        data = self._held + data
        end = data.find(b"\r\n\r\n")
        if end < 0:
            self._held = data
            return
        head = data[: end + 2].lower()
        length = _value(head, _LENGTH_HEADER)
        if len(data) < end + 4 + int(length or 0):
            self._held = data
            return
        self._held = b""
        wanted = _value(head, _STREAM_HEADER)
        if wanted is None:
            label = _value(head, _LABEL_HEADER)
            self._transport.write(ANSWER if label is None else _labelled(label))
            return
        stream, chunks, interval_ms, offset_ms = (float(part) for part in wanted.split(b","))
        self._transport.write(_STREAM_HEAD)
        first_s = self._loop.time() + offset_ms / 1000
        self._timer = self._loop.call_at(
            first_s, self._next, int(stream), 0, int(chunks), first_s, interval_ms / 1000
        )

    def _next(self, stream: int, k: int, chunks: int, first_s: float, interval_s: float) -> None:
        data = event(stream, k, chunks)
        frame = b"%x\r\n%s\r\n" % (len(data), data)
        if k == chunks - 1:
            self._timer = None
            self._transport.write(frame + b"0\r\n\r\n")
            return
        self._transport.write(frame)
        self._timer = self._loop.call_at(
            first_s + (k + 1) * interval_s, self._next, stream, k + 1, chunks, first_s, interval_s
        )


@lru_cache
def _labelled(label: bytes) -> bytes:
    return _answer(completion(label.decode()))


def _value(head: bytes, name: bytes) -> bytes | None:
    at = head.find(name)
    if at < 0:
        return None
    at += len(name)
    return head[at : head.find(b"\r\n", at)]


async def main(port: int) -> None:
    """Serve until killed."""
    loop = asyncio.get_running_loop()
    await loop.create_server(lambda: Upstream(loop), "127.0.0.1", port, backlog=4096)
    gc.freeze()
    await asyncio.Event().wait()


if __name__ == "__main__":
    uvloop.run(main(int(sys.argv[1])))
