"""Asks engines in APIs that they do not speak: requests are said in one that they do, and their answers back.

It stands between an engine and its guard (engines.servers), so that whoever guards, reads, remembers or bills sees the
client's API only. What an engine speaks itself does not come here.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from functools import partial
from types import TracebackType
from typing import Any

import orjson
from multidict import CIMultiDict

from engines.answers.beginning import unpacked
from engines.apis import Api, api_of
from engines.as_events import EVENTS
from engines.chat import ChatRequest, estimated_tokens, prompt_tokens
from engines.codecs.codec import Codec
from engines.codecs.neutral import WRITTEN
from engines.codecs.parts import Hearing, failure_of
from engines.codecs.table import CODECS, request_id_header
from engines.codecs.writing import written
from engines.engine import CountsTokens, Engine, EngineReply, EngineRequest, no_chunks
from engines.error_texts import hold_error
from engines.errors import EngineError, Kind, RequestError, StreamBroken, Unsayable
from engines.large_json import dumped
from engines.loose_json import member, parsed, parsed_object
from engines.off_loop import off_loop
from engines.sse import EventCutter, events
from engines.telling_usage import asking

_MOST_BYTES = 16 * 2**20
"""Of a whole answer, or of one event: more is not held to be translated."""
_OF_AN_API = ("anthropic-", "openai-")
"""How headers begin that say how a client speaks its own API."""
_COUNTS: Mapping[str, tuple[Api, dict[str, Any]]] = {
    "/messages/count_tokens": ("messages", {}),
    "/responses/input_tokens": ("responses", {"object": "response.input_tokens"}),
}
"""Where a client asks how long a prompt is: the API, and what the answer says beside the number."""
_MALFORMED = (AttributeError, IndexError, KeyError, TypeError, ValueError)
"""What reading raises of events and answers that are not as their API has them."""
_BEARER = "Bearer "
_WORDS_BYTES = 4096


def native_to(spoken: frozenset[Api]) -> Api | None:
    """The API that requests of others are said in, of those that an engine speaks; None where it speaks none of them."""
    return next((api for api in WRITTEN if api in spoken), None)


class Translating:
    """Asks an engine in the APIs that it does not speak: those of its `info.translated`, by way of `native`, which it does.

    `drops`: what may be left out of a request that the engine's API cannot say (engines.codecs.writing).
    """

    def __init__(self, engine: Engine, native: Api, drops: frozenset[str] = frozenset()) -> None:
        self.engine = engine
        self.native = CODECS[native]
        self.drops = drops
        self.apis = engine.info.translated

    def stream(self, request: EngineRequest) -> AbstractAsyncContextManager[EngineReply]:
        """See engines.engine.Engine.stream. Raises Unsayable, too."""
        chat = request.chat
        if chat is not None:
            return Translated(self, request, chat)
        path = request.target.partition("?")[0]
        if api_of(path) not in self.apis:
            return self.engine.stream(request)
        if path in _COUNTS:
            return Counted(self.engine, request, *_COUNTS[path])
        refusal = RequestError(f"{path[:100]} is not translated.", status=404, code="not_translatable")
        raise Unsayable(refusal, engine=self.engine.info.name)

    def unsayable(self, chat: ChatRequest) -> RequestError | None:
        """Why a request of one of these APIs cannot be said to it; None where it can."""
        try:
            written(chat, self.native.api, drops=self.drops)
        except RequestError as error:
            return error
        return None


class Translated(AbstractAsyncContextManager["EngineReply"]):
    """One request in another API than the engine's, and its answer."""

    def __init__(self, translating: Translating, request: EngineRequest, chat: ChatRequest) -> None:
        self._translating = translating
        self._request = request
        self._chat = chat
        self._client = CODECS[chat.api]
        self._context: AbstractAsyncContextManager[EngineReply] | None = None

    async def __aenter__(self) -> EngineReply:
        translating, request, chat = self._translating, self._request, self._chat
        try:
            asked = await off_loop(len(chat.body), outgoing, request, chat, translating)
        except RequestError as error:
            raise Unsayable(error, engine=translating.engine.info.name) from error
        context = asking(translating.engine, asked)
        reply = await context.__aenter__()
        try:
            await self._translate(reply)
        except BaseException:
            await context.__aexit__(None, None, None)
            raise
        self._context = context
        return reply

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._context is not None:
            await self._context.__aexit__(kind, error, trace)

    async def _translate(self, reply: EngineReply) -> None:
        """Turn the engine's reply into one of the client's API."""
        headers, name = reply.headers, request_id_header(self._chat.api)
        id = headers.get(request_id_header(self._translating.native.api))
        if id is not None:
            headers.setdefault(name, id)
        reply.flow = None
        if reply.status >= 400:
            await hold_error(reply)
            encoding = headers.get("Content-Encoding", "identity").strip().lower()
            body = unpacked(reply.first or b"", encoding) or b""
            _hold(reply, _error(self._client, reply.status, body))
            return
        streams = reply.streams_events
        saying = self._client.saying(self._chat, streams=streams or self._chat.stream)
        hearing = self._translating.native.hearing(saying)
        reply.lost = saying.lost
        if streams:
            headers.popall("Content-Length", None)
            headers["Content-Type"] = EVENTS
            reply.rest = self._events(reply.rest, hearing)
            return
        body = await self._whole(reply)
        said = await off_loop(len(body), self.said, body, hearing)
        _hold(reply, said, EVENTS if self._chat.stream else "application/json")

    async def _whole(self, reply: EngineReply) -> bytes:
        body = bytearray()
        async for chunk in reply.rest:
            body += chunk
            if len(body) > _MOST_BYTES:
                raise self._no_answer("is too large to be translated")
        encoding = reply.headers.get("Content-Encoding", "identity").strip().lower()
        plain = unpacked(bytes(body), encoding)
        if plain is None:
            raise self._no_answer("is in an encoding that cannot be read here")
        return plain

    def said(self, body: bytes, hearing: Hearing) -> bytes:
        """A whole answer in the client's API. Raises EngineError for what is none of the engine's API."""
        answer, saying = parsed(body), hearing.to
        try:
            heard = isinstance(answer, dict) and hearing.hear_whole(answer)
        except _MALFORMED:
            heard = False
        if not heard or saying.failure is not None:
            why = f": {saying.failure.message}" if saying.failure is not None else ""
            raise self._no_answer(f"is none of its API ({self._translating.native.api}){why}")
        return saying.take() if self._chat.stream else dumped(saying.whole(), like=body)

    def _no_answer(self, what: str) -> EngineError:
        return EngineError(
            f"The engine's answer {what}.", engine=self._translating.engine.info.name, kind=Kind.INVALID
        )

    async def _events(self, chunks: AsyncIterator[bytes], hearing: Hearing) -> AsyncIterator[bytes]:
        """A stream in the client's API, event by event. One that is cut short ends without its end."""
        cutter = EventCutter(_MOST_BYTES)
        async for chunk in chunks:
            whole = cutter.whole(chunk)
            if cutter.given_up:
                raise StreamBroken(
                    "An event of the engine is too large to be translated.",
                    engine=self._translating.engine.info.name,
                )
            if whole and (said := self.heard(whole, hearing)):
                yield said
        if said := self.heard(cutter.rest(), hearing, last=True):
            yield said

    def heard(self, whole: bytes, hearing: Hearing, *, last: bool = False) -> bytes:
        """What whole events say, in the client's API. Raises StreamBroken."""
        saying = hearing.to
        failed, hear = saying.failure is not None, hearing.hear
        try:
            for data in events(whole):
                if data == b"[DONE]":
                    hearing.done()
                else:
                    hear(orjson.loads(data))
            if last:
                hearing.done()
        except _MALFORMED as error:
            raise StreamBroken(
                f"The engine's stream is none of its API ({self._translating.native.api}).",
                engine=self._translating.engine.info.name,
            ) from error
        said = saying.take()
        if saying.failure is not None:
            # What came after the failure is no part of the answer.
            return b"" if failed else said + self._client.failed(saying.failure, number=saying.number)
        if not said and b"data:" not in whole and whole:
            saying.ping()
            return saying.take()
        return said


class Counted(AbstractAsyncContextManager["EngineReply"]):
    """The answer to a client that asks how long a prompt is, in an API that the engine does not speak: as the engine counts
    where it can, else an estimate."""

    def __init__(self, engine: Engine, request: EngineRequest, api: Api, told: Mapping[str, Any]) -> None:
        self._engine = engine
        self._request = request
        self._codec = CODECS[api]
        self._told = told

    async def __aenter__(self) -> EngineReply:
        body = self._request.body
        encoding = self._request.headers.get("Content-Encoding", "identity").strip().lower()
        plain = unpacked(body, encoding) if isinstance(body, bytes) else None
        chat = await off_loop(len(plain or b""), self._read, plain or b"")
        tools = chat.fields.get("tools")
        engine = self._engine
        counted = await engine.count_tokens(chat.messages) if isinstance(engine, CountsTokens) else None
        tokens = prompt_tokens(chat.messages) if counted is None else counted
        tokens += estimated_tokens(dumped({"tools": tools}).decode()) if tools else 0
        reply = EngineReply(200, CIMultiDict(), no_chunks(), engine=engine.info.name)
        _hold(reply, dumped({**self._told, "input_tokens": tokens}))
        return reply

    async def __aexit__(self, *_: object) -> None:
        return

    def _read(self, plain: bytes) -> ChatRequest:
        return self._codec.read(plain, parsed_object(plain))


def outgoing(request: EngineRequest, chat: ChatRequest, translating: Translating) -> EngineRequest:
    """The request in the API that the engine speaks. Raises RequestError (400, not_translatable)."""
    native = translating.native
    fields = written(chat, native.api, drops=translating.drops)
    without_usage = None
    if "stream_options" in fields:
        bare = {name: value for name, value in fields.items() if name != "stream_options"}
        if translating.engine.info.tells_usage.asked:
            without_usage = partial(dumped, bare, like=chat.body)
        else:
            fields = bare
    asked = ChatRequest(
        dumped(fields, like=chat.body),
        fields if native.api == "chat" else chat.fields,
        chat.model,
        fields["messages"] if native.api == "chat" else chat.messages,
        stream=chat.stream,
        include_usage=chat.include_usage,
        api=native.api,
        raw=None if native.api == "chat" else fields,
    )
    return replace(
        request,
        target=native.path,
        headers=_headers(request.headers, native, own_key=translating.engine.info.holds_key),
        body=asked.body,
        chat=asked,
        without_usage=without_usage,
    )


def _headers(headers: CIMultiDict[str], native: Codec, *, own_key: bool) -> CIMultiDict[str]:
    """A client's headers without those that are about its own API; its key, where it is sent, as the engine's API has it."""
    kept = CIMultiDict(
        (name, value) for name, value in headers.items() if not name.lower().startswith(_OF_AN_API)
    )
    for name in ("Content-Length", "Content-Encoding"):
        kept.popall(name, None)
    kept["Accept-Encoding"] = "identity"
    if own_key:
        return kept
    bearer = kept.get("Authorization", "")
    if native.api == "messages" and bearer.startswith(_BEARER) and "x-api-key" not in kept:
        del kept["Authorization"]
        kept["x-api-key"] = bearer.removeprefix(_BEARER)
    elif native.api != "messages" and not bearer and "x-api-key" in kept:
        kept["Authorization"] = _BEARER + kept.pop("x-api-key")
    return kept


def _hold(reply: EngineReply, body: bytes, content_type: str = "application/json") -> None:
    """Have a reply say this, and nothing else."""
    reply.headers.popall("Content-Encoding", None)
    reply.headers["Content-Type"] = content_type
    reply.headers["Content-Length"] = str(len(body))
    reply.hold(body)


def _error(client: Codec, status: int, body: bytes) -> bytes:
    """An error answer in the client's words: the message, the code and the parameter that the engine names."""
    told = parsed(body)
    if not isinstance(told, dict):
        said = body[:_WORDS_BYTES].decode("utf-8", "replace").strip()
        return client.error(status, said or f"The engine answered {status}.")
    message, code = failure_of(told)
    param = member(told.get("error"), "param")
    return client.error(status, message, code=code, param=param if isinstance(param, str) else None)
