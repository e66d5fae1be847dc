"""`/v1/chat/completions`: the codec whose words all others are translated to."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from engines.answers.choices import Choices
from engines.as_events import as_events
from engines.chat import ChatRequest
from engines.chat_json import read_chat_request
from engines.codecs.codec import Codec


class Chat(Codec):
    """See Codec."""

    __slots__ = ()
    api = "chat"
    path = "/chat/completions"
    merged = Choices

    read = staticmethod(read_chat_request)

    def changed(
        self,
        chat: ChatRequest,
        *,
        model: str | None = None,
        messages: Sequence[Mapping[str, Any]] | None = None,
    ) -> ChatRequest:
        """See Codec."""
        changes: dict[str, Any] = {} if model is None or model == chat.model else {"model": model}
        if messages is not None:
            changes["messages"] = list(messages)
        return chat.changed(changes) if changes else chat

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

    def events(self, stored: bytes, chat: ChatRequest) -> bytes:
        """See Codec."""
        return as_events(stored, include_usage=chat.include_usage)


CHAT = Chat()
