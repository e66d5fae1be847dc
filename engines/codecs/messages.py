"""`/v1/messages`: Anthropic's API, which vLLM and others speak, too. Its streams end with `message_stop`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import orjson

from engines.answers.answer import Assembled, Body
from engines.answers.message import Message
from engines.answers.tail import InflatedTail, Tail, tail_of
from engines.apis import Api
from engines.chat import ChatRequest
from engines.codecs.message_answer import as_events
from engines.codecs.message_request import read_request, with_messages
from engines.large_json import dumped
from engines.sse import encode_typed

_REPLAYED = frozenset({"text", "thinking", "redacted_thinking", "tool_use"})
"""Blocks of answers that are said by the model alone."""
_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    503: "overloaded_error",
    504: "timeout_error",
    529: "overloaded_error",
}


class Messages:
    """See engines.codecs.codec.Codec."""

    __slots__ = ()
    api: Api = "messages"
    path = "/messages"

    def read(self, body: bytes, fields: dict[str, Any]) -> ChatRequest:
        """See Codec."""
        return read_request(body, fields)

    def changed(
        self,
        chat: ChatRequest,
        *,
        model: str | None = None,
        messages: Sequence[Mapping[str, Any]] | None = None,
    ) -> ChatRequest:
        """See Codec."""
        same_model = model is None or model == chat.model
        if same_model and messages is None:
            return chat
        fields = dict(chat.own_fields) if messages is None else with_messages(chat, messages)
        if not same_model:
            fields["model"] = model
        return read_request(dumped(fields, like=chat.body), fields)

    def again(
        self,
        chat: ChatRequest,
        messages: Sequence[Mapping[str, Any]],
        *,
        without: frozenset[str],
        max_tokens: int,
    ) -> ChatRequest:
        """See Codec."""
        fields = dict(chat.own_fields) if messages is chat.messages else with_messages(chat, messages)
        kept = {name: value for name, value in fields.items() if name not in without}
        kept |= {"stream": False, "max_tokens": max_tokens}
        return read_request(dumped(kept, like=chat.body), kept)

    def tail(self, headers: Mapping[str, str], choices: int = 1) -> Tail | None:
        """See Codec."""
        tail = tail_of(headers)
        if tail is None:
            return None
        return InflatedMessageTail() if isinstance(tail, InflatedTail) else MessageTail()

    def assembled(self, body: Body) -> Assembled | None:
        """See Codec."""
        return body.read(Message)

    def stored(self, assembled: Assembled) -> bytes:
        """See Codec."""
        return orjson.dumps(assembled.own)

    def refusal(self, chat: ChatRequest, assembled: Assembled) -> str | None:
        """See Codec."""
        if chat.state:
            return "stateful"
        blocks = assembled.own.get("content") if assembled.own is not None else None
        if not isinstance(blocks, list) or any(
            not isinstance(block, dict) or block.get("type") not in _REPLAYED for block in blocks
        ):
            return "not_only_messages"
        return None

    def replayed(self, stored: bytes, chat: ChatRequest) -> bytes:
        """See Codec."""
        return stored

    def events(self, stored: bytes, chat: ChatRequest) -> bytes:
        """See Codec."""
        return as_events(orjson.loads(stored))

    def error(self, status: int, message: str, *, code: str | None = None, param: str | None = None) -> bytes:
        """See Codec. Beside Anthropic's members it has OpenAI's `code`, which tells one reason from another."""
        return orjson.dumps({"type": "error", "error": _error(status, message, code)})


def _error(status: int, message: str, code: str | None) -> dict[str, Any]:
    kind = _TYPES.get(status, "invalid_request_error" if status < 500 else "api_error")
    return {"type": kind, "message": message} | ({"code": code} if code is not None else {})


class _Ends:
    """How a stream of this API ends."""

    __slots__ = ()

    def done(self) -> bool:
        """Whether the last that came is the last that can come: nothing follows `message_stop`, or an error."""
        return self.finished()  # type: ignore[attr-defined,no-any-return]

    def error_event(self, message: str, code: str) -> bytes:
        """What tells a client that the stream broke off here."""
        event = {"type": "error", "error": _error(502, message, code)}
        return b"\n\n" + encode_typed(event)


class MessageTail(_Ends, Tail):
    """See engines.sse.Tail."""

    __slots__ = ()


class InflatedMessageTail(_Ends, InflatedTail):
    """See engines.sse.InflatedTail."""

    __slots__ = ()


MESSAGES = Messages()
