"""Requests by aiohttp's client: those that engines.connection does not take, and says so.

aiohttp adds nothing to a request, follows nothing and unpacks nothing here. Its failures become those of engines.exchanges.
"""

from __future__ import annotations

import asyncio
import errno
import functools
import ssl
from collections.abc import AsyncIterator
from types import SimpleNamespace

import aiohttp
from multidict import CIMultiDict, CIMultiDictProxy
from yarl import URL

from engines.connection import KEEPALIVE_S, MOST_FIELD_BYTES
from engines.exchanges import (
    ConnectTimeout,
    Cut,
    Disconnected,
    Failure,
    Invalid,
    NotConnected,
    ProxyRefused,
    ReadTimeout,
    Take,
    Unanswered,
)
from engines.raw_headers import install

_NOTHING_INVENTED = ("User-Agent", "Accept", "Accept-Encoding", "Content-Type")
"""Headers aiohttp would add by itself: the upstream sees what the client sent, no more."""
_PIECE_BYTES = 256 * 1024
"""A larger body leaves in pieces of this size."""
_SOON_S = 0.001
_CLOSED = frozenset({errno.ECONNRESET, errno.EPIPE})
_FOREIGN = (aiohttp.ClientError, TimeoutError, OSError)
"""What aiohttp raises of a request that fails."""

# Once for all sessions of this process.
install()


class _Failed(Exception):
    """A request that its connection failed, which aiohttp is to leave to us: it would send a GET once more by itself."""

    def __init__(self, error: aiohttp.ClientConnectionError) -> None:
        super().__init__(error)
        self.error = error


async def _once(request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType) -> aiohttp.ClientResponse:
    """A middleware of aiohttp's client: sends each request once."""
    try:
        return await handler(request)
    except aiohttp.ClientConnectorError:
        raise
    except (aiohttp.ServerDisconnectedError, aiohttp.ClientOSError) as error:
        raise _Failed(error) from error


def _says_nothing(error: aiohttp.ClientConnectionError) -> bool:
    """Whether a connection was closed before an answer began; else aiohttp's error holds what came of its head."""
    if isinstance(error, aiohttp.ServerDisconnectedError):
        return isinstance(error.message, str)
    return isinstance(error, aiohttp.ClientOSError) and error.errno in _CLOSED


async def _note_reuse(session: aiohttp.ClientSession, context: SimpleNamespace, params: object) -> None:
    context.trace_request_ctx.append(True)


class AiohttpAnswer:
    """aiohttp's response as engines.exchanges.Answer. `response` is for those who must have its connection."""

    __slots__ = ("_closed", "_protocol", "response", "status")

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self.response = response
        self.status = response.status
        self._protocol = response.connection.protocol if response.connection else None
        self._closed = self._protocol.closed if self._protocol is not None else None
        if self._closed is not None:
            self._closed.add_done_callback(self._cut)

    def _cut(self, closed: asyncio.Future[None]) -> None:
        """Tell the reader of a body whose framing broke: aiohttp closes the connection, and leaves the reader waiting."""
        if not closed.cancelled():
            # Else asyncio says that nobody looked at it.
            closed.exception()
        content = self.response.content
        if not content.is_eof() and content.exception() is None:
            content.set_exception(aiohttp.ClientPayloadError())

    @property
    def reason(self) -> str | None:
        """See Answer."""
        return self.response.reason

    @property
    def headers(self) -> CIMultiDictProxy[str]:
        """See Answer."""
        return self.response.headers

    @property
    def ended(self) -> bool:
        """See Answer."""
        return self.response.content.is_eof()

    async def readany(self) -> bytes:
        """See Answer."""
        try:
            return await self.response.content.readany()
        except aiohttp.SocketTimeoutError as error:
            raise ReadTimeout from error
        except _FOREIGN as error:
            raise Cut from error

    async def flow(self, take: Take) -> None:
        """See Answer."""

    def limit(self, seconds: float) -> None:
        """See Answer."""
        if self._protocol is not None:
            self._protocol.read_timeout = max(_SOON_S, seconds)
            if not self.ended:
                self._protocol.start_timeout()

    def release(self) -> None:
        """See Answer."""
        if self._closed is not None:
            self._closed.remove_done_callback(self._cut)
        if self.response.content.at_eof():
            self.response.release()
        else:
            self.response.close()


class AiohttpClient:
    """Connections to one upstream, or to it through a proxy. See engines.connection.Origin."""

    def __init__(self, proxy: URL | None, *, resends: bool, tls: ssl.SSLContext | None = None) -> None:
        self._proxy = proxy
        self._tls = tls or True
        self._resends = resends
        self._session: aiohttp.ClientSession | None = None

    async def ask(
        self,
        method: str,
        url: URL,
        headers: CIMultiDict[str],
        body: bytes | AsyncIterator[bytes],
        *,
        connect_s: float,
        read_s: float,
    ) -> AiohttpAnswer:
        """The answer, once its head is here. Raises engines.exchanges.Failure."""
        whole = isinstance(body, bytes)
        if isinstance(body, bytes) and len(body) > _PIECE_BYTES:
            # aiohttp would copy all of it at once, to send it together with the head.
            headers = headers.copy()
            headers["Content-Length"] = str(len(body))
        while True:
            reused: list[bool] = []
            try:
                return AiohttpAnswer(
                    await self._open_session().request(
                        method,
                        url,
                        data=_in_pieces(body)
                        if isinstance(body, bytes) and len(body) > _PIECE_BYTES
                        else body or None,
                        headers=headers,
                        allow_redirects=False,
                        timeout=_client_timeout(connect_s, read_s),
                        trace_request_ctx=reused,
                    )
                )
            except _Failed as failed:
                unanswered = bool(reused) and _says_nothing(failed.error)
                if not (unanswered and whole and self._resends):
                    raise (Unanswered() if unanswered else _failure(failed.error)) from failed.error
                whole = False
            except _FOREIGN as error:
                raise _failure(error) from error

    async def aclose(self) -> None:
        """Close all connections."""
        if self._session is not None:
            await self._session.close()

    def _open_session(self) -> aiohttp.ClientSession:
        if self._session is None:
            connector = aiohttp.TCPConnector(
                limit=0, ttl_dns_cache=60, keepalive_timeout=KEEPALIVE_S, ssl=self._tls
            )
            tracing = aiohttp.TraceConfig()
            tracing.on_connection_reuseconn.append(_note_reuse)
            self._session = aiohttp.ClientSession(
                connector=connector,
                cookie_jar=aiohttp.DummyCookieJar(),
                skip_auto_headers=_NOTHING_INVENTED,
                auto_decompress=False,
                trust_env=False,
                proxy=self._proxy,
                middlewares=(_once,),
                trace_configs=[tracing],
                max_line_size=MOST_FIELD_BYTES,
                max_field_size=MOST_FIELD_BYTES,
            )
        return self._session


def _failure(error: Exception) -> Failure:
    """What aiohttp's error is, before an answer has begun."""
    if isinstance(error, aiohttp.ConnectionTimeoutError):
        return ConnectTimeout()
    if isinstance(error, aiohttp.SocketTimeoutError):
        return ReadTimeout()
    if isinstance(error, aiohttp.ClientHttpProxyError):
        return ProxyRefused(error.status)
    if isinstance(error, aiohttp.ClientResponseError):
        return Invalid()
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        return NotConnected(error.certificate_error)
    if isinstance(error, aiohttp.ClientConnectorError):
        return NotConnected(error.os_error, proxy=isinstance(error, aiohttp.ClientProxyConnectionError))
    return Disconnected(error if isinstance(error, OSError) else None)


@functools.lru_cache(maxsize=64)
def _client_timeout(connect_s: float, read_s: float) -> aiohttp.ClientTimeout:
    # `connect` bounds the name's resolution, too; it is looked at only where no connection is there.
    return aiohttp.ClientTimeout(connect=connect_s, sock_connect=connect_s, sock_read=read_s)


async def _in_pieces(body: bytes) -> AsyncIterator[bytes]:
    for start in range(0, len(body), _PIECE_BYTES):
        yield body[start : start + _PIECE_BYTES]
