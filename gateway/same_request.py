"""What makes two requests the same, beside tenant and body: where they go, and what their headers say.

And which requests want an answer of their own, however often they are asked. Pure functions.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from multidict import MultiMapping

from engines.chat import ChatRequest
from engines.headers import CREDENTIALS
from gateway.keys import credentials
from store.records import ExactAnswer

NOT_IN_THE_KEY = frozenset(
    {
        # How the message travels, and who carries it.
        "accept",
        "accept-encoding",
        "cache-control",
        "content-encoding",
        "content-length",
        "content-type",
        "date",
        "dnt",
        "forwarded",
        "idempotency-key",
        "origin",
        "pragma",
        "priority",
        "referer",
        "user-agent",
        "via",
        "x-real-ip",
        # Tracing.
        "b3",
        "baggage",
        "sentry-trace",
        "traceparent",
        "tracestate",
        "uber-trace-id",
        "x-amzn-trace-id",
        "x-client-request-id",
        "x-cloud-trace-context",
        "x-correlation-id",
        "x-request-id",
    }
)
"""Headers that do not change what a model answers, in lower case; docs/explanation/caching.md lists them."""
PREFIXES_NOT_IN_THE_KEY = ("sec-", "x-b3-", "x-datadog-", "x-forwarded-", "x-stainless-")

_CREDENTIALS = frozenset(map(str.lower, CREDENTIALS))

ONLY_KEPT_BY_OPENAI = frozenset({"metadata"})
"""Body fields that OpenAI and Anthropic only store, and that change no answer there; another upstream may act on them."""


def endpoint(target: str, headers: MultiMapping[str]) -> str:
    """Path and query (an API version, say), every header that travels upstream, but those listed above, and the credentials.

    The same tenant may have several of those for one upstream.
    """
    said = [(lower, value) for name, value in headers.items() if (lower := _counted(name))]
    # Stable: repeated ones stay in their order. No value holds a line break.
    said.sort(key=lambda header: header[0])
    return "\n".join([target, credentials(headers) or "", *(f"{name}:{value}" for name, value in said)])


def wants_variety(fields: Mapping[str, Any]) -> bool:
    """Whether the same request, asked again, is meant to get another answer: it is sampled, and fixes no seed."""
    if fields.get("seed") is not None:
        return False
    temperature = fields.get("temperature")
    if temperature is None:
        return fields.get("n") not in (None, 1)
    return not (isinstance(temperature, int | float) and temperature <= 0)


@lru_cache(maxsize=1024)
def _counted(name: str) -> str:
    """The header's name in lower case; nothing for one that does not count, or that is read as a credential."""
    lower = name.lower()
    left_out = lower in NOT_IN_THE_KEY or lower in _CREDENTIALS or lower.startswith(PREFIXES_NOT_IN_THE_KEY)
    return "" if left_out else lower


def tells_enough(answer: ExactAnswer, chat: ChatRequest) -> bool:
    """Whether a replay has all that was asked for: a replay never says what no engine said."""
    return not (chat.stream and chat.include_usage and answer.usage_estimated)
