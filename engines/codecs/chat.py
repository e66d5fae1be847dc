"""`/v1/chat/completions`: the codec whose words all others are translated to."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import orjson

from engines.answers.answer import Assembled, Body
from engines.answers.choices import Choices
from engines.answers.tail import Tail, tail_of
from engines.apis import Api
from engines.as_events import as_events
from engines.chat import ChatRequest
from engines.chat_json import read_chat_request
from engines.error_body import error_body


class Chat:
    """See engines.codecs.codec.Codec."""

    __slots__ = ()
    api: Api = "chat"
    path = "/chat/completions"

    def read(self, body: bytes, fields: dict[str, Any]) -> ChatRequest:
        """See Codec."""
        return read_chat_request(body, fields)

    def changed(
        self,
        chat: ChatRequest,
        *,
        model: str | None = None,
        messages: Sequence[Mapping[str, Any]] | None = None,
    ) -> ChatRequest:
        """See Codec."""
        return chat.rewritten(model=model, messages=messages)

    def again(
        self,
        chat: ChatRequest,
        messages: Sequence[Mapping[str, Any]],
        *,
        without: frozenset[str],
        max_tokens: int,
    ) -> ChatRequest:
        """See Codec."""
        fields = {name: value for name, value in chat.fields.items() if name not in without}
        name = "max_completion_tokens" if fields.get("max_completion_tokens") is not None else "max_tokens"
        made = {**fields, name: max_tokens, "messages": list(messages), "stream": False}
        body = json.dumps(made, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")
        return ChatRequest(
            body, made, str(made.get("model", "")), made["messages"], stream=False, include_usage=False
        )

    def tail(self, headers: Mapping[str, str], choices: int = 1) -> Tail | None:
        """See Codec."""
        return tail_of(headers, choices)

    def assembled(self, body: Body) -> Assembled | None:
        """See Codec."""
        return body.read(Choices)

    def stored(self, assembled: Assembled) -> bytes:
        """See Codec."""
        return orjson.dumps(assembled.completion)

    def refusal(self, chat: ChatRequest, assembled: Assembled) -> str | None:
        """See Codec."""
        return None

    def replayed(self, stored: bytes, chat: ChatRequest) -> bytes:
        """See Codec."""
        return stored

    def events(self, stored: bytes, chat: ChatRequest) -> bytes:
        """See Codec."""
        return as_events(stored, include_usage=chat.include_usage)

    def error(self, status: int, message: str, *, code: str | None = None, param: str | None = None) -> bytes:
        """See Codec."""
        return error_body(status, message, code=code, param=param)


CHAT = Chat()
