"""The seam between the pipeline and one API's wire format. Pure: bytes and parsed JSON in, the same out; nobody is asked.

A request of any API is read into a `ChatRequest`, whose `messages` and `fields` say it as a chat completion would: that is
what policies, examples and keys read. Its `body` stays what came in. An answer is read into `Assembled`, whose `completion`
says it as a chat completion would, and whose `own` is the API's own object.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import orjson

from engines.answers.answer import Assembled, Body, Merged
from engines.answers.tail import CHAT_ENDS, Ends, Tail, tail_of
from engines.apis import Api
from engines.chat import ChatRequest
from engines.codecs.hearing_chat import HearingChat
from engines.codecs.parts import Hearing, Saying
from engines.codecs.said import Said
from engines.codecs.saying_chat import SayingChat
from engines.error_body import error_body
from engines.errors import RequestError
from engines.large_json import dumped
from engines.sse import encode


class Codec(ABC):
    """One API's wire format. What most APIs do alike stands here."""

    __slots__ = ()
    api: ClassVar[Api]
    """The API's name: `ChatRequest.api`, and what engines list that they speak."""
    path: ClassVar[str]
    """Where it is asked, below the gateway's prefix and an engine's base URL."""
    merged: ClassVar[Callable[[], Merged]]
    """Begins an answer that is to be merged."""
    ends: ClassVar[Ends] = CHAT_ENDS
    hearing: ClassVar[type[Hearing]] = HearingChat
    """Reads an answer, and has its parts said."""
    saying: ClassVar[type[Saying]] = SayingChat
    """Says an answer, part by part."""

    @abstractmethod
    def read(self, body: bytes, fields: dict[str, Any]) -> ChatRequest:
        """The typed view of a parsed body. Raises RequestError 400 naming the parameter that is wrong."""
        ...

    def changed(
        self,
        chat: ChatRequest,
        *,
        model: str | None = None,
        messages: Sequence[Mapping[str, Any]] | None = None,
    ) -> ChatRequest:
        """The same request with another model name, or with examples put among its messages (`router.prompt.with_examples`);
        itself when nothing would change."""
        same_model = model is None or model == chat.model
        if same_model and messages is None:
            return chat
        fields = dict(chat.own_fields) if messages is None else self.with_messages(chat, messages)
        if not same_model:
            fields["model"] = model
        return self.read(dumped(fields, like=chat.body), fields)

    def with_messages(self, chat: ChatRequest, messages: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """The fields of a request in this API's own words, with other messages."""
        return {**chat.own_fields, "messages": list(messages)}

    def again(
        self,
        chat: ChatRequest,
        messages: Sequence[Mapping[str, Any]],
        *,
        without: frozenset[str],
        max_tokens: int,
    ) -> ChatRequest:
        """The same question with these messages, for the gateway itself: not streamed, nowhere stored, without these fields,
        and answered with at most `max_tokens`."""
        fields = dict(chat.own_fields) if messages is chat.messages else self.with_messages(chat, messages)
        kept = {name: value for name, value in fields.items() if name not in without}
        kept |= self.alone(max_tokens)
        return self.read(dumped(kept, like=chat.body), kept)

    def alone(self, max_tokens: int) -> dict[str, Any]:
        """The fields that have a request answered for the gateway itself. See `again`."""
        return {"stream": False, "max_tokens": max_tokens}

    def tail(self, headers: Mapping[str, str], choices: int = 1) -> Tail | None:
        """Tells when a stream with these headers is complete, and how an error is said in it; None where it is no stream."""
        return tail_of(headers, choices, self.ends)

    def assembled(self, body: Body) -> Assembled | None:
        """The answer as one object; None where it cannot be read as one. Off the event loop: it may take milliseconds."""
        return body.read(type(self).merged)

    def stored(self, assembled: Assembled) -> bytes:
        """An answer that came as a stream, as it would have come in one piece: what is remembered of it."""
        return orjson.dumps(assembled.completion if assembled.own is None else assembled.own)

    def refusal(self, chat: ChatRequest, assembled: Assembled) -> str | None:
        """Why this API's answer must not be remembered, in a word, beside what holds for all; None where it may."""
        return None

    def replayed(self, stored: bytes, chat: ChatRequest) -> bytes:
        """A remembered answer for a client that asked `chat` and does not stream."""
        return stored

    @abstractmethod
    def events(self, stored: bytes, chat: ChatRequest) -> bytes:
        """A remembered answer as this API's server-sent events, complete with its end."""
        ...

    def said(self, said: Said, chat: ChatRequest) -> dict[str, Any]:
        """An answer that was made here to `chat`, as this API's object."""
        saying = self.saying(chat, streams=False)
        saying.begin(said.id, said.model, said.created_s)
        if said.text or not said.calls:
            saying.text(said.text)
        said.ends(saying)
        return saying.whole()

    def failed(self, error: RequestError, *, number: int) -> bytes:
        """The event that breaks off a stream of an answer that was made here, as the next after `number` others."""
        return encode(self.error(error.status, error.message, code=error.code, param=error.param))

    def error(self, status: int, message: str, *, code: str | None = None, param: str | None = None) -> bytes:
        """The body of an error of our own."""
        return error_body(status, message, code=code, param=param)
