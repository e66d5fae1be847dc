"""Live updates: one task watches for commits and new figures, and notifies every open page by server-sent events.

An event carries no data: the page then requests what it shows again, with its own filters and its own rights.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import contextmanager

LOOK_EVERY_S = 0.5
HEARTBEAT_S = 15.0
MOST_CLIENTS = 64


class TooManyListeners(Exception):
    """Too many pages are open to notify another one."""


class Live:
    """Notifies open pages. `run` is the task; whoever owns the server starts it."""

    def __init__(
        self, version: Callable[[], object], *, most: int = MOST_CLIENTS, look_every_s: float = LOOK_EVERY_S
    ) -> None:
        """`version` returns a value that differs whenever there is news, within microseconds (Database.data_version)."""
        self._version = version
        self._most = most
        self._look_every_s = look_every_s
        self._listeners: set[asyncio.Event] = set()
        self._somebody = asyncio.Event()

    async def run(self) -> None:
        """Watches until cancelled; does nothing while no page listens."""
        seen: object = None
        while True:
            await self._somebody.wait()
            version = self._version()
            if version != seen:
                if seen is not None:
                    for listener in self._listeners:
                        listener.set()
                seen = version
            await asyncio.sleep(self._look_every_s)

    @contextmanager
    def listening(self) -> Iterator[asyncio.Event]:
        """An event that is set on every change; whoever waits for it clears it. Raises TooManyListeners."""
        if len(self._listeners) >= self._most:
            raise TooManyListeners(f"{self._most} pages are open already")
        news = asyncio.Event()
        self._listeners.add(news)
        self._somebody.set()
        try:
            yield news
        finally:
            self._listeners.discard(news)
            if not self._listeners:
                self._somebody.clear()


async def events(
    news: asyncio.Event, may_listen: Callable[[], Awaitable[bool]], *, heartbeat_s: float = HEARTBEAT_S
) -> AsyncIterator[bytes]:
    """Server-sent events until `may_listen` returns False; a comment every `heartbeat_s` keeps the connection alive."""
    yield b"retry: 2000\n\n"
    while True:
        try:
            async with asyncio.timeout(heartbeat_s):
                await news.wait()
        except TimeoutError:
            if not await may_listen():
                yield b"event: over\ndata: \n\n"
                return
            yield b": still here\n\n"
            continue
        news.clear()
        yield b"event: news\ndata: \n\n"
