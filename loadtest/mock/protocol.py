"""The mock's HTTP/1.1 server: one asyncio Protocol per connection, parsed by hand for speed.

A load test's upstream must cost far less than the gateway in front of it; this one costs about 10 microseconds a request. It
reads request bodies by content-length or chunked, and answers pipelined requests in order. loadtest.mock.service does
the rest.
"""

from __future__ import annotations

import asyncio
import socket
import struct
from dataclasses import asdict
from typing import Any, cast

import orjson

from loadtest.mock import answers
from loadtest.mock.faults import parse_fault
from loadtest.mock.service import Job, Service

_MAX_HEAD_BYTES = 64 * 1024


class MockProtocol(asyncio.Protocol):
    """Parses requests and passes them to the service, one at a time per connection."""

    def __init__(self, service: Service) -> None:
        self.gone = False
        self._service = service
        self._transport: asyncio.Transport | None = None
        self._buffer = b""
        self._job: Job | None = None
        self._closing = False
        self._reading = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Counts the connection."""
        self._transport = cast(asyncio.Transport, transport)
        self._service.counters.connections += 1

    def connection_lost(self, exc: Exception | None) -> None:
        """Removes the connection from the counts, and frees what its request used."""
        self.gone = True
        self._service.counters.connections -= 1
        job, self._job = self._job, None
        if job is not None and job.counted:
            self._service.client_left(job)

    def data_received(self, data: bytes) -> None:
        """Collects bytes until a request is complete."""
        self._buffer = self._buffer + data if self._buffer else data
        if self._job is None and not self._reading:
            self._read_requests()

    def write(self, data: bytes) -> None:
        """Sends bytes, unless the client has left."""
        if self._transport is not None and not self.gone:
            self._transport.write(data)

    def finish(self, keep_alive: bool) -> None:
        """The answer is complete: reads the next request, or closes."""
        self._job = None
        if not keep_alive:
            self._closing = True
            if self._transport is not None:
                self._transport.close()
        elif self._buffer and not self._reading:
            self._read_requests()

    def reset(self) -> None:
        """Aborts the connection with a TCP reset."""
        self._job = None
        self._closing = True
        if self._transport is None:
            return
        sock = self._transport.get_extra_info("socket")
        if sock is not None:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._transport.abort()

    def _read_requests(self) -> None:
        # A loop rather than recursion: a client may pipeline thousands of requests that are answered at once.
        self._reading = True
        while self._job is None and not self._closing and not self.gone and self._buffer:
            if not self._read_request():
                break
        self._reading = False

    def _read_request(self) -> bool:
        """Takes one complete request off the buffer; False if more bytes are needed."""
        buffer = self._buffer
        end = buffer.find(b"\r\n\r\n")
        if end < 0:
            if len(buffer) > _MAX_HEAD_BYTES:
                self._refuse(431, "request head over 64 KiB")
            return False
        head = buffer[:end].lower()
        start = end + 4
        length = _header(head, b"content-length")
        if length is not None:
            if not length.isdigit():
                self._refuse(400, "content-length is not a number")
                return False
            stop = start + int(length)
            if len(buffer) < stop:
                self._continue(head, len(buffer) == start)
                return False
            body = buffer[start:stop]
        elif _header(head, b"transfer-encoding") == b"chunked":
            whole = _dechunk(buffer, start)
            if whole is None:
                self._continue(head, len(buffer) == start)
                return False
            body, stop = whole
        else:
            body, stop = b"", start
        self._buffer = buffer[stop:]
        words = buffer[: buffer.find(b"\r\n")].split(b" ")
        if len(words) != 3:
            self._refuse(400, "malformed request line")
            return False
        self._route(words[0], words[1].partition(b"?")[0], head, body)
        return True

    def _continue(self, head: bytes, nothing_yet: bool) -> None:
        if nothing_yet and _header(head, b"expect") == b"100-continue":
            self.write(b"HTTP/1.1 100 Continue\r\n\r\n")

    def _refuse(self, status: int, message: str) -> None:
        self.write(answers.error_response(status, message))
        self.finish(False)

    def _route(self, method: bytes, path: bytes, head: bytes, body: bytes) -> None:
        service = self._service
        keep_alive = _header(head, b"connection") != b"close"
        if method == b"POST" and path in (b"/v1/chat/completions", b"/v1/completions"):
            self._complete(path == b"/v1/chat/completions", head, body, keep_alive)
            return
        if path == b"/v1/models" or path.startswith(b"/v1/models/"):
            reply = self._models(path)
        elif method == b"POST" and path == b"/v1/embeddings":
            service.counters.requests += 1
            service.counters.answered += 1
            reply = _embeddings(body)
        elif path == b"/mock/counters":
            reply = answers.json_response(200, asdict(service.counters))
        elif path == b"/mock/truth":
            truth = {"latency_s": list(service.intended_s), "first_token_s": list(service.intended_first_s)}
            reply = answers.json_response(200, truth)
        elif method == b"POST" and path == b"/mock/reset":
            service.reset()
            reply = answers.json_response(200, {"reset": True})
        elif path in (b"/health", b"/"):
            reply = answers.json_response(200, {"status": "ok"})
        else:
            reply = answers.error_response(404, f"no such path: {path.decode('latin-1')}")
        self.write(reply)
        self.finish(keep_alive)

    def _models(self, path: bytes) -> bytes:
        cards = [
            {"id": name, "object": "model", "created": 1_700_000_000, "owned_by": "understudy-mock"}
            for name in self._service.settings.models
        ]
        if path == b"/v1/models":
            return answers.json_response(200, {"object": "list", "data": cards})
        name = path[len(b"/v1/models/") :].decode("latin-1")
        for card in cards:
            if card["id"] == name:
                return answers.json_response(200, card)
        return answers.error_response(404, f"no such model: {name}")

    def _complete(self, chat: bool, head: bytes, body: bytes, keep_alive: bool) -> None:
        try:
            request = orjson.loads(body)
            if not isinstance(request, dict):
                raise ValueError("the body is not a JSON object")
            job = self._job_for(chat, request, len(body), head, keep_alive)
        except ValueError as error:
            self.write(answers.error_response(400, f"the mock cannot read this request: {error}"))
            self.finish(keep_alive)
            return
        self._job = job
        self._service.submit(job)

    def _job_for(self, chat: bool, request: dict[str, Any], size: int, head: bytes, keep_alive: bool) -> Job:
        service, settings = self._service, self._service.settings
        rng = service.rng
        limit = request.get("max_completion_tokens") or request.get("max_tokens")
        tokens = settings.tokens.draw_count(rng)
        ttft_ms, token_ms = settings.ttft_ms.draw(rng), settings.token_ms.draw(rng)
        fault, extra = None, ""
        if b"\r\nx-mock-" in head:
            if (asked := _header(head, b"x-mock-tokens")) is not None:
                tokens = max(1, int(asked))
            if (asked := _header(head, b"x-mock-ttft-ms")) is not None:
                ttft_ms = float(asked)
            if (asked := _header(head, b"x-mock-token-ms")) is not None:
                token_ms = float(asked)
            if (asked := _header(head, b"x-mock-fault")) is not None:
                fault = parse_fault(asked.decode("latin-1"))
            if (asked := _header(head, b"x-mock-dial")) is not None:
                # An invented dial: more effort costs time and buys quality with diminishing returns.
                dial = min(1.0, max(0.0, float(asked)))
                ttft_ms, token_ms = ttft_ms * (0.2 + 0.8 * dial), token_ms * (0.2 + 0.8 * dial)
                extra = f"x-mock-quality: {1 - 0.5 * (1 - dial) ** 2:.4f}\r\n"
        if isinstance(limit, int) and limit > 0:
            tokens = min(tokens, limit)
        options = request.get("stream_options")
        return Job(
            connection=self,
            chat=chat,
            model=str(request.get("model") or settings.models[0]),
            stream=request.get("stream") is True,
            with_usage=isinstance(options, dict) and options.get("include_usage") is True,
            prompt_tokens=size // 5 + 1,
            tokens=tokens,
            ttft_s=ttft_ms / 1000,
            token_s=token_ms / 1000,
            keep_alive=keep_alive,
            fault=fault,
            extra_head=extra,
        )


def _header(lowered_head: bytes, name: bytes) -> bytes | None:
    at = lowered_head.find(b"\r\n" + name + b":")
    if at < 0:
        return None
    at += len(name) + 3
    end = lowered_head.find(b"\r\n", at)
    return lowered_head[at : end if end >= 0 else len(lowered_head)].strip()


def _dechunk(buffer: bytes, at: int) -> tuple[bytes, int] | None:
    """A chunked body and its end; None if it is not complete yet."""
    pieces: list[bytes] = []
    while True:
        line = buffer.find(b"\r\n", at)
        if line < 0:
            return None
        size = int(buffer[at:line].split(b";")[0], 16)
        at = line + 2
        if size == 0:
            end = buffer.find(b"\r\n", at)
            return (b"".join(pieces), end + 2) if end >= 0 else None
        if len(buffer) < at + size + 2:
            return None
        pieces.append(buffer[at : at + size])
        at += size + 2


def _embeddings(body: bytes) -> bytes:
    try:
        request = orjson.loads(body)
        given = request["input"]
    except (ValueError, KeyError, TypeError):
        return answers.error_response(400, "an embeddings request needs a JSON object with `input`")
    inputs = given if isinstance(given, list) and given and not isinstance(given[0], int) else [given]
    return answers.json_response(200, answers.embeddings(str(request.get("model", "mock-embed")), inputs))
