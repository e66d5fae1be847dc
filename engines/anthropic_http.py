"""Anthropic's API over HTTP: openai_http with its key in `x-api-key`, and a version for those who named none.

A client's own `anthropic-version` and `anthropic-beta` travel as they came. Refuses to know what the bytes mean, but for
thinking that another engine answered with, and that Anthropic would refuse to read.
"""

from __future__ import annotations

from dataclasses import replace

from engines.chat import ChatRequest
from engines.codecs.message_request import without_unsigned
from engines.codecs.thinking import UNSIGNED
from engines.engine import EngineRequest
from engines.large_json import dumped
from engines.openai_http import Exchange, OpenAIHTTP

_VERSION = "anthropic-version"
_FIRST_VERSION = "2023-06-01"
"""What Anthropic's own clients send: the API refuses a request without one."""
_UNSIGNED = UNSIGNED.encode()


class AnthropicHTTP(OpenAIHTTP):
    """One server that speaks the Messages API."""

    key_header = "x-api-key"

    def stream(self, request: EngineRequest) -> Exchange:
        """See engines.engine.Engine.stream."""
        chat = request.chat
        if chat is not None and _UNSIGNED in chat.body:
            request = _signed(request, chat)
        if _VERSION not in request.headers:
            headers = request.headers.copy()
            headers[_VERSION] = _FIRST_VERSION
            request = replace(request, headers=headers)
        return super().stream(request)


def _signed(request: EngineRequest, chat: ChatRequest) -> EngineRequest:
    """The request without thinking that another engine answered with when it was asked (engines.translating)."""
    headers = request.headers.copy()
    for name in ("Content-Length", "Content-Encoding"):
        headers.popall(name, None)
    return replace(request, headers=headers, body=dumped(without_unsigned(chat.own_fields), like=chat.body))
