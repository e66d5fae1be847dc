"""An HTTP/1.1 client on asyncio's protocols and llhttp (httptools), for the plain requests that nearly all are.

It takes a request that goes straight to its upstream, over TCP or TLS, with its whole body in memory. These stay with
aiohttp's client (engines.aiohttp_client): requests through a proxy, uploads that are passed on as they arrive, upgrades
(WebSockets), requests with an `Expect` or a `Transfer-Encoding` of their own, and base URLs that hold a user's name.

Refuses to know what an answer means, and everything above HTTP. Its failures are those of engines.exchanges.
"""

from __future__ import annotations

import asyncio
import functools
import math
import re
import socket
import ssl
from collections import deque
from typing import Any, cast

import httptools
from aiohappyeyeballs import start_connection
from multidict import CIMultiDict
from yarl import URL

from engines.exchanges import (
    ConnectTimeout,
    Cut,
    Disconnected,
    Invalid,
    NotConnected,
    ReadTimeout,
    Take,
    Unanswered,
)

KEEPALIVE_S = 4.0
"""Below the 5 s after which uvicorn (and so vLLM) closes an idle connection: reusing one at that very moment would fail
a request that was never at fault."""
MOST_FIELD_BYTES = 64 * 1024
"""Of one header or of the reason phrase."""
_MOST_FIELDS = 128
_MOST_BODILESS_BYTES = 1024 * 1024
"""So much in a row that brings nothing of a body (heads, interim answers, chunk extensions, trailers) is no answer."""
_UNREAD_BYTES = 64 * 1024
"""No more is read from a connection while so much of its answer waits to be taken."""
_JOINED_BYTES = 256 * 1024
"""A body up to this leaves in one write with its head; copying a larger one would take longer than a second write."""
_RESOLVED_S = 60.0
_NEXT_ADDRESS_S = 0.25
"""Between attempts at a host's addresses (RFC 8305 §5)."""
_SOON_S = 0.001
_WITHOUT_LENGTH = frozenset({"GET", "HEAD", "OPTIONS", "TRACE"})
"""Methods whose requests need no `Content-Length` when they have no body."""
_BODILESS = frozenset({204, 304})
_BREAKS = re.compile("[\0\r\n]")


class Connection(asyncio.Protocol):
    """One connection, and the answer that comes on it. See engines.exchanges.Answer.

    One timer serves all limits: it is set anew only for an earlier limit than it was set for.
    """

    __slots__ = (
        "_bodiless_bytes",
        "_chunks",
        "_deadline",
        "_error",
        "_head",
        "_keeps",
        "_limit_s",
        "_loop",
        "_of_head",
        "_origin",
        "_parser",
        "_paused",
        "_raw",
        "_reason",
        "_received",
        "_take",
        "_timer",
        "_timer_at",
        "_unread_bytes",
        "_used",
        "_waiter",
        "_write_paused",
        "ended",
        "headers",
        "status",
        "transport",
    )

    def __init__(self, origin: Origin) -> None:
        self._origin = origin
        self._loop = asyncio.get_running_loop()
        self._parser = httptools.HttpResponseParser(self)
        # As aiohttp's client has them: upstreams that it understood are understood here.
        self._parser.set_dangerous_leniencies(
            lenient_headers=True, lenient_optional_cr_before_lf=True, lenient_spaces_after_chunk_size=True
        )
        self.transport: asyncio.Transport | None = None
        self.status = 0
        self.headers: CIMultiDict[str] = CIMultiDict()
        self.ended = True
        """Nothing more of the answer will come: it is all here, or it broke."""
        self._chunks: deque[bytes] = deque()
        self._unread_bytes = self._bodiless_bytes = 0
        self._raw: list[tuple[bytes, bytes]] = []
        self._reason = b""
        self._head: asyncio.Future[None] | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._take: Take | None = None
        self._error: Exception | None = None
        self._keeps = self._used = self._received = self._of_head = False
        self._paused = self._write_paused = False
        self._limit_s = self._deadline = self._timer_at = math.inf
        self._timer: asyncio.TimerHandle | None = None

    # ---- one request

    def send(self, method: str, head: bytes, body: bytes, read_s: float) -> asyncio.Future[None]:
        """Send a request; what is handed back is done when the head of its answer is here. `read_s`: see `limit`."""
        if self.transport is None or self.transport.is_closing():
            raise Disconnected
        self._head = self._loop.create_future()
        self._of_head = method == "HEAD"
        self.ended = self._keeps = self._received = False
        self.status = self._bodiless_bytes = 0
        self._limit_s = read_s
        if len(body) <= _JOINED_BYTES:
            self.transport.write(head + body)
        else:
            self.transport.writelines((head, body))
        if not self._write_paused:
            self.limit(read_s)
        return self._head

    @property
    def alive(self) -> bool:
        """Whether nobody has closed it yet, as far as is known."""
        return self.transport is not None and not self.transport.is_closing()

    def release(self) -> None:
        """Leave the answer. The connection is kept for another request if all of this one's answer was taken."""
        if not (self._keeps and self.ended and not self._chunks and self.alive):
            self.close()
            return
        assert self.transport is not None
        if self.transport.get_write_buffer_size():
            # The answer came before all of the request was sent.
            self.close()
            return
        self._used = True
        self._origin.idle[self] = None
        self._due(self._loop.time() + KEEPALIVE_S)

    def close(self) -> None:
        """Close it at once: what is not sent yet never will be."""
        self.ended, self._keeps = True, False
        if self.transport is not None:
            self.transport.abort()

    # ---- its answer

    @property
    def reason(self) -> str:
        """The status line's reason phrase."""
        return self._reason.decode("utf-8", "surrogateescape")

    async def readany(self) -> bytes:
        """What has come of the body, at least one byte; nothing at its end. Raises what ended it too early."""
        while not self._chunks:
            if self._error is not None:
                raise self._error
            if self.ended:
                return b""
            self._waiter = self._loop.create_future()
            await self._waiter
        chunks = self._chunks
        data = chunks[0] if len(chunks) == 1 else b"".join(chunks)
        chunks.clear()
        self._unread_bytes = 0
        if self._paused:
            self._paused = False
            if self.alive:
                assert self.transport is not None
                self.transport.resume_reading()
                self.limit(self._limit_s)
        return data

    async def flow(self, take: Take) -> None:
        """See Answer."""
        if self._chunks or self.ended:
            return
        self._take = take
        self._waiter = self._loop.create_future()
        try:
            await self._waiter
        finally:
            self._take = None

    def limit(self, seconds: float) -> None:
        """How long anything may be in coming: from now, and from whatever comes next."""
        self._limit_s = seconds
        if not self.ended and not self._paused:
            self._due(self._loop.time() + max(_SOON_S, seconds))

    # ---- asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """See asyncio.Protocol."""
        # uvloop's are no subclass.
        self.transport = cast(asyncio.Transport, transport)
        self._origin.open.add(self)

    def data_received(self, data: bytes) -> None:
        """See asyncio.Protocol."""
        if self.ended:
            # Nobody asked for it: what comes next on this connection could not be told from it.
            self.close()
            return
        self._received = True
        if not self._paused:
            self._deadline = self._loop.time() + self._limit_s
        self._bodiless_bytes += len(data)
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            self._keeps = False
            if isinstance(error, httptools.HttpParserError):
                if self.ended and not (self._of_head or self.status in _BODILESS):
                    # More than its length came at once: whoever said so cannot be trusted with where it ends.
                    self._error = self._error or Cut()
                self._fail(Invalid() if self.status == 0 else Cut())
        if self._bodiless_bytes > _MOST_BODILESS_BYTES:
            self._fail(Invalid() if self.status == 0 else Cut())

    def pause_writing(self) -> None:
        """See asyncio.Protocol."""
        self._write_paused = True

    def resume_writing(self) -> None:
        """See asyncio.Protocol. The upstream's time begins when it has the request."""
        self._write_paused = False
        self.limit(self._limit_s)

    def connection_lost(self, exc: Exception | None) -> None:
        """See asyncio.Protocol."""
        self._origin.open.discard(self)
        self._origin.idle.pop(self, None)
        if not self.ended:
            if self.status == 0:
                unheard = not self._received and (exc is None or isinstance(exc, ConnectionError))
                self._fail(Unanswered() if self._used and unheard else Disconnected(exc))
            elif self._delimited():
                self._fail(Cut())
            else:
                self._end()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        # They hold each other.
        del self._parser

    # ---- httptools

    def on_message_begin(self) -> None:
        """An answer begins."""
        if self.ended:
            self._keeps = False
            return
        self._reason = b""

    def on_status(self, reason: bytes) -> None:
        """A piece of the reason phrase."""
        if not self.ended:
            self._reason += reason

    def on_header(self, name: bytes, value: bytes) -> None:
        """A header, or a trailer, which goes no further."""
        self._raw.append((name, value))

    def on_headers_complete(self) -> None:
        """The head is here; that of an interim answer is passed over."""
        raw, self._raw = self._raw, []
        status = self._parser.get_status_code()
        if self.ended or (100 <= status < 200 and status != 101):
            return
        if len(raw) > _MOST_FIELDS or len(self._reason) > MOST_FIELD_BYTES:
            raise ValueError("too long a head")
        headers = []
        for name, value in raw:
            if len(name) + len(value) > MOST_FIELD_BYTES or b"\0" in value:
                raise ValueError("a header that is too long or holds a null")
            headers.append(
                (
                    name.decode("utf-8", "surrogateescape"),
                    value.rstrip(b" \t").decode("utf-8", "surrogateescape"),
                )
            )
        self.headers = CIMultiDict(headers)
        self.status = status
        if self._of_head or status in _BODILESS:
            # The parser does not know that no body comes, whatever the head says: it is no good for another answer.
            self._end()
        if self._head is not None and not self._head.done():
            self._head.set_result(None)

    def on_body(self, chunk: bytes) -> None:
        """A piece of the body."""
        if self.ended:
            return
        self._bodiless_bytes = 0
        if self._take is not None:
            if self._take(chunk):
                return
            self._take = None
        self._chunks.append(chunk)
        self._unread_bytes += len(chunk)
        if self._unread_bytes > _UNREAD_BYTES and not self._paused:
            assert self.transport is not None
            self._paused = True
            self.transport.pause_reading()
            # The limit is the upstream's, and it is the reader who is slow.
            self._deadline = math.inf
        self._wake()

    def on_message_complete(self) -> None:
        """All of an answer is here."""
        self._raw = []
        if self.status and not self.ended:
            self._keeps = self._parser.should_keep_alive()
            self._end()

    # ---- within

    def _delimited(self) -> bool:
        """Whether the head tells where the body ends."""
        coding = self.headers.get("Transfer-Encoding", "").lower()
        return coding == "chunked" or (not coding and "Content-Length" in self.headers)

    def _end(self) -> None:
        self.ended = True
        self._deadline = math.inf
        self._wake()

    def _fail(self, error: Exception) -> None:
        if self.ended:
            return
        self._end()
        if self._head is None or self._head.done():
            self._error = error
        else:
            self._head.set_exception(error)
        self.close()

    def _wake(self) -> None:
        waiter, self._waiter = self._waiter, None
        if waiter is not None and not waiter.done():
            waiter.set_result(None)

    def _due(self, at: float) -> None:
        self._deadline = at
        if self._timer is None or at < self._timer_at:
            if self._timer is not None:
                self._timer.cancel()
            self._timer, self._timer_at = self._loop.call_at(at, self._look), at

    def _look(self) -> None:
        self._timer = None
        if self._loop.time() < self._deadline:
            if self._deadline != math.inf:
                self._due(self._deadline)
        elif self.ended:
            self.close()
        else:
            self._fail(ReadTimeout())


class Origin:
    """The connections to one host and port. `idle`: those that wait for a request, the last used last."""

    def __init__(self, base: URL, tls: ssl.SSLContext | None = None) -> None:
        """`tls`: this upstream's own, instead of what all TLS connections share."""
        self._host, self._port = (base.raw_host or "").rstrip("."), base.port or 0
        self._tls = (tls or tls_context()) if base.scheme == "https" else None
        self._named = base.host_port_subcomponent or ""
        self._addresses: list[Any] = []
        self._resolved_at = -math.inf
        self.open: set[Connection] = set()
        self.idle: dict[Connection, None] = {}

    async def ask(
        self,
        method: str,
        path: str,
        headers: CIMultiDict[str],
        body: bytes,
        *,
        connect_s: float,
        read_s: float,
        resends: bool,
    ) -> Connection:
        """The answer, once its head is here. `resends`: the request is sent once more if its connection had been kept alive
        and is closed without a byte of an answer. Raises engines.exchanges.Failure."""
        head = request_head(method, path, self._named, headers, len(body))
        connection = self._kept() or await self._connected(connect_s)
        try:
            try:
                await connection.send(method, head, body, read_s)
            except Unanswered:
                if not resends:
                    raise
                connection = await self._connected(connect_s)
                await connection.send(method, head, body, read_s)
        except BaseException:
            connection.close()
            raise
        return connection

    async def aclose(self) -> None:
        """Close all connections, also those in use."""
        for connection in tuple(self.open):
            connection.close()
        # They are closed by callbacks.
        await asyncio.sleep(0)

    def _kept(self) -> Connection | None:
        while self.idle:
            connection, _ = self.idle.popitem()
            if connection.alive:
                return connection
        return None

    async def _connected(self, connect_s: float) -> Connection:
        try:
            async with asyncio.timeout(connect_s) as limit:
                addresses = await self._resolved()
                found = await start_connection(addresses, happy_eyeballs_delay=_NEXT_ADDRESS_S, interleave=1)
                found.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                _, connection = await asyncio.get_running_loop().create_connection(
                    functools.partial(Connection, self),
                    sock=found,
                    ssl=self._tls,
                    server_hostname=None if self._tls is None else self._host,
                )
        except OSError as error:
            if isinstance(error, TimeoutError) and limit.expired():
                raise ConnectTimeout from error
            self._resolved_at = -math.inf
            raise NotConnected(error) from error
        return connection

    async def _resolved(self) -> list[Any]:
        """The host's addresses, as getaddrinfo gives them; a name is looked up once a minute. Raises socket.gaierror."""
        loop = asyncio.get_running_loop()
        if loop.time() - self._resolved_at > _RESOLVED_S:
            options = {"type": socket.SOCK_STREAM, "proto": socket.IPPROTO_TCP}
            try:
                # No name is looked up here, so nothing waits.
                found = socket.getaddrinfo(self._host, self._port, flags=socket.AI_NUMERICHOST, **options)
            except socket.gaierror:
                found = await loop.getaddrinfo(self._host, self._port, flags=socket.AI_ADDRCONFIG, **options)
            self._addresses = found
            self._resolved_at = loop.time()
        # The next connection begins with the next address.
        self._addresses = [*self._addresses[1:], self._addresses[0]]
        return self._addresses


def request_head(method: str, path: str, host: str, headers: CIMultiDict[str], length: int) -> bytes:
    """The head of a request with so many bytes of body: what is given, in its order, and what HTTP asks for.

    Raises ValueError for a character that could begin a header or a request of its own.
    """
    told = headers.get("Content-Length")
    if "Host" in headers or (told is not None and told != str(length)):
        headers = headers.copy()
        host = headers.pop("Host", host)
        if told is not None and told != str(length):
            headers["Content-Length"] = str(length)
    lines = [f"{method} {path} HTTP/1.1", f"Host: {host}"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    if told is None and (length or method not in _WITHOUT_LENGTH):
        lines.append(f"Content-Length: {length}")
    if _BREAKS.search("".join(lines)) is not None:
        raise ValueError("a header holds a control character")
    lines += ("", "")
    return "\r\n".join(lines).encode("utf-8", "surrogateescape")


@functools.cache
def tls_context() -> ssl.SSLContext:
    """What all TLS connections share: the authorities of the system, or of SSL_CERT_FILE."""
    context = ssl.create_default_context()
    context.set_alpn_protocols(["http/1.1"])
    return context


def own_tls_context(
    ca_file: str | None, cert_file: str | None, key_file: str | None = None
) -> ssl.SSLContext:
    """One upstream's: authorities instead of the system's, and the certificate that is shown to it. Blocks.

    Files are in PEM form; without `key_file` the key stands in `cert_file`. Raises ValueError, whose text names the file.
    """
    try:
        context = ssl.create_default_context(cafile=ca_file)
    except OSError as error:
        raise ValueError(
            f"ca_file {ca_file} holds no certificates that can be read: {_told(error)}"
        ) from None
    if cert_file is not None:
        try:
            # A key with a password is refused: nobody is there to be asked for it.
            context.load_cert_chain(cert_file, key_file, password="")
        except OSError as error:
            named = cert_file if key_file is None else f"{cert_file} with key_file {key_file}"
            raise ValueError(
                f"cert_file {named} holds no certificate with its key, without a password, that can be read: {_told(error)}"
            ) from None
    context.set_alpn_protocols(["http/1.1"])
    return context


def _told(error: OSError) -> str:
    reason = error.reason if isinstance(error, ssl.SSLError) else error.strerror
    return (reason or type(error).__name__).replace("_", " ").lower()
