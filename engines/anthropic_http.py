"""Anthropic's API over HTTP: openai_http with its key in `x-api-key`, and a version for those who named none.

A client's own `anthropic-version` and `anthropic-beta` travel as they came. Refuses to know what the bytes mean.
"""

from __future__ import annotations

from dataclasses import replace

from engines.engine import EngineRequest
from engines.openai_http import Exchange, OpenAIHTTP

_VERSION = "anthropic-version"
_FIRST_VERSION = "2023-06-01"
"""What Anthropic's own clients send: the API refuses a request without one."""


class AnthropicHTTP(OpenAIHTTP):
    """One server that speaks the Messages API."""

    key_header = "x-api-key"

    def stream(self, request: EngineRequest) -> Exchange:
        """See engines.engine.Engine.stream."""
        if _VERSION not in request.headers:
            headers = request.headers.copy()
            headers[_VERSION] = _FIRST_VERSION
            request = replace(request, headers=headers)
        return super().stream(request)
