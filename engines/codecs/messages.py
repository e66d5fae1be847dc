"""`/v1/messages`: Anthropic's API, which vLLM and others speak, too. Its streams end with `message_stop`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import orjson

from engines.answers.answer import Assembled
from engines.answers.message import Message
from engines.answers.tail import Ends
from engines.chat import ChatRequest
from engines.codecs.codec import Codec
from engines.codecs.hearing_message import HearingMessage
from engines.codecs.message_answer import as_events
from engines.codecs.message_request import read_request, with_messages
from engines.codecs.saying_message import SayingMessage
from engines.errors import RequestError
from engines.loose_json import member
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


def _error(status: int, message: str, code: str | None) -> dict[str, Any]:
    kind = _TYPES.get(status, "invalid_request_error" if status < 500 else "api_error")
    return {"type": kind, "message": message} | ({"code": code} if code is not None else {})


def _broken_off(last: bytes, message: str, code: str) -> bytes:
    """Makes the event that tells a client that its stream broke off here."""
    return b"\n\n" + encode_typed({"type": "error", "error": _error(502, message, code)})


class Messages(Codec):
    """See Codec."""

    __slots__ = ()
    api = "messages"
    path = "/messages"
    merged = Message
    hearing = HearingMessage
    saying = SayingMessage
    ends = Ends(by_done=False, error_event=_broken_off)

    def read(self, body: bytes, fields: dict[str, Any]) -> ChatRequest:
        """See Codec."""
        return read_request(body, fields)

    def with_messages(self, chat: ChatRequest, messages: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """See Codec."""
        return with_messages(chat, messages)

    def refusal(self, chat: ChatRequest, assembled: Assembled) -> str | None:
        """See Codec."""
        if chat.state:
            return "stateful"
        blocks = member(assembled.own, "content")
        if not isinstance(blocks, list):
            return "not_only_messages"
        return None if all(member(block, "type") in _REPLAYED for block in blocks) else "not_only_messages"

    def events(self, stored: bytes, chat: ChatRequest) -> bytes:
        """See Codec."""
        return as_events(orjson.loads(stored))

    def failed(self, error: RequestError, *, number: int) -> bytes:
        """See Codec."""
        return encode_typed({"type": "error", "error": _error(error.status, error.message, error.code)})

    def error(self, status: int, message: str, *, code: str | None = None, param: str | None = None) -> bytes:
        """See Codec. Beside Anthropic's members it has OpenAI's `code`, which tells one reason from another."""
        return orjson.dumps({"type": "error", "error": _error(status, message, code)})


MESSAGES = Messages()
