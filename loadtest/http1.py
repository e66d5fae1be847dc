"""Reads one HTTP/1.1 response from bytes, without a general HTTP client.

A general client costs some hundreds of microseconds a request. A generator that must offer 3,000 requests/s on one core, and
be on time, has 330 for everything, so it would measure itself. This reader does what is needed (status, a few headers,
content-length, chunked, read-to-close) in a few. Knows nothing of sockets and of OpenAI.
"""

from __future__ import annotations

_MAX_HEAD_BYTES = 256 * 1024


class ProtocolError(Exception):
    """The bytes are not HTTP/1.1."""


class ResponseReader:
    """Takes a response's bytes and returns its body bytes as they are decoded.

    After the head: `status`, `head` (lower-cased header block). At the end: `done`, and `keep_alive` says whether the
    connection may be used again. `started` is True from the first byte on.
    """

    __slots__ = ("_buffer", "_left", "_mode", "done", "head", "keep_alive", "started", "status")

    def __init__(self) -> None:
        self.status = 0
        self.head = b""
        self.done = False
        self.keep_alive = True
        self.started = False
        self._buffer = b""
        self._left = 0
        self._mode = "head"

    def feed(self, data: bytes) -> bytes:
        """Takes bytes from the connection; returns the body bytes they contain.

        Raises ProtocolError if the bytes are not an HTTP/1.1 response.
        """
        self.started = True
        if self._mode == "head":
            rest = self._read_head(data)
            if rest is None:
                return b""
            data = rest
        if self._mode == "chunked":
            return self._read_chunks(data)
        if self._mode == "length":
            if len(data) > self._left:
                self.keep_alive = False  # more than was announced: the next answer cannot be trusted
                data = data[: self._left]
            self._left -= len(data)
            self.done = self._left == 0
        elif self._mode == "none" and data:
            self.keep_alive = False
            return b""
        return data

    def end(self) -> bool:
        """The peer closed the connection: True if that completes the answer (no length was announced)."""
        if self._mode == "close":
            self.done = True
            self.keep_alive = False
        return self.done

    def header(self, name: bytes) -> bytes | None:
        """A header's value (lower-cased, stripped), by its lower-case name."""
        at = self.head.find(b"\r\n" + name + b":")
        if at < 0:
            return None
        at += len(name) + 3
        end = self.head.find(b"\r\n", at)
        return self.head[at : end if end >= 0 else len(self.head)].strip()

    def _read_head(self, data: bytes) -> bytes | None:
        data = self._buffer + data if self._buffer else data
        while True:
            end = data.find(b"\r\n\r\n")
            if not data.startswith(b"HTTP/1."[: len(data)]):
                raise ProtocolError(f"not an HTTP/1.1 response: {data[:40]!r}")
            if end < 0:
                if len(data) > _MAX_HEAD_BYTES:
                    raise ProtocolError("the response's headers are over 256 KiB")
                self._buffer = data
                return None
            digits = data[9:12]
            if not digits.isdigit():
                raise ProtocolError(f"malformed status line: {data[:40]!r}")
            self.status = int(digits)
            if self.status >= 200:
                break
            data = data[end + 4 :]
            if not data:
                self._buffer = b""
                return None
        self.head = data[:end].lower()
        self._buffer = b""
        connection = self.header(b"connection") or b""
        self.keep_alive = b"close" not in connection and (
            not data.startswith(b"HTTP/1.0") or b"keep-alive" in connection
        )
        self._frame()
        return data[end + 4 :]

    def _frame(self) -> None:
        length = self.header(b"content-length")
        if self.status in (204, 304):
            self._mode, self.done = "none", True
        elif b"chunked" in (self.header(b"transfer-encoding") or b""):
            self._mode = "chunked"
        elif length is not None:
            if not length.isdigit():
                raise ProtocolError(f"content-length {length!r} is not a number")
            self._mode, self._left = "length", int(length)
            self.done = self._left == 0
        else:
            self._mode, self.keep_alive = "close", False

    def _read_chunks(self, data: bytes) -> bytes:
        """`_left` is what is missing of the current chunk with its CRLF, or 0 if a size line comes next."""
        if self._buffer:
            data = self._buffer + data
            self._buffer = b""
        pieces: list[bytes] = []
        at, size = 0, len(data)
        while at < size:
            if self._left:
                take = min(self._left, size - at)
                text = min(take, max(0, self._left - 2))
                if text:
                    pieces.append(data[at : at + text])
                self._left -= take
                at += take
                continue
            line = data.find(b"\r\n", at)
            if line < 0:
                if size - at > 4096:
                    raise ProtocolError("a chunk's size line is over 4 KiB")
                break
            try:
                length = int(data[at:line].partition(b";")[0], 16)
            except ValueError:
                raise ProtocolError(f"not a chunk size: {data[at:line][:40]!r}") from None
            if length:
                self._left = length + 2
                at = line + 2
                continue
            end = data.find(b"\r\n\r\n", line)  # trailers, if any, end with an empty line
            if end < 0:
                break
            self.done = True
            if end + 4 < size:
                self.keep_alive = False
            at = size
        self._buffer = data[at:]
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)
