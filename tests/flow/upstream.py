"""An upstream that plays back anything, byte for byte, and records what reached it.

Plain blocking sockets and one thread per connection, so that a script reads from top to bottom and nothing between it and
the wire can tidy its bytes up. It knows just enough HTTP to find where a request ends.
"""

from __future__ import annotations

import json
import socket
import struct
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from engines.openai_http import HEALTH_AGENT
from tests.patience import PATIENCE_S

Headers = Iterable[tuple[str, str]]


@dataclass
class Call:
    """One request as it arrived, and the means to answer it."""

    connection: socket.socket
    line: bytes = b""
    headers: list[tuple[str, str]] = field(default_factory=list)
    """Names in lower case."""
    head: bytes = b""
    body: bytes = b""
    whole: bool = True
    """The body came to its declared end."""
    keep: bool = False
    """Whether the script wants the next request on this connection."""
    unread: bytearray = field(default_factory=bytearray)
    _read: threading.Event = field(default_factory=threading.Event)
    _left: threading.Event = field(default_factory=threading.Event)
    _played: threading.Event = field(default_factory=threading.Event)

    def received(self, timeout_s: float = PATIENCE_S) -> Call:
        """This call, once its body has come or will never come."""
        assert self._read.wait(timeout_s), "the body never ended"
        return self

    @property
    def method(self) -> str:
        return self.line.split(b" ")[0].decode()

    @property
    def target(self) -> bytes:
        return self.line.split(b" ")[1]

    def header(self, name: str) -> str | None:
        """The only value of a header; None where it is absent."""
        values = self.values(name)
        assert len(values) <= 1, f"{name} came {len(values)} times"
        return values[0] if values else None

    def values(self, name: str) -> list[str]:
        return [value for key, value in self.headers if key == name.lower()]

    def json(self) -> Any:
        return json.loads(self.body)

    def send(self, data: bytes) -> None:
        self.connection.sendall(data)

    def answer(
        self,
        body: bytes = b"",
        status: int = 200,
        headers: Headers = (("Content-Type", "application/json"),),
        *,
        reason: str = "OK",
        keep: bool = False,
    ) -> None:
        """A whole answer with its length."""
        self.keep = keep
        lines = [f"HTTP/1.1 {status} {reason}", *(f"{k}: {v}" for k, v in headers)]
        lines += [f"Content-Length: {len(body)}", f"Connection: {'keep-alive' if keep else 'close'}", "", ""]
        self.send("\r\n".join(lines).encode("latin-1") + body)

    def begin(
        self, content_type: str = "text/event-stream", status: int = 200, headers: Headers = ()
    ) -> None:
        """The head of a chunked answer."""
        lines = [f"HTTP/1.1 {status} OK", f"Content-Type: {content_type}", *(f"{k}: {v}" for k, v in headers)]
        self.send(
            "\r\n".join([*lines, "Transfer-Encoding: chunked", "Connection: close", "", ""]).encode("latin-1")
        )

    def chunk(self, data: bytes) -> None:
        self.send(b"%x\r\n%s\r\n" % (len(data), data))

    def end(self) -> None:
        """The last chunk."""
        self.send(b"0\r\n\r\n")

    def reset(self) -> None:
        """End the connection with a TCP reset."""
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.connection.close()

    def hung_up(self, timeout_s: float = PATIENCE_S) -> bool:
        """Whether the gateway closes the connection in time; bytes it still sends are kept in `unread`."""
        self.connection.settimeout(timeout_s)
        try:
            while data := self.connection.recv(65536):
                self.unread += data
        except TimeoutError:
            return False
        except OSError:
            pass
        self._left.set()
        return True

    def played(self, timeout_s: float = PATIENCE_S) -> bool:
        """For tests: whether the script came to its end in time."""
        return self._played.wait(timeout_s)

    def was_left(self, timeout_s: float = PATIENCE_S) -> bool:
        """For tests: whether the script saw the gateway close the connection."""
        return self._left.wait(timeout_s)


Script = Callable[[Call], None]


def waits(call: Call) -> None:
    """Says nothing until the gateway leaves."""
    assert call.hung_up()


def begins_and_waits(call: Call) -> None:
    """Begins a stream, says one thing, and then nothing until the gateway leaves."""
    call.begin()
    call.chunk(b"data: 1\n\n")
    waits(call)


class Upstream:
    """Listens on a free port, or on `port`, and plays `script` to each request."""

    def __init__(self, port: int = 0) -> None:
        self._listener = socket.create_server(("127.0.0.1", port), backlog=512)
        self.port: int = self._listener.getsockname()[1]
        self.calls: list[Call] = []
        self.shared = False
        """Whether gateways of several tests ask it: then a health check, of any of them, is no call of a test."""
        self.connections = 0
        self.failures: list[BaseException] = []
        self.reads_body = True
        self._script: Script = _echo
        self._threads: list[threading.Thread] = []
        self._arrived = threading.Condition()
        self._acceptor = threading.Thread(target=self._accept, daemon=True)
        self._acceptor.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    def plays(self, script: Script, *, reads_body: bool = True) -> None:
        """From now on every request is answered by `script`; with `reads_body` off, its body is left on the socket."""
        self._script, self.reads_body = script, reads_body

    def says(self, raw: bytes) -> None:
        """From now on every request is answered with these bytes and a closed connection."""
        self.plays(lambda call: call.send(raw))

    def call(self, number: int = 0, timeout_s: float = PATIENCE_S) -> Call:
        """The `number`th request since the start of the test, waited for; its body may still be coming."""
        with self._arrived:
            came = self._arrived.wait_for(lambda: len(self.calls) > number, timeout_s)
            assert came, f"only {len(self.calls)} requests reached the upstream"
            return self.calls[number]

    def forget(self) -> None:
        """Start a new test: let open scripts end, forget what came."""
        for thread in self._threads:
            thread.join(PATIENCE_S)
        assert not any(thread.is_alive() for thread in self._threads), "a script of the upstream never ended"
        self._threads.clear()
        self.calls.clear()
        self.connections = 0
        self.plays(_echo)
        failures, self.failures = self.failures, []
        assert not failures, failures

    def close(self) -> None:
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._acceptor.join(PATIENCE_S)

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self.connections += 1
            thread = threading.Thread(target=self._serve, args=(connection,), daemon=True)
            thread.start()
            self._threads.append(thread)

    def _serve(self, connection: socket.socket) -> None:
        buffer = bytearray()
        with connection:
            connection.settimeout(PATIENCE_S)
            try:
                while (call := self._read(connection, buffer)) is not None:
                    try:
                        # A script may ask which call of its test this is: a health check of a shared one is none.
                        (_echo if self._is_no_call(call) else self._script)(call)
                    finally:
                        call._played.set()
                    if not call.keep:
                        # The gateway closing its end shows that it has seen ours: no later test meets this connection.
                        connection.shutdown(socket.SHUT_WR)
                        call.hung_up()
                        break
            except OSError:
                pass
            except BaseException as failure:
                self.failures.append(failure)

    def _is_no_call(self, call: Call) -> bool:
        return self.shared and call.header("user-agent") == HEALTH_AGENT

    def _read(self, connection: socket.socket, buffer: bytearray) -> Call | None:
        if not _fill(connection, buffer, b"\r\n\r\n"):
            return None
        head, _, rest = bytes(buffer).partition(b"\r\n\r\n")
        buffer[:] = rest
        line, *lines = head.split(b"\r\n")
        pairs = [item.decode("latin-1").partition(":") for item in lines]
        headers = [(name.lower(), value.strip()) for name, _, value in pairs]
        call = Call(connection, line, headers, head)
        if not self._is_no_call(call):
            with self._arrived:
                self.calls.append(call)
                self._arrived.notify_all()
        if self.reads_body:
            call.body, call.whole = _body(connection, buffer, dict(headers))
        else:
            call.unread += buffer
        call._read.set()
        return call


def _echo(call: Call) -> None:
    call.answer(call.body, headers=[("Content-Type", call.header("content-type") or "text/plain")])


def _body(connection: socket.socket, buffer: bytearray, headers: dict[str, str]) -> tuple[bytes, bool]:
    if headers.get("transfer-encoding", "").lower() == "chunked":
        return _chunked(connection, buffer)
    length = int(headers.get("content-length", 0))
    while len(buffer) < length:
        if not _more(connection, buffer):
            return bytes(buffer), False
    body = bytes(buffer[:length])
    del buffer[:length]
    return body, True


def _chunked(connection: socket.socket, buffer: bytearray) -> tuple[bytes, bool]:
    body = bytearray()
    while _fill(connection, buffer, b"\r\n"):
        line, _, rest = bytes(buffer).partition(b"\r\n")
        size = int(line, 16)
        buffer[:] = rest
        while len(buffer) < size + 2:
            if not _more(connection, buffer):
                return bytes(body + buffer), False
        body += buffer[:size]
        del buffer[: size + 2]
        if size == 0:
            return bytes(body), True
    return bytes(body), False


def _fill(connection: socket.socket, buffer: bytearray, mark: bytes) -> bool:
    while mark not in buffer:
        if not _more(connection, buffer):
            return False
    return True


def _more(connection: socket.socket, buffer: bytearray) -> bool:
    try:
        data = connection.recv(1 << 20)
    except OSError:
        return False
    buffer += data
    return bool(data)
