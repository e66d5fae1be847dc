"""Connections of plain requests: a POST in HTTP/1.1 with one length, all of it in memory. Everything else is aiohttp's.

What is plain is a whitelist (`plain_request`), stricter than any parser. The first bytes that are not, a request that comes
slowly, and a second one behind the first (pipelining) are handed over: aiohttp's connection takes the transport with the
bytes so far, and keeps it. Nobody can tell from outside which of the two answered.
"""

from __future__ import annotations

import asyncio
import re
import socket
import time
from collections.abc import Awaitable, Callable
from email.utils import formatdate
from http import HTTPStatus
from typing import Any, NamedTuple, cast

import structlog
from aiohttp import HttpVersion, HttpVersion11, web
from multidict import CIMultiDict, CIMultiDictProxy

from engines.errors import EngineError
from gateway.errors import last_event
from gateway.limits.headers import TICKET
from gateway.send import SERVER, ClientGone, Write
from gateway.wire import BODY_READ

log = structlog.get_logger(__name__)

MAX_BYTES = 256 * 1024
"""Of head and body: what is longer is aiohttp's."""
_MAX_HEAD_BYTES = 8190
_MAX_HEADERS = 64
_WAITING_BYTES = 64 * 1024
"""Of what comes while a request is being answered, before the connection is read no further."""
_FIRST = re.compile(rb"POST (/[A-Za-z0-9/_\-.~?=&%:,+@!$'()*;]*) HTTP/1\.1")
_FIELD = re.compile(rb"([!#$%&'*+\-.^_`|~0-9A-Za-z]+):[ \t]*((?:[\t\x20-\x7e]*[\x21-\x7e])?)[ \t]*")
_ODD = re.compile(
    rb"(?:transfer-encoding|expect|upgrade|te|trailer|proxy-connection|sec-websocket-.*|http2-settings)"
)
"""Headers that change what a message or its connection is."""
_SECRET = re.compile(rb"(?:.*(?:authorization|cookie|key|token|secret|credential).*)", re.DOTALL)
"""Lines that are not held in memory after their request."""
_KNOWN_LINES, _KNOWN_BYTES = 2048, 128
_LENGTH = re.compile(r"0|[1-9][0-9]{0,5}")
_FORBIDDEN = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")
_REASONS = {status.value: status.phrase for status in HTTPStatus}
_BODILESS = frozenset({204, 304})

Handle = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]


class _Field(NamedTuple):
    """A header as it came."""

    key: str
    """Its name in lower case."""
    said: tuple[str, str]
    """Its name and its value."""


_known: dict[bytes, _Field] = {}
"""Header lines that were read before: clients send the same ones with each request."""


def _field(line: bytes) -> _Field | None:
    """A header line; None if it is not plain."""
    found = _FIELD.fullmatch(line)
    if found is None:
        return None
    key = found[1].lower()
    if _ODD.fullmatch(key) or (key == b"connection" and found[2].lower() != b"keep-alive"):
        return None
    field = _Field(key.decode(), (found[1].decode(), found[2].decode()))
    if len(line) <= _KNOWN_BYTES and not _SECRET.fullmatch(key):
        if len(_known) >= _KNOWN_LINES:
            _known.clear()
        _known[line] = field
    return field


class Plain(NamedTuple):
    """The head of a plain request."""

    target: str
    headers: CIMultiDict[str]
    begin: int
    """Where its body begins."""
    end: int
    """Where it ends."""


def plain_request(data: bytes, *, max_field_bytes: int = _MAX_HEAD_BYTES) -> Plain | None:
    """The head at the beginning of `data`, which holds all of it; None if the request is not plain. Never raises."""
    begin = data.find(b"\r\n\r\n") + 4
    if begin > min(_MAX_HEAD_BYTES, max_field_bytes):
        return None
    first, *lines = data[: begin - 4].split(b"\r\n")
    found = _FIRST.fullmatch(first)
    if found is None or len(lines) > _MAX_HEADERS:
        return None
    fields: dict[str, tuple[str, str]] = {}
    for line in lines:
        field = _known.get(line) or _field(line)
        if field is None or field.key in fields:
            return None
        fields[field.key] = field.said
    length = fields.get("content-length", ("", ""))[1]
    if "host" not in fields or _LENGTH.fullmatch(length) is None:
        return None
    end = begin + int(length)
    return Plain(found[1].decode(), CIMultiDict(fields.values()), begin, end) if end <= MAX_BYTES else None


class PlainRequest(web.BaseRequest):
    """A plain request as handlers see it: what they read of aiohttp's requests, and no more."""

    method: str = "POST"
    version: HttpVersion = HttpVersion11
    raw_path: str = ""
    headers: CIMultiDictProxy[str] = CIMultiDictProxy(CIMultiDict())
    content_length: int | None = 0
    body_exists: bool = True
    keep_alive: bool = True

    def __init__(
        self, target: str, headers: CIMultiDict[str], body: bytes, connection: PlainConnection
    ) -> None:
        # aiohttp's own describes a message of its parser and a stream, which there are none of.
        self.raw_path = target
        self.headers = CIMultiDictProxy(headers)
        self.content_length = len(body)
        self.connection = connection
        self._kept: dict[Any, Any] = {BODY_READ: body}
        self.get = self._kept.get  # type: ignore[method-assign]

    @property
    def transport(self) -> asyncio.Transport | None:
        """None once the client is gone."""
        return self.connection.transport

    @property
    def writer(self) -> Any:
        """What knows how much of the answer was written."""
        return self.connection

    def __getitem__(self, key: Any) -> Any:
        return self._kept[key]

    def __setitem__(self, key: Any, value: Any) -> None:
        self._kept[key] = value

    def __len__(self) -> int:
        return len(self._kept)

    async def read(self) -> bytes:
        """All of its body."""
        body: bytes = self._kept[BODY_READ]
        return body

    def clone(self, *, headers: Any = None, **other: Any) -> PlainRequest:
        """The same with other headers."""
        assert not other
        headers = CIMultiDict(headers or self.headers)
        made = PlainRequest(self.raw_path, headers, self._kept[BODY_READ], self.connection)
        made._kept.update(self._kept)
        return made


class PlainResponse(web.StreamResponse):
    """An answer to a plain request: whole, or begun."""

    headers: CIMultiDict[str] = CIMultiDict()
    status: int = 200
    prepared: bool = False
    keep_alive: bool | None = None

    def __init__(
        self, status: int, headers: CIMultiDict[str], body: bytes | None, reason: str | None = None
    ) -> None:
        # aiohttp's own prepares itself for a writer of its own.
        self.status = status
        self.headers = headers
        self.body = body
        self.said = reason

    def force_close(self) -> None:
        """The connection is closed after it."""
        self.keep_alive = False


class PlainRelay:
    """See gateway.send.Send."""

    __slots__ = ("_connection", "_request", "push", "response")

    def __init__(self, request: PlainRequest) -> None:
        self._request = request
        self._connection = request.connection
        self.push = self._connection.push

    @property
    def gone(self) -> bool:
        """See Send."""
        return self._connection.transport is None

    def whole(
        self, status: int, headers: CIMultiDict[str], body: bytes | None, reason: str | None = None
    ) -> None:
        """See Send. The connection writes it, head and body at once, when the handler returns."""
        self.response = PlainResponse(status, headers, body, reason)

    async def begin(self, status: int, headers: CIMultiDict[str], reason: str | None = None) -> Write:
        """See Send."""
        if (ticket := self._request.get(TICKET)) is not None:
            headers.update(ticket.headers())
        self.response = PlainResponse(status, headers, None, reason)
        try:
            return self._connection.begin(self.response)
        except ConnectionError as error:
            raise ClientGone from error

    async def end(self) -> None:
        """See Send. The connection writes the end of the body when the handler returns."""

    async def break_off(self, error: EngineError) -> None:
        """See Send."""
        if (event := last_event(self.response.headers, error)) is not None:
            try:
                await self._connection.write(event)
            except ConnectionError:
                return
        self._connection.close()


class PlainConnection(asyncio.Protocol):
    """One connection, for as long as its requests are plain."""

    __slots__ = (
        "_begun",
        "_behind",
        "_broken",
        "_left",
        "_site",
        "_task",
        "_told_keep",
        "_writable",
        "output_size",
        "since_s",
        "transport",
    )

    def __init__(self, site: Site) -> None:
        self._site = site
        self.transport: asyncio.Transport | None = None
        self._begun = b""
        """The beginning of a request."""
        self._behind = b""
        """What came while a request was being answered."""
        self._task: asyncio.Task[None] | None = None
        self._writable: asyncio.Future[None] | None = None
        """Resolved when the client has read on; None while it does."""
        self._left: int | None = None
        """Bytes that are still to come of the answer; None if it is in chunks."""
        self._broken = False
        """No further request is taken."""
        self._told_keep = True
        """Whether the head of the answer says that the connection stays."""
        self.output_size = 0
        """Bytes written of the answer under way."""
        self.since_s = 0.0
        """When something came or was answered last (time.monotonic, to the second)."""

    # ---- by the event loop

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """See asyncio.Protocol."""
        self.transport = cast(asyncio.Transport, transport)
        site = self._site
        self.since_s = site.now_s
        site.connections.add(self)
        sock = transport.get_extra_info("socket")
        if sock is not None and sock.family != socket.AF_UNIX:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        if site.full():
            self.transport.write(site.refusal)
            self.close()
        elif not site.takes_plain:
            self._hand_over(b"")

    def connection_lost(self, exc: BaseException | None) -> None:
        """See asyncio.Protocol."""
        self.transport = None
        self._site.connections.discard(self)
        self._wake()
        if self._task is not None:
            self._task.cancel()

    def data_received(self, data: bytes) -> None:
        """See asyncio.Protocol."""
        if self._task is not None:
            self._behind += data
            if len(self._behind) > _WAITING_BYTES and self.transport is not None:
                self.transport.pause_reading()
            return
        if self._broken:
            return
        if self._begun:
            data = self._begun + data
        self.since_s = self._site.now_s
        if b"\r\n\r\n" not in data:
            if len(data) > _MAX_HEAD_BYTES:
                self._hand_over(data)
            else:
                self._begun = data
            return
        found = plain_request(data, max_field_bytes=self._site.max_header_bytes)
        if found is None or len(data) > found.end:
            self._hand_over(data)
        elif len(data) < found.end:
            self._begun = data
        else:
            self._begun = b""
            request = PlainRequest(found.target, found.headers, data[found.begin :], self)
            self._task = self._site.loop.create_task(self._answered(request))

    def pause_writing(self) -> None:
        """See asyncio.Protocol."""
        self._writable = self._site.loop.create_future()

    def resume_writing(self) -> None:
        """See asyncio.Protocol."""
        self._wake()

    # ---- by whoever answers

    def begin(self, response: PlainResponse) -> Write:
        """Send the head of an answer whose chunks follow. Raises ConnectionError, and ValueError."""
        transport = self.transport
        if transport is None or transport.is_closing():
            raise ConnectionResetError("the client is gone")
        headers = response.headers
        if response.status in _BODILESS:
            self._left = 0
        elif (length := headers.get("Content-Length")) is not None:
            self._left = int(length)
        else:
            self._left = None
            headers["Transfer-Encoding"] = "chunked"
        if self._left != 0:
            headers.setdefault("Content-Type", "application/octet-stream")
        head = self._head(response.status, response.said, headers, keep=response.keep_alive is not False)
        response.prepared = True
        self.output_size = len(head)
        transport.write(head)
        return self.write

    async def write(self, chunk: bytes) -> None:
        """Send a chunk, at the client's pace. Raises ConnectionError."""
        transport = self.transport
        if transport is None or transport.is_closing():
            raise ConnectionResetError("the client is gone")
        if self._left is not None:
            chunk = chunk[: self._left]
            self._left -= len(chunk)
            transport.write(chunk)
        elif chunk:
            transport.write(b"%x\r\n%b\r\n" % (len(chunk), chunk))
        self.output_size += len(chunk)
        if self._writable is not None:
            await self._writable
            if self.transport is None:
                raise ConnectionResetError("the client is gone")

    def push(self, chunk: bytes) -> bool:
        """Send a chunk of a stream if the client keeps up; else, and where it is gone, the chunk is `write`'s."""
        transport = self.transport
        if (
            self._writable is not None
            or self._left is not None
            or transport is None
            or transport.is_closing()
        ):
            return False
        transport.write(b"%x\r\n%b\r\n" % (len(chunk), chunk))
        self.output_size += len(chunk)
        return True

    def close(self) -> None:
        """Close it once all that was written is sent."""
        self._broken = True
        if self.transport is not None:
            self.transport.close()

    # ---- by the server, when it stops

    @property
    def begun(self) -> bool:
        """Whether a request has begun to come."""
        return bool(self._begun)

    @property
    def task(self) -> asyncio.Task[None] | None:
        """What answers the request that is under way."""
        return self._task

    def leave(self) -> None:
        """Close it, as nothing is under way."""
        self.close()

    def hand_over(self) -> None:
        """Leave it to aiohttp, with the beginning of the request that is coming."""
        self._hand_over(self._begun)

    def look(self, now_s: float) -> None:
        """Once a second: a request that comes slowly is aiohttp's, and a connection that nobody uses is closed."""
        if self._task is not None:
            return
        if self._begun:
            if now_s - self.since_s >= 1.0:
                self._hand_over(self._begun)
        elif now_s - self.since_s >= self._site.idle_s:
            self.close()

    # ----

    async def _answered(self, request: PlainRequest) -> None:
        self.output_size = 0
        try:
            response = await self._site.handle(request)
            self._finish(response)
        except ConnectionError:
            self.close()
        except asyncio.CancelledError:
            self.close()
            raise
        except Exception as error:
            log.error("answer_failed", path=request.raw_path.partition("?")[0], error=error)
            self.close()
        finally:
            self._task = None
        self._next()

    def _finish(self, response: web.StreamResponse) -> None:
        transport = self.transport
        if transport is None or transport.is_closing():
            return
        if response.prepared:
            if self._left is None:
                transport.write(b"0\r\n\r\n")
            # Fewer bytes than its head says: only closing tells.
            keep = self._told_keep and not self._left and not self._broken
        else:
            keep = response.keep_alive is not False
            body = cast("PlainResponse | web.Response", response).body
            assert body is None or isinstance(body, bytes)
            body, headers, status = body or b"", response.headers, response.status
            said = response.said if isinstance(response, PlainResponse) else response.reason
            if status in _BODILESS:
                body = b""
                if status != 304:
                    headers.popall("Content-Length", None)
            else:
                headers["Content-Length"] = str(len(body))
                if body:
                    headers.setdefault("Content-Type", "application/octet-stream")
            transport.write(self._head(status, said, headers, keep=keep) + body)
            keep = self._told_keep
        if not keep:
            self.close()

    def _next(self) -> None:
        """Take up what came meanwhile."""
        self.since_s = self._site.now_s
        if self._broken or self.transport is None:
            return
        if self._behind:
            behind, self._behind = self._behind, b""
            self.transport.resume_reading()
            self.data_received(behind)

    def _head(self, status: int, reason: str | None, headers: CIMultiDict[str], *, keep: bool) -> bytes:
        """Raises ValueError for a header that could begin another one."""
        headers.setdefault("Date", self._site.date())
        headers.setdefault("Server", SERVER)
        self._told_keep = keep and not self._site.leaving and not self._broken
        if not self._told_keep:
            headers.setdefault("Connection", "close")
        said = _REASONS.get(status, "") if reason is None else reason
        lines = [f"HTTP/1.1 {status} {said}", *[f"{name}: {value}" for name, value in headers.items()]]
        if _FORBIDDEN.search("".join(lines)):
            raise ValueError("a header of the answer holds a control character")
        return "\r\n".join([*lines, "", ""]).encode("utf-8", "surrogateescape")

    def _hand_over(self, data: bytes) -> None:
        transport, self.transport = self.transport, None
        assert transport is not None
        self._site.connections.discard(self)
        protocol = self._site.otherwise()
        transport.set_protocol(protocol)
        protocol.connection_made(transport)
        if data:
            protocol.data_received(data)

    def _wake(self) -> None:
        writable, self._writable = self._writable, None
        if writable is not None and not writable.done():
            writable.set_result(None)


class Site:
    """What the connections of one server share. Made inside its running loop.

    `otherwise` makes the protocol of a connection that is not plain. `idle_s`: how long a connection may be unused.
    `refusal` is sent to connections that are too many, of which `full` tells.
    """

    def __init__(
        self,
        handle: Handle,
        otherwise: Callable[[], asyncio.Protocol],
        *,
        full: Callable[[], bool],
        refusal: bytes,
        max_header_bytes: int,
        takes_plain: bool,
        idle_s: float,
    ) -> None:
        self.handle = handle
        self.otherwise = otherwise
        self.full = full
        self.refusal = refusal
        self.max_header_bytes = max_header_bytes
        self.takes_plain = takes_plain
        self.idle_s = idle_s
        self.loop = asyncio.get_running_loop()
        self.connections: set[PlainConnection] = set()
        self.leaving = False
        """Whether answers say from now on that their connection is closed after them."""
        self.now_s = time.monotonic()
        self._date_of, self._date = 0, ""
        self._looking = self.loop.call_later(1.0, self._look)

    def date(self) -> str:
        """Now, as the header has it."""
        now = int(time.time())
        if now != self._date_of:
            self._date_of, self._date = now, formatdate(now, usegmt=True)
        return self._date

    def close(self) -> None:
        """Close all connections at once."""
        self._looking.cancel()
        for connection in list(self.connections):
            if connection.transport is not None:
                connection.transport.abort()

    def _look(self) -> None:
        self.now_s = now_s = time.monotonic()
        for connection in list(self.connections):
            connection.look(now_s)
        self._looking = self.loop.call_later(1.0, self._look)
