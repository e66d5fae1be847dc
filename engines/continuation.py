"""A stream that breaks off is carried on by another engine: the client sees one answer, with a comment at the seam.

Failover's counterpart after the first chunk. The engine that takes over gets the conversation with the partial answer as its
last message and is asked to go on with it (`continue_final_message`, as vLLM and Hugging Face's chat templates have it);
where nothing was said yet it is simply asked, and any engine will do. Nothing is parsed before a stream breaks: until then
only the end of the last whole event is looked for, so that what a client has been sent can be continued at all.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from typing import Any

from engines.chat import ChatRequest
from engines.engine import CountsTokens, Engine, EngineReply, EngineRequest
from engines.errors import EngineError, StreamBroken
from engines.failover import Try
from engines.partial_answer import PartialAnswer, engine_failed, read_partial, spliced
from engines.sse import Tail, split_at_error, whole_events

_LIMIT_BYTES = 2**20
"""A stream longer than this is not carried on: its beginning was let go."""
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
class CarriedOn:
    """A change of hands."""

    engine: Engine
    """Who took over."""
    tokens_before: int
    """Tokens of the answer until then, from its beginning."""


class Continuation:
    """Context manager over one answer's stream; leaving it ends whatever engine is being asked.

    `candidates`: who may carry on, in order; each is asked once. `let_go` gives up the engine that broke off, so that its
    place is free before another is asked, perhaps the same one.
    """

    def __init__(
        self,
        candidates: Sequence[Try],
        let_go: Callable[[], Awaitable[None]],
        *,
        limit_bytes: int = _LIMIT_BYTES,
    ) -> None:
        self._candidates = list(candidates)
        self._let_go = let_go
        self._limit_bytes = limit_bytes
        self._stack = AsyncExitStack()
        self._sent: list[bytes] = []
        self._sent_bytes = 0
        self._tail = Tail()
        self.carried_on: list[CarriedOn] = []
        """Who took over, in order."""

    async def __aenter__(self) -> Continuation:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()

    def covers(self, reply: EngineReply) -> bool:
        """Whether this answer is a stream that could be carried on by somebody."""
        streams = reply.headers.get("Content-Type", "").startswith("text/event-stream")
        plain = "Content-Encoding" not in reply.headers and "Content-Length" not in reply.headers
        return bool(self._candidates) and reply.status == 200 and streams and plain

    def chunks(self, reply: EngineReply) -> AsyncIterator[bytes]:
        """The stream of `reply`, in whole events, and what follows when it breaks.

        Raises the EngineError it broke with, or passes its error event on, when nobody can carry on.
        """
        # Taken now: the caller may put what this returns in its place.
        return self._carried(reply.chunks, reply.engine)

    async def _carried(self, source: AsyncIterator[bytes], engine: str) -> AsyncIterator[bytes]:
        while True:
            broken: EngineError | None = None
            error_event = b""
            events = whole_events(source)
            try:
                async for piece in events:
                    good, error_event = split_at_error(piece)
                    if error_event and not engine_failed(error_event):
                        good, error_event = piece, b""
                    if good:
                        self._note(good)
                        yield good
                    if error_event:
                        break
            except EngineError as error:
                broken = error
            if broken is None and not error_event:
                if self._tail.finished() or not self._tail.began:
                    return
                broken = StreamBroken(
                    "The upstream's stream ended without its terminal event.", engine=engine
                )
            taken_over = await self._take_over()
            if taken_over is not None:
                await events.aclose()
                comment, source = taken_over
                yield comment
                continue
            if broken is not None:
                raise broken
            yield error_event
            async for piece in events:
                yield piece
            return

    def _note(self, piece: bytes) -> None:
        self._tail.feed(piece)
        self._sent_bytes += len(piece)
        if self._sent_bytes <= self._limit_bytes:
            self._sent.append(piece)
        else:
            self._sent.clear()
            self._candidates.clear()

    async def _take_over(self) -> tuple[bytes, AsyncIterator[bytes]] | None:
        partial = read_partial(b"".join(self._sent)) if self._candidates else None
        if partial is None:
            self._candidates.clear()
            return None
        while self._candidates:
            candidate = self._candidates.pop(0)
            if partial.text and not candidate.engine.info.continues:
                continue
            await self._let_go()
            await self._stack.aclose()
            tokens = await _tokens(candidate, partial)
            try:
                reply = await self._stack.enter_async_context(
                    candidate.engine.stream(_request(candidate.request, partial, tokens))
                )
            except EngineError:
                continue
            if self._streams(reply):
                self.carried_on.append(CarriedOn(candidate.engine, tokens))
                comment = f": understudy: {_name(reply)} carries on from here\n\n".encode()
                return comment, spliced(reply.chunks, partial, tokens)
        return None

    def _streams(self, reply: EngineReply) -> bool:
        return (
            reply.status == 200
            and reply.headers.get("Content-Type", "").startswith("text/event-stream")
            and "Content-Encoding" not in reply.headers
        )


async def _tokens(candidate: Try, partial: PartialAnswer) -> int:
    """How many tokens were said: by the new engine's own count where it can tell, else one for each piece of the stream."""
    engine = candidate.engine
    counted = (
        await engine.count_tokens(partial.text) if partial.text and isinstance(engine, CountsTokens) else None
    )
    return partial.pieces if counted is None else counted


def _request(asked: EngineRequest, partial: PartialAnswer, tokens: int) -> EngineRequest:
    """What the new engine is asked: the same, and to go on with what was said, within what is left of its limits."""
    chat = asked.chat
    assert chat is not None
    changes: dict[str, Any] = {"stream": True}
    if partial.text:
        # Templates may strip a last message; what was stripped would be said twice. So it is left out, and not said twice
        # either: engines.partial_answer drops it from the beginning of what follows.
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
