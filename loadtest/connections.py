"""Keep-alive connections to one address, each used by one exchange at a time. Each failure becomes an outcome in words."""

from __future__ import annotations

import asyncio
import ssl
from array import array
from collections import deque
from collections.abc import Callable
from typing import cast

from loadtest.clock import now
from loadtest.exchange import Exchange


class Connection(asyncio.Protocol):
    """One socket; `exchange` is the request it is busy with."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self.exchange: Exchange | None = None
        self.transport: asyncio.Transport | None = None
        self.used = False
        self.gone = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keeps the transport."""
        self.transport = cast(asyncio.Transport, transport)

    def send(self, exchange: Exchange) -> None:
        """Sends a request."""
        self.exchange = exchange
        exchange.carrier = self
        exchange.fresh_connection = not self.used
        self.used = True
        if self.transport is not None:
            self.transport.write(exchange.data)

    def data_received(self, data: bytes) -> None:
        """Passes bytes to the exchange; frees the connection once it is complete."""
        exchange = self.exchange
        if exchange is None:
            self.drop()  # unexpected bytes
        elif exchange.feed(data, self._pool.gaps):
            self.exchange = None
            self._pool.release(self, exchange.keep_alive)
            self._pool.finished(exchange)

    def connection_lost(self, exc: Exception | None) -> None:
        """Ends an exchange that is in flight; sends it again if it was lost on a stale connection before any answer."""
        self.gone = True
        self._pool.lost(self)
        exchange, self.exchange = self.exchange, None
        if exchange is None or exchange.ended:
            return
        if exchange.nothing_read and not exchange.fresh_connection:
            self._pool.stale_retries += 1
            exchange.start_over()
            self._pool.submit(exchange)
            return
        if exc is not None and exchange.nothing_read:
            exchange.end("connection reset")
        else:
            exchange.peer_closed()
        self._pool.finished(exchange)

    def drop(self) -> None:
        """Closes without waiting."""
        if self.transport is not None:
            self.transport.abort()


class Pool:
    """Opens connections as needed, up to `limit`, reuses the one used last, and queues further exchanges."""

    def __init__(
        self,
        group: asyncio.TaskGroup,
        address: tuple[str, int],
        tls: ssl.SSLContext | None,
        server_name: str,
        limit: int,
        connect_timeout_s: float,
        finished: Callable[[Exchange], None],
    ) -> None:
        self.gaps: array[float] = array("d")
        self.stale_retries = 0
        self.connects = 0
        self.finished = finished
        self._group = group
        self._address = address
        self._tls = tls
        self._server_name = server_name if tls else None
        self._limit = limit
        self._timeout_s = connect_timeout_s
        self._idle: list[Connection] = []
        self._all: set[Connection] = set()
        self._opening = 0
        self._openers: set[asyncio.Task[None]] = set()
        self._queue: deque[Exchange] = deque()
        self._closed = False

    @property
    def waiting(self) -> int:
        """Number of exchanges waiting because `limit` connections are busy."""
        return len(self._queue)

    def submit(self, exchange: Exchange) -> None:
        """Sends now if a connection is free or may be opened; otherwise as soon as one is."""
        if self._idle:
            exchange.begun_s = exchange.begun_s or exchange.taken_s
            self._idle.pop().send(exchange)
        elif len(self._all) + self._opening < self._limit:
            exchange.begun_s = exchange.begun_s or exchange.taken_s
            self._opening += 1
            task = self._group.create_task(self._open(exchange), name="connect")
            self._openers.add(task)
            task.add_done_callback(self._openers.discard)
        else:
            self._queue.append(exchange)

    def release(self, connection: Connection, keep_alive: bool) -> None:
        """Frees a connection whose exchange has ended."""
        if not keep_alive or self._closed:
            connection.drop()
            return
        while self._queue:
            exchange = self._queue.popleft()
            if not exchange.ended:
                exchange.begun_s = exchange.begun_s or now()
                connection.send(exchange)
                return
        self._idle.append(connection)

    def lost(self, connection: Connection) -> None:
        """Forgets a closed connection; another may be opened in its place."""
        self._all.discard(connection)
        if connection in self._idle:
            self._idle.remove(connection)
        self._refill()

    def give_up(self, exchange: Exchange) -> None:
        """Aborts an exchange that was ended from outside (timeout, end of the run)."""
        connection = exchange.carrier
        if isinstance(connection, Connection) and connection.exchange is exchange:
            connection.exchange = None
            connection.drop()

    def close(self) -> None:
        """Drops every connection, open or opening."""
        self._closed = True
        for task in list(self._openers):
            task.cancel()
        for connection in list(self._all):
            connection.drop()

    def _refill(self) -> None:
        while self._queue and not self._closed and len(self._all) + self._opening < self._limit:
            exchange = self._queue.popleft()
            if not exchange.ended:
                exchange.begun_s = exchange.begun_s or now()
                self.submit(exchange)

    async def _open(self, exchange: Exchange) -> None:
        loop = asyncio.get_running_loop()
        self.connects += 1
        try:
            async with asyncio.timeout(self._timeout_s):
                _, connection = await loop.create_connection(
                    lambda: Connection(self), *self._address, ssl=self._tls, server_hostname=self._server_name
                )
        except (OSError, TimeoutError) as error:
            if not exchange.ended:
                exchange.end(_why(error))
                self.finished(exchange)
        else:
            if connection.gone:
                exchange.end("connection reset")
                self.finished(exchange)
                return
            self._all.add(connection)
            if exchange.ended or self._closed:
                self.release(connection, not self._closed)
            else:
                connection.send(exchange)
        finally:
            self._opening -= 1
            self._refill()


def _why(error: Exception) -> str:
    if isinstance(error, ssl.SSLError):
        return f"TLS: {(error.reason or 'handshake failed').lower().replace('_', ' ')}"
    if isinstance(error, ConnectionRefusedError):
        return "connection refused"
    if isinstance(error, TimeoutError):
        return "connect timeout"
    if isinstance(error, ConnectionError):
        return "connection reset"
    return f"connect failed: {getattr(error, 'strerror', None) or type(error).__name__}".lower()
