"""A client that sends exactly the bytes it is given and keeps exactly the bytes it gets."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from types import TracebackType
from typing import Any

from tests.patience import PATIENCE_S

Headers = Iterable[tuple[str, str]]


@dataclass
class Answer:
    """One answer off the wire."""

    status: int
    reason: str
    headers: list[tuple[str, str]]
    """As they came; names keep their case."""
    body: bytes
    whole: bool
    """The body came to its declared end, or had none and ended with the connection."""

    def header(self, name: str) -> str | None:
        """The only value of a header; None where it is absent."""
        values = self.values(name)
        assert len(values) <= 1, f"{name} came {len(values)} times: {values}"
        return values[0] if values else None

    def values(self, name: str) -> list[str]:
        return [value for key, value in self.headers if key.lower() == name.lower()]

    def json(self) -> Any:
        return json.loads(self.body)

    def error(self) -> dict[str, Any]:
        """The error object, after a check that it is one an OpenAI SDK understands."""
        assert self.header("Content-Type") == "application/json" or "json" in (
            self.header("Content-Type") or ""
        )
        body = self.json()
        assert set(body) == {"error"}
        error: dict[str, Any] = body["error"]
        assert set(error) == {"message", "type", "param", "code"}
        assert isinstance(error["message"], str) and error["message"]
        assert isinstance(error["type"], str) and isinstance(error["code"], str)
        return error


class Client:
    """One connection to the gateway. A context manager."""

    def __init__(self, port: int, *, receive_buffer_bytes: int | None = None) -> None:
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        if receive_buffer_bytes:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer_bytes)
        self.socket.settimeout(PATIENCE_S)
        self.socket.connect(("127.0.0.1", port))
        self.buffer = bytearray()

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.socket.close()

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def send_what_is_taken(self, data: bytes) -> None:
        """Send until the gateway has had enough: it may answer and close in the middle."""
        with suppress(OSError):
            self.socket.sendall(data)

    def ask(self, method: str, target: str, body: bytes | None = None, headers: Headers = ()) -> None:
        """Send one request as a well-behaved client would."""
        self.send(request(method, target, body, headers))

    def read(self, *, to: str = "GET") -> Answer:
        """The next final answer; `to` is the method it answers. Interim 1xx answers (but 101) are skipped."""
        while True:
            answer = self._read_one(to)
            if answer.status >= 200 or answer.status == 101:
                return answer

    def read_head(self) -> Answer:
        """The next head only; the body stays on the wire."""
        self._until(b"\r\n\r\n")
        head, _, rest = bytes(self.buffer).partition(b"\r\n\r\n")
        self.buffer[:] = rest
        line, *lines = head.decode("latin-1").split("\r\n")
        version, status, *reason = line.split(" ", 2)
        assert version in ("HTTP/1.1", "HTTP/1.0"), line
        pairs = [item.partition(":") for item in lines]
        return Answer(
            int(status), reason[0] if reason else "", [(n, v.strip()) for n, _, v in pairs], b"", False
        )

    def read_until(self, mark: bytes) -> bytes:
        """Everything up to and including `mark`."""
        self._until(mark)
        end = self.buffer.index(mark) + len(mark)
        data = bytes(self.buffer[:end])
        del self.buffer[:end]
        return data

    def rest(self) -> bytes:
        """Everything until the gateway closes the connection."""
        while self._more():
            pass
        data = bytes(self.buffer)
        self.buffer.clear()
        return data

    def hung_up(self) -> bool:
        """Whether the gateway has closed this connection without another byte."""
        return self.rest() == b""

    def _read_one(self, to: str) -> Answer:
        answer = self.read_head()
        coding = answer.header("Transfer-Encoding")
        length = answer.header("Content-Length")
        if to == "HEAD" or answer.status < 200 or answer.status in (204, 304):
            answer.whole = True
        elif coding == "chunked":
            answer.body, answer.whole = self._chunks()
        elif length is not None:
            answer.body, answer.whole = self._exactly(int(length))
        else:
            answer.body, answer.whole = self.rest(), True
        return answer

    def _chunks(self) -> tuple[bytes, bool]:
        body = bytearray()
        while True:
            try:
                size = int(self.read_until(b"\r\n"), 16)
            except EOFError:
                return bytes(body + self.buffer), False
            data, whole = self._exactly(size + 2)
            body += data[:size]
            if not whole:
                return bytes(body), False
            if size == 0:
                return bytes(body), True

    def _exactly(self, size: int) -> tuple[bytes, bool]:
        while len(self.buffer) < size:
            if not self._more():
                data = bytes(self.buffer)
                self.buffer.clear()
                return data, False
        data = bytes(self.buffer[:size])
        del self.buffer[:size]
        return data, True

    def _until(self, mark: bytes) -> None:
        while mark not in self.buffer:
            if not self._more():
                raise EOFError(f"the gateway closed the connection after {bytes(self.buffer[:200])!r}")

    def _more(self) -> bool:
        try:
            data = self.socket.recv(1 << 20)
        except ConnectionError:
            return False
        self.buffer += data
        return bool(data)


def request(method: str, target: str, body: bytes | None = None, headers: Headers = ()) -> bytes:
    """The bytes of one ordinary request."""
    lines = [f"{method} {target} HTTP/1.1", "Host: gateway.test", *(f"{k}: {v}" for k, v in headers)]
    if body is not None:
        lines.append(f"Content-Length: {len(body)}")
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + (body or b"")


def once(port: int, method: str, target: str, body: bytes | None = None, headers: Headers = ()) -> Answer:
    """One request on a connection of its own."""
    with Client(port) as client:
        client.ask(method, target, body, headers)
        return client.read(to=method)


def raw(port: int, data: bytes) -> bytes:
    """Send bytes and take everything until the gateway closes: for what it must refuse."""
    with Client(port) as client:
        client.send_what_is_taken(data)
        return client.rest()
