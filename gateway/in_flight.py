"""Requests that are being answered right now: the same one, asked meanwhile, is not asked of an engine again.

The first of them leads: its answer goes to its own client as ever, and is noted here as it comes. The others follow: each is
sent the same chunks, from the first one on, at its own pace. A leader whose client leaves goes on for those who follow; one
that has no answer to share lets them ask for themselves. Everything here runs on the event loop's thread.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple, TypeVar

from multidict import CIMultiDict

from engines.errors import EngineError, StreamBroken
from gateway.cache_control import cache_control
from gateway.send import Send, Watched
from router.asked import Asked

_T = TypeVar("_T")

FOLLOWED_AT_MOST = 2
"""Of the requests that lead and turn out to have nothing to share; then one asks for itself."""
_SHARED_HEADERS = ("Content-Type", "Content-Encoding", "Content-Length")
_SHARED_BYTES = 4 * 2**20
"""An answer longer than this takes no further followers: all of it is held while somebody follows."""


class Form(NamedTuple):
    """What of a request is not in its key and shows in the bytes of its answer."""

    stream: bool
    include_usage: bool
    accept_encoding: str | None

    def tells(self, other: Form) -> bool:
        """Whether an answer in this form, once remembered, says all that one in the other has to say."""
        return not (other.stream and other.include_usage) or self.include_usage or not self.stream


def form_of(asked: Asked) -> Form:
    """The form of this request's answer."""
    chat = asked.chat
    return Form(chat.stream, chat.include_usage, asked.headers.get("Accept-Encoding"))


class InFlight:
    """The leaders of this process, by exact key."""

    def __init__(self) -> None:
        self._flights: dict[bytes, list[Flight]] = {}

    def leader_of(self, key: bytes, form: Form) -> Flight | None:
        """The request that this one may follow: the one of its form, or one that can serve it from memory."""
        serving = [flight for flight in self._flights.get(key, ()) if flight.form.tells(form)]
        return next((flight for flight in serving if flight.form == form), serving[0] if serving else None)

    def lead_in(self, key: bytes, form: Form) -> Flight | None:
        """Let others follow this request from now on; None where another one leads."""
        if self.leader_of(key, form) is not None:
            return None
        flight = Flight(form, closed=lambda: self._remove(key, flight))
        self._flights.setdefault(key, []).append(flight)
        return flight

    def _remove(self, key: bytes, flight: Flight) -> None:
        flights = self._flights[key]
        flights.remove(flight)
        if not flights:
            del self._flights[key]


def takes_part(asked: Asked) -> bool:
    """Whether its answer may be another request's before anybody has read all of it: tool calls may not be replayed."""
    controls, fields = asked.controls, asked.chat.fields
    return not (controls.no_cache or controls.no_store or fields.get("tools") or fields.get("functions"))


class Flight:
    """One answer under way. `closed` is called once: when nobody may join it any more."""

    __slots__ = (
        "_chunks",
        "_closed",
        "_ended",
        "_error",
        "_followers",
        "_headers",
        "_is_over",
        "_leader_gone",
        "_news",
        "_size_bytes",
        "_task",
        "form",
    )

    def __init__(self, form: Form, closed: Callable[[], object]) -> None:
        self.form = form
        self._headers: CIMultiDict[str] | None = None
        """Of its head; None where there is nothing to share, or not yet."""
        self._closed: Callable[[], object] | None = closed
        self._chunks: list[bytes] = []
        self._size_bytes = 0
        self._ended = False
        """All of its answer is here, or all there will be to share."""
        self._is_over = False
        """The leader is done with it: nobody follows it any more, and it is handed over to be remembered."""
        self._error: EngineError | None = None
        self._followers = 0
        self._leader_gone = False
        self._news: asyncio.Event | None = None
        """Set when something has happened; None while nobody waits."""
        self._task: asyncio.Task[Any] | None = None

    async def led(self, send: Send, answer: Callable[[Send], Coroutine[Any, Any, _T]]) -> _T:
        """Answer through `send`, for everybody who follows as well: only without them a cancellation ends it."""
        # Owned by whoever leads or follows: the last of them cancels it.
        task = self._task = asyncio.create_task(answer(Watched(send, self)))  # noqa: TID251
        task.add_done_callback(self._over)
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            if not self.goes_on():
                task.cancel()
                await asyncio.wait({task})
            raise

    # ---- for those who follow

    @contextmanager
    def followed(self) -> Iterator[None]:
        """Keeps the answer under way."""
        self._followers += 1
        try:
            yield
        finally:
            self._followers -= 1
            if self._leader_gone and not self._followers and self._task is not None:
                self._close()
                self._task.cancel()

    async def head_for(self, asked: Asked) -> CIMultiDict[str] | None:
        """Wait for the head; None where there is nothing to share.

        Who wants another form waits for the end instead, since the answer is remembered by then.
        """
        if self.form != form_of(asked):
            await self.over(asked.max_kept_bytes)
            return None
        while self._headers is None and not self._ended:
            await self._something_new()
        head = self._headers
        if head is None or self._error is not None:
            return None
        return CIMultiDict((name, head[name]) for name in _SHARED_HEADERS if name in head)

    async def over(self, max_kept_bytes: int) -> None:
        """Wait until its answer is remembered, or is known to be none that is: a longer one is not."""
        while not (self._is_over or self._will_not_be_kept(max_kept_bytes)):
            await self._something_new()

    def _will_not_be_kept(self, max_kept_bytes: int) -> bool:
        nothing_to_share = self._ended and self._headers is None
        return nothing_to_share or self._error is not None or self._size_bytes > max_kept_bytes

    async def chunks(self) -> AsyncIterator[bytes]:
        """The whole body, as it comes. Raises the EngineError with which it breaks off."""
        at = 0
        while True:
            while at < len(self._chunks):
                yield self._chunks[at]
                at += 1
            if self._error is not None:
                raise self._error.with_traceback(None)
            if self._ended:
                return
            await self._something_new()

    # ---- by the leader: see gateway.send.Watcher

    def begins(self, status: int, headers: CIMultiDict[str]) -> None:
        """Its head is here."""
        if status != 200 or cache_control(headers).forbids_replay:
            self.ends()
            self._close()
            return
        self._headers = headers
        self._tell()

    def feed(self, chunk: bytes) -> None:
        """A chunk is here."""
        if self._ended:
            return
        self._chunks.append(chunk)
        self._size_bytes += len(chunk)
        if self._size_bytes > _SHARED_BYTES:
            self._close()
        if self._closed is None and not self._followers:
            self._chunks.clear()
            self._ended = True
        self._tell()

    def ends(self, error: EngineError | None = None) -> None:
        """It came to its end, or broke off."""
        if not self._ended:
            self._ended, self._error = True, error
            self._tell()

    def goes_on(self) -> bool:
        """See Watcher: it does for those who follow."""
        self._leader_gone = self._followers > 0
        if not self._leader_gone:
            self._close()
        return self._leader_gone

    def _over(self, task: asyncio.Task[Any]) -> None:
        if not task.cancelled():
            # asyncio complains of errors that nobody asked for, and nobody else may be waiting any more.
            task.exception()
        self._is_over = True
        self.ends(StreamBroken("The answer ended early."))
        self._close()
        self._tell()

    def _close(self) -> None:
        closed, self._closed = self._closed, None
        if closed is not None:
            closed()

    async def _something_new(self) -> None:
        self._news = self._news or asyncio.Event()
        await self._news.wait()

    def _tell(self) -> None:
        news, self._news = self._news, None
        if news is not None:
            news.set()
