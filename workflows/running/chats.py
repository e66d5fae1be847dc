"""Bodies of chat completions: read from fields, and as a step asks them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import orjson

from engines.chat import ChatRequest
from engines.chat_json import read_chat_request


def chat_of(fields: Mapping[str, Any]) -> ChatRequest:
    """The typed view of a chat body. Raises RequestError."""
    try:
        body = orjson.dumps(fields)
    except TypeError:
        # Integers beyond 64 bits are legal in a body and must survive.
        body = json.dumps(fields, ensure_ascii=False, separators=(",", ":")).encode()
    return read_chat_request(body, dict(fields))


def streamed(chat: Mapping[str, Any]) -> dict[str, Any]:
    """A step's body as it is asked: as a stream that ends with its usage, unless it says that it wants none."""
    if chat.get("stream") is False:
        return dict(chat)
    options = chat.get("stream_options")
    return {
        **chat,
        "stream": True,
        "stream_options": {**(options if isinstance(options, dict) else {}), "include_usage": True},
    }
