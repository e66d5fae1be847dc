"""Requests with the most output that their limits allow written into them, for each API in its own field."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import orjson

from engines.codecs.table import codec_of
from router.asked import Asked

TELLS_USAGE_IF_ASKED = frozenset({"chat", "completions"})
"""APIs whose streams tell their usage only where `stream_options.include_usage` asks for it."""


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
