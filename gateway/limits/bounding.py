"""Requests with the most output that their limits allow written into them, for each API in its own field."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import orjson

from engines.chat import ChatRequest
from engines.codecs.table import codec_of
from engines.large_json import dumped
from router.asked import Asked

_TELLS_USAGE_IF_ASKED = frozenset({"chat", "completions"})
"""APIs whose streams tell their usage only where `stream_options.include_usage` asks for it."""


def asking_for_usage(api: str, fields: Mapping[str, Any]) -> dict[str, Any]:
    """What makes a body ask for its stream's usage; empty if it does, or if there is nothing to ask for."""
    options = fields.get("stream_options")
    options = options if isinstance(options, dict) else {}
    if api not in _TELLS_USAGE_IF_ASKED or fields.get("stream") is not True or options.get("include_usage"):
        return {}
    return {"stream_options": {**options, "include_usage": True}}


def not_asking_for_usage(chat: ChatRequest) -> ChatRequest:
    """The same chat completion without a wish for its usage; itself if it has none."""
    if not chat.include_usage:
        return chat
    options = {
        name: value for name, value in chat.fields["stream_options"].items() if name != "include_usage"
    }
    fields = {name: value for name, value in chat.fields.items() if name != "stream_options"}
    fields |= {"stream_options": options} if options else {}
    return replace(chat, body=dumped(fields, like=chat.body), fields=fields, include_usage=False)


def bounded(asked: Asked, changes: Mapping[str, Any]) -> Asked:
    """The same request with other values for some fields of its body."""
    chat, headers = asked.chat, asked.headers.copy()
    headers.popall("Content-Length", None)
    headers.popall("Content-Encoding", None)
    if chat.raw is None:
        return replace(asked, chat=chat.changed(changes), headers=headers)
    fields = {**chat.own_fields, **changes}
    read = codec_of(chat).read(orjson.dumps(fields), fields)
    return replace(asked, chat=replace(read, state=chat.state), headers=headers)
