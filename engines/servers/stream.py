"""One request to one of an engine's servers: it takes a place, passes the gates, and notes what became of the answer.

It asks once: who is asked again, and who next, is decided in engines.attempts. An answer counts as begun when its first
chunk is here, not when its head is, and that of a probe when the first of its data is. That it began well does not count as
success: that it ended well does.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from types import TracebackType

from engines.answers.beginning import holds_data
from engines.engine import EngineReply, EngineRequest
from engines.error_texts import hold_error
from engines.errors import ConnectFailed, EngineError, Kind, StreamBroken, Unavailable
from engines.refusals import WORDED, refusal_of
from engines.retry_after import retry_after_s
from engines.servers.choosing import Choosing
from engines.servers.gate import Gate, Pass
from engines.servers.limits import RateLimit
from engines.servers.line import Seat
from engines.servers.prefixes import Prefix
from engines.servers.standing import words_of
from engines.sse import begins_with_error
from engines.telling_usage import asking

_HELD_BYTES = 256 * 1024
"""Of a stream that has not come to its data."""
_UNREACHED = frozenset({Kind.DNS, Kind.CONNECT, Kind.TIMEOUT_CONNECT})
"""After these a server has been down."""


class ServerStream:
    """The context manager that Servers.stream returns."""

    __slots__ = (
        "_began",
        "_context",
        "_entered",
        "_first_chunk_s",
        "_held_tokens",
        "_limit",
        "_placed",
        "_reply",
        "_request",
        "_seat",
        "_sent",
        "_server",
        "_servers",
        "_slot_at",
    )

    _limit: RateLimit
    _reply: EngineReply

    def __init__(self, servers: Choosing, request: EngineRequest) -> None:
        self._servers = servers
        self._request = request
        self._server = servers.servers[0]
        """The one that is asked; another where one is chosen."""
        self._placed = False
        """It has a place there."""
        self._seat: Seat | None = None
        self._context: AbstractAsyncContextManager[EngineReply] | None = None
        self._began = self._slot_at = 0.0
        self._first_chunk_s = 0.0
        self._held_tokens = 0
        """What the server held when its answer began."""
        self._sent = 0
        self._entered: list[tuple[Gate, Pass]] = []
        """The gates that were shut when it entered, and now hang on what becomes of it."""

    async def __aenter__(self) -> EngineReply:
        """Ask once an answer may be asked for; return when it has begun. Raises EngineError."""
        self._began = self._slot_at = time.monotonic()
        if self._servers.chooses:
            await self._choose()
        server = self._server
        self._limit = server.rate_limit(self._request)
        try:
            await self._admitted()
            reply = self._reply = await self._begun()
        except BaseException as error:
            if self._placed:
                server.give_slot(self._seat)
            if isinstance(error, EngineError):
                error.replica = server.name
                if error.kind in _UNREACHED:
                    self._servers.placing.lost(server.name)
            raise
        reply.replica = server.name
        if self._seat is not None:
            server.prompt_computed(self._seat)
        now = time.monotonic()
        self._first_chunk_s = now - self._began
        self._held_tokens = server.held.tokens
        if reply.status < 500:
            server.heard_at = now
        return reply

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        reply = self._reply
        try:
            # A refusal is fast and says nothing about the server's pace.
            if reply.drained_at is not None and reply.status < 400:
                self._measure(reply, reply.drained_at)
            self._ended(reply)
            await self._leave()
        finally:
            self._server.give_slot(self._seat)

    # ---- a place

    async def _choose(self) -> None:
        """Take a place at one of several; where none may be asked, name the one that is worth waiting for.

        Raises Unavailable.
        """
        servers, request, line = self._servers, self._request, self._servers.line
        prefixes = await servers.placing.prefixes(request)
        if request.is_step:
            line.counts = True
        if line.counts:
            self._seat = line.seat(request)
        line.look()
        try:
            placed = not line.holds_back and self._takes(prefixes)
        except Unavailable:
            soon = servers.opens_soon(request)
            if soon is None:
                raise
            self._server, self._seat = soon, None
            return
        if not placed:
            await self._wait(prefixes)

    async def _wait(self, prefixes: Sequence[Prefix]) -> None:
        servers, request, line = self._servers, self._request, self._servers.line
        if line.full and not request.is_step:
            raise servers.refusal(request)
        waits = self._seat or line.seat(request)
        while not self._placed:
            await line.wait(waits, lambda: self._takes(prefixes), self._give_back)
            if not self._server.lets(request).admitted:
                # It failed between the two.
                self._give_back()
                self._takes(prefixes)

    def _takes(self, prefixes: Sequence[Prefix]) -> bool:
        """Take a place at the best of those that have one. Raises Unavailable where none may be asked."""
        server = self._servers.place(self._request, self._seat, prefixes)
        if server is not None:
            self._server, self._placed = server, True
        return self._placed

    def _give_back(self) -> None:
        self._placed = False
        self._server.give_slot(self._seat)

    async def _admitted(self) -> None:
        """Have a place, past the gates. Raises Unavailable."""
        server, waited = self._server, self._placed
        try:
            if not self._placed:
                await self._pass_gates(self._request.wait_s)
                if server.line.counts:
                    self._seat = server.line.seat(self._request)
                waited = await server.take_slot(self._request, self._seat)
                self._placed = True
            if waited:
                self._slot_at = time.monotonic()
                if not self._entered:
                    # It has waited for its place, and the server may have failed meanwhile.
                    await self._pass_gates(0.0)
        except BaseException as error:
            if isinstance(error, Unavailable):
                server.failures[error.kind] += 1
            self._abandon()
            raise

    async def _pass_gates(self, wait_s: float) -> None:
        server = self._server
        # In order, and once where both are the same.
        for gate in dict.fromkeys((server.breaker.gate, self._limit.gate)):
            if gate.kind is not None:
                entered = await server.pass_through(gate, wait_s)
                if entered is not None:
                    self._entered.append((gate, entered))

    # ---- the answer

    async def _begun(self) -> EngineReply:
        server, limit = self._server, self._limit
        limit.sent += 1
        self._sent = limit.sent
        server.asked += 1
        try:
            chat, translating = self._request.chat, server.translating
            if translating is not None and (chat is None or chat.api in translating.apis):
                context = translating.stream(self._request)
            else:
                context = asking(server.engine, self._request)
            reply = await context.__aenter__()
            self._context = context
            if reply.first is None:
                reply.first = await anext(reply.rest, b"")
            if reply.status in WORDED and server.holds_key(self._request):
                await hold_error(reply)
            if self._entered:
                await _hold_until_data(reply)
        except BaseException as error:
            self._not_answered(error)
            await self._leave()
            if isinstance(error, StreamBroken):
                raise ConnectFailed(error.message, engine=error.engine, kind=Kind.BROKEN) from error
            raise
        try:
            self._answered(reply)
        except BaseException:
            await self._leave()
            raise
        return reply

    async def _leave(self) -> None:
        context, self._context = self._context, None
        if context is not None:
            await context.__aexit__(None, None, None)

    # ---- what becomes of it

    def _answered(self, reply: EngineReply) -> None:
        """Take note of an answer that began."""
        self._server.told_left(self._limit.told(reply.headers, self._sent))
        if reply.status >= 400:
            self._refused(reply)
            return
        if reply.streams_events and (not reply.first or begins_with_error(reply.first)):
            reply.kind = Kind.SERVER if reply.first else Kind.INVALID
            self._failed(reply.kind, reply.status, self._words(reply))
            return
        self._limit.passed()
        if self._entered and (not reply.streams_events or holds_data(reply.first or b"")):
            self._succeeded()

    def _refused(self, reply: EngineReply) -> None:
        """Take note of an error answer: the request's, the key's, the model's, or the server's own."""
        server, status = self._server, reply.status
        says_when = (retry_after_s(reply.headers) or 0.0) > 0
        holds_key = server.holds_key(self._request)
        refusal = refusal_of(status, reply.first or b"", holds_key=holds_key, says_when=says_when)
        kind = reply.kind = None if refusal is None else refusal.kind
        if kind is Kind.SERVER:
            self._failed(kind, status, self._words(reply))
            return
        if kind is not None:
            self._count(kind, status, self._words(reply))
        if kind is Kind.LIMITED:
            reply.limited_s = self._limited_s(reply)
        elif holds_key and refusal is not None and refusal.lasts:
            server.breaker.refused(self._of_breaker())
        else:
            server.breaker.answered()
        self._succeeded()

    def _limited_s(self, reply: EngineReply) -> float | None:
        """See RateLimit.met. An overload is everybody's, what a key has used up is that key's."""
        limit = self._limit if reply.status == 429 else self._server.engine_limit
        entered = next((entered for gate, entered in self._entered if gate is limit.gate), None)
        return limit.met(reply.headers, entered)

    def _words(self, reply: EngineReply) -> str:
        return words_of(reply.first or b"") if self._server.holds_key(self._request) else ""

    def _not_answered(self, error: BaseException) -> None:
        """Take note that no answer began."""
        # Unavailable: the engine itself says that it is not up. Anything but an EngineError: the client left.
        if isinstance(error, EngineError) and not isinstance(error, Unavailable):
            self._failed(error.kind, text=error.message)
        else:
            self._abandon()

    def _measure(self, reply: EngineReply, drained_at: float) -> None:
        """Note how long a whole answer took."""
        server, chat, answer_s = self._server, self._request.chat, drained_at - self._began
        server.pace.ended(answer_s)
        if chat is not None and chat.stream:
            server.pace.began(self._first_chunk_s)
        if self._seat is not None and reply.streams_events:
            held_tokens = (self._held_tokens + server.held.tokens) / 2
            server.decoded(held_tokens, answer_s - self._first_chunk_s, reply.tail)
        if server.answer_time is not None and reply.broken is None:
            server.answer_time.took(drained_at - self._slot_at)

    def _ended(self, reply: EngineReply) -> None:
        """Take note of how an answer ended that had begun well."""
        if reply.status >= 400 or reply.kind is not None:
            return
        if reply.broken is None and reply.drained_at is not None and (tail := reply.tail) is not None:
            if tail.failed():
                reply.broken = Kind.SERVER
            elif tail.cut(delimited=reply.self_delimiting):
                reply.broken = Kind.BROKEN
        if reply.broken is not None:
            self._failed(reply.broken, reply.status)
        elif reply.drained_at is not None:
            self._server.breaker.answered()
            self._succeeded()
        else:
            self._abandon()

    def _failed(self, kind: Kind, status: int = 0, text: str = "") -> None:
        self._server.failed += 1
        self._count(kind, status, text)
        self._server.breaker.failed(self._of_breaker())
        # A credential's own gate learns nothing from it.
        self._abandon()

    def _count(self, kind: Kind, status: int, text: str) -> None:
        self._server.count(kind, status, text, time.monotonic() - self._slot_at)

    def _of_breaker(self) -> Pass | None:
        """The pass through the breaker's gate, taken out: it is decided there."""
        for entered in self._entered:
            if entered[0] is self._server.breaker.gate:
                self._entered.remove(entered)
                return entered[1]
        return None

    def _succeeded(self) -> None:
        for gate, entered in self._entered:
            if gate is self._server.breaker.gate:
                self._server.breaker.probed(entered)
            else:
                entered.succeeded()
        self._entered.clear()

    def _abandon(self) -> None:
        for _, entered in self._entered:
            entered.abandoned()
        self._entered.clear()


async def _hold_until_data(reply: EngineReply) -> None:
    """Put all of a stream up to its first data into `first`, or all there is."""
    if reply.status >= 400 or not reply.streams_events:
        return
    held = reply.first or b""
    while not holds_data(held) and len(held) <= _HELD_BYTES:
        chunk = await anext(reply.rest, b"")
        if not chunk:
            break
        held += chunk
    reply.first = held
