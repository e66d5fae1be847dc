"""Who answers a request, who answers next when an engine fails, and who carries on a stream that breaks off.

Before the first chunk another engine is simply asked. After it, another engine is given the conversation with the partial
answer as its last message and is asked to go on with it (`continue_final_message`, as vLLM and Hugging Face's chat templates
have it); where nothing was said yet any engine will do. Nothing is parsed before a stream breaks: until then only the
end of the last whole event is looked for, so that what a client has been sent can be continued at all.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, replace
from typing import Any

from engines.chat import ChatRequest
from engines.engine import CountsTokens, Engine, EngineReply, EngineRequest
from engines.errors import EngineError, StreamBroken
from engines.partial_answer import PartialAnswer, engine_failed, read_partial, spliced
from engines.sse import EventCutter, Tail, begins_with_error, split_at_error

RETRYABLE_STATUS = frozenset({408, 409, 429, 500, 502, 503, 504, 520, 522, 524, 529})
"""No other 4xx is ever asked again: the request itself is wrong, or was refused."""
_HELD_BYTES = 256 * 1024
"""Of an error answer that is kept while another engine is asked."""
_CARRIED_ON_BYTES = 2**20
"""A stream longer than this is not carried on: its beginning is no longer there."""
_TOO_LONG = (b"context_length_exceeded", b"maximum context length", b"maximum model length", b"max_model_len")
_NEVER_WITH = (
    "tools",
    "functions",
    "logprobs",
    "top_logprobs",
    "prompt_logprobs",
    "return_token_ids",
    "return_tokens_as_token_ids",
    "echo",
    "use_beam_search",
    "continue_final_message",
    "structured_outputs",
    "guided_json",
    "guided_regex",
    "guided_choice",
    "guided_grammar",
    "audio",
)
"""What cannot be continued: it constrains or describes the answer as a whole, token by token, or is not text."""


def continuable(chat: ChatRequest) -> bool:
    """Whether the answer to this request could be carried on if it broke off: one choice of plain text, streamed."""
    fields = chat.fields
    if not chat.stream or any(fields.get(name) for name in _NEVER_WITH):
        return False
    if fields.get("n") not in (None, 1) or fields.get("add_generation_prompt") is False:
        return False
    if fields.get("modalities") not in (None, ["text"]):
        return False
    form = fields.get("response_format")
    plain = form is None or (isinstance(form, dict) and form.get("type") == "text")
    return plain and bool(chat.messages) and chat.messages[-1].get("role") != "assistant"


@dataclass(frozen=True, slots=True)
class Try:
    """One engine and what to ask it."""

    engine: Engine
    request: EngineRequest
    lengthened: bool = False
    """Examples of ours made the request longer than it came: too long for this engine, it may fit the next one."""


@dataclass(frozen=True, slots=True)
class CarriedOn:
    """An engine that took over a stream which had broken off."""

    engine: Engine
    tokens_before: int
    """Tokens of the answer until then, from its beginning."""


class Attempts:
    """The answer of the first engine that gives one: an async context manager, which ends the generation when it is left.

    Entering it returns the reply, or raises the first EngineError when no engine answered at all; `chunks` is its stream.
    A request that our examples made too long for an engine's context window goes to the next try; one that came too long
    goes to `larger`. When every engine fails, the first error *answer* is passed on as it came.

    `carry_on`: a stream that breaks off is carried on by the engines that were not asked yet, and last by the same one,
    which may be back.
    """

    def __init__(
        self,
        tries: Sequence[Try],
        larger: Try | None = None,
        *,
        carry_on: bool = False,
        limit_bytes: int = _CARRIED_ON_BYTES,
    ) -> None:
        self._tries = tries
        self._larger = larger
        self._carry_on = carry_on
        self._limit_bytes = limit_bytes
        self._context: AbstractAsyncContextManager[EngineReply] | None = None
        self._reply: EngineReply | None = None
        self._successors: list[Try] = []
        """Who may carry the stream on, in order; each is asked once."""
        self._sent: list[bytes] = []
        self._sent_bytes = 0
        self.index = 0
        """Which of the tries answered; their number for `larger`."""
        self.failures: list[str] = []
        """Names of the engines that failed before one answered."""
        self.carried_on: list[CarriedOn] = []
        """Who took over after it broke off, in order."""

    async def __aenter__(self) -> EngineReply:
        held: tuple[int, EngineReply] | None = None
        first_error: EngineError | None = None
        last = len(self._tries) - 1
        for index, attempt in enumerate(self._tries):
            self.index = index
            context = attempt.engine.stream(attempt.request)
            try:
                reply = await context.__aenter__()
            except EngineError as error:
                first_error = first_error or error
                self.failures.append(attempt.engine.info.name)
                continue
            self._context, self._reply = context, reply
            try:
                failed = await self._failed(reply, attempt, another=index < last)
            except BaseException:
                await self._leave()
                raise
            if not failed:
                return self._reply
            self.failures.append(attempt.engine.info.name)
            held = held or (index, reply)
        if held is not None:
            self.index, self._reply = held
            return self._reply
        assert first_error is not None
        raise first_error

    async def __aexit__(self, *_: object) -> None:
        await self._leave()

    def chunks(self, tail: Tail | None = None) -> AsyncIterator[bytes]:
        """The answer's stream, and what follows where it breaks off and somebody carries it on.

        `tail`: must be fed each chunk before the next one is asked for. A stream that is to be carried on needs one.
        Raises the EngineError it broke with, or passes its error event on.
        """
        reply = self._reply
        assert reply is not None
        reply.tail = tail
        whole = "Content-Length" in reply.headers
        if not self._carry_on or tail is None or reply.status != 200 or not reply.streams_events or whole:
            return reply.chunks
        asked = [*self._tries, *([self._larger] if self._larger else [])][self.index]
        self._successors = [*self._tries[self.index + 1 :], asked]
        return self._in_whole_events(reply, reply.first, reply.rest, tail)

    # ---- before the first chunk

    async def _failed(self, reply: EngineReply, attempt: Try, *, another: bool) -> bool:
        """Whether the next one is to be asked. `reply` is then held in memory, and its engine was left."""
        if reply.status == 400 and (attempt.lengthened and another):
            return await self._says_too_long(reply)
        if reply.status == 400 and self._larger is not None:
            if await self._says_too_long(reply):
                await self._ask_larger(self._larger)
            return False
        if reply.status not in RETRYABLE_STATUS and not (another and await _begins_with_error(reply)):
            return False
        await self._hold(reply)
        return True

    async def _says_too_long(self, reply: EngineReply) -> bool:
        await self._hold(reply)
        return reply.first is not None and any(sign in reply.first for sign in _TOO_LONG)

    async def _ask_larger(self, larger: Try) -> None:
        """Put the larger engine's answer in the place of the refusal, if it gives one."""
        context = larger.engine.stream(larger.request)
        try:
            self._reply = await context.__aenter__()
        except EngineError:
            return
        self._context, self.index = context, len(self._tries)

    async def _hold(self, reply: EngineReply) -> None:
        """Read an error answer into memory, and leave its engine."""
        body = bytearray()
        try:
            async for chunk in reply.chunks:
                body += chunk
                if len(body) > _HELD_BYTES or (reply.status < 400 and begins_with_error(body)):
                    # What follows is not read: no length may promise it.
                    reply.headers.popall("Content-Length", None)
                    break
        except EngineError:
            reply.headers.popall("Content-Length", None)
        reply.first, reply.rest = bytes(body), _nothing()
        await self._leave()

    async def _leave(self) -> None:
        context, self._context = self._context, None
        if context is not None:
            await context.__aexit__(None, None, None)

    # ---- from the first chunk on

    async def _in_whole_events(
        self, reply: EngineReply, first: bytes | None, source: AsyncIterator[bytes], tail: Tail
    ) -> AsyncIterator[bytes]:
        cutter = EventCutter(self._limit_bytes)
        given_up = False
        while True:
            broken: EngineError | None = None
            error_event = b""
            try:
                chunk = first or await anext(source, None)
                piece = cutter.rest() if chunk is None else cutter.whole(chunk)
            except EngineError as error:
                broken, chunk, piece = error, None, b""
                reply.broken = error.kind
            first = None
            if cutter.given_up:
                self._successors.clear()
            elif piece and not given_up:
                piece, error_event = _split_at_failure(piece)
            if piece:
                self._note(piece)
                yield piece
            if chunk is not None and not error_event:
                continue
            if broken is None and not error_event:
                if not self.carried_on:
                    reply.drained_at = time.monotonic()
                if not tail.cut(delimited=reply.self_delimiting):
                    return
                broken = no_terminal_event(reply.engine)
            successor = await self._take_over()
            if successor is not None:
                comment, source = successor
                cutter = EventCutter(self._limit_bytes)
                yield comment
            elif broken is not None:
                raise broken
            else:
                given_up = True
                yield error_event

    def _note(self, piece: bytes) -> None:
        self._sent_bytes += len(piece)
        if self._sent_bytes <= self._limit_bytes:
            self._sent.append(piece)
        else:
            self._sent.clear()
            self._successors.clear()

    async def _take_over(self) -> tuple[bytes, AsyncIterator[bytes]] | None:
        """A comment that says who carries on, and the rest of the answer; None where nobody does."""
        partial = read_partial(b"".join(self._sent)) if self._successors else None
        if partial is None:
            self._successors.clear()
            return None
        while self._successors:
            successor = self._successors.pop(0)
            if partial.text and not successor.engine.info.continues:
                continue
            # First, so that its place is free: the successor may be the same engine.
            await self._leave()
            tokens = await _tokens(successor, partial)
            context = successor.engine.stream(_request(successor.request, partial, tokens))
            try:
                reply = await context.__aenter__()
            except EngineError:
                continue
            self._context = context
            if reply.status == 200 and reply.streams_events:
                self.carried_on.append(CarriedOn(successor.engine, tokens))
                comment = f": understudy: {_name(reply)} carries on from here\n\n".encode()
                return comment, spliced(reply.chunks, partial, tokens)
        return None


def no_terminal_event(engine: str) -> StreamBroken:
    """The error of a stream that ended neatly without saying that it was over."""
    return StreamBroken("The upstream's stream ended without its terminal event.", engine=engine)


async def _begins_with_error(reply: EngineReply) -> bool:
    """Whether a stream's first event is an error. A guard has its first chunk already, so this waits for nothing then."""
    if reply.status >= 400:
        return False
    if reply.first is None:
        reply.first = await anext(reply.rest, b"")
    return begins_with_error(reply.first)


async def _nothing() -> AsyncIterator[bytes]:
    return
    yield


def _split_at_failure(piece: bytes) -> tuple[bytes, bytes]:
    """Whole events in two: before the first event that tells of the engine's failure, and from it on."""
    good, error_event = split_at_error(piece)
    return (good, error_event) if error_event and engine_failed(error_event) else (piece, b"")


async def _tokens(successor: Try, partial: PartialAnswer) -> int:
    """Tokens of the partial answer: by the new engine's own count if it has one, else one for each piece of the stream."""
    engine = successor.engine
    counted = (
        await engine.count_tokens(partial.text) if partial.text and isinstance(engine, CountsTokens) else None
    )
    return partial.pieces if counted is None else counted


def _request(asked: EngineRequest, partial: PartialAnswer, tokens: int) -> EngineRequest:
    """What the new engine is asked: the same, and to go on with the partial answer, within what is left of its limits."""
    chat = asked.chat
    assert chat is not None
    changes: dict[str, Any] = {"stream": True}
    if partial.text:
        # Chat templates may strip the blanks at the end of a last message; the new engine would then say them again. So they
        # are left out here, and engines.partial_answer drops them from the beginning of what follows.
        said = {"role": "assistant", "content": partial.text.rstrip()}
        changes |= {
            "messages": [*chat.messages, said],
            "continue_final_message": True,
            "add_generation_prompt": False,
        }
    for name in ("max_tokens", "max_completion_tokens"):
        if isinstance(limit := chat.fields.get(name), int):
            changes[name] = max(1, limit - tokens)
    if isinstance(least := chat.fields.get("min_tokens"), int):
        changes["min_tokens"] = max(0, least - tokens)
    headers = asked.headers.copy()
    for name in ("Content-Length", "Content-Encoding"):
        headers.popall(name, None)
    headers["Accept-Encoding"] = "identity"
    changed = chat.changed(changes)
    return replace(asked, headers=headers, body=changed.body, chat=changed)


def _name(reply: EngineReply) -> str:
    """The engine's name, fit for a comment: names come from the configuration and may hold anything."""
    return "".join(c for c in reply.engine if c.isprintable())[:100]
