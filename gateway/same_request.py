"""What makes two requests the same, beside tenant and body: where they go, and what their headers say.

And which requests want an answer of their own, however often they are asked.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

from multidict import MultiMapping

from engines.chat import ChatRequest
from engines.headers import CREDENTIALS
from gateway.keys import credentials
from store.records import ExactAnswer

if TYPE_CHECKING:
    from gateway.unique_headers import SeenHeaders

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
        "x-goog-api-client",
        "x-idempotency-key",
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
"""Headers that change no answer, whoever gives it, in lower case; docs/explanation/caching.md lists them."""
PREFIXES_NOT_IN_THE_KEY = ("sec-", "x-b3-", "x-datadog-", "x-stainless-")
IN_THE_KEY = frozenset({"api-version", "x-api-version", "extra-parameters"})
PREFIXES_IN_THE_KEY = ("openai-", "anthropic-", "x-goog-")
"""Headers that are known to change answers, in lower case."""
_IDENTITY = re.compile(
    r"auth(?!ority)|cookie|credential|consumer|customer|e-?mail|group|identity|jwt|(?<!port)key|oidc|organi[sz]ation|principal"
    r"|project|account|secret|team|tenant|token|user|workspace"
)
"""Names of headers that may say who asks, or on whose account: what is answered to one is never given to another."""
_AFTER_IDENTITY = ("x-forwarded-",)
"""Headers that change no answer, but for those that say who asks (`x-forwarded-email`)."""

_PERSON = b"understudy-heads"
_CREDENTIALS = frozenset(map(str.lower, CREDENTIALS))

ONLY_KEPT_BY_OPENAI = frozenset({"metadata"})
"""Body fields that OpenAI and Anthropic only store, and that change no answer there; another upstream may act on them."""


class SameRequest:
    """Tells which headers count, one for all of a gateway's requests. For the event loop's thread only, but `endpoint`."""

    def __init__(self, always: Iterable[str] = (), seen: SeenHeaders | None = None) -> None:
        """`always`: further names of headers that count. `seen` learns which are new every time; None: nobody does."""
        self._always = frozenset(name.lower() for name in always)
        self._seen = seen
        self._known = lru_cache(maxsize=1024)(self._counts_always)

    def endpoint(self, target: str, headers: MultiMapping[str]) -> str:
        """Path and query (an API version, say), and the credentials.

        The same tenant may have several of those for one upstream.
        """
        return f"{target}\n{credentials(headers) or ''}"

    def counted(self, headers: MultiMapping[str], *, others: bool) -> dict[str, str]:
        """The headers that count beside the credentials, by name in lower case. `others`: not only those that are known to
        change answers."""
        said: dict[str, str] = {}
        for name, value in headers.items():
            counts = self._known(name)
            if counts or (others and counts is None and not self._dropped(name)):
                lower = name.lower()
                said[lower] = f"{said[lower]}\n{value}" if lower in said else value
        return said

    def key(self, otherwise: bytes, headers: MultiMapping[str], *, others: bool) -> bytes:
        """The key of a request that is `otherwise` without its headers."""
        said = self.counted(headers, others=others)
        if not said:
            return otherwise
        if self._seen is not None:
            self._seen.note(otherwise, said, lambda name: self._known(name) is None)
        told = _line(said).encode("utf-8", "surrogatepass")
        return blake2b(otherwise + told, digest_size=32, person=_PERSON).digest()

    def told(self, target: str, headers: MultiMapping[str], *, others: bool) -> str:
        """Path, query, credentials and all headers that count."""
        return f"{self.endpoint(target, headers)}\n{_line(self.counted(headers, others=others))}"

    def _dropped(self, name: str) -> bool:
        return self._seen is not None and name.lower() in self._seen.dropped

    def _counts_always(self, name: str) -> bool | None:
        """Whether a header of this name counts, wherever it goes; None: only if it goes where nobody knows what it does."""
        lower = name.lower()
        if lower in self._always:
            return True
        if lower in NOT_IN_THE_KEY or lower in _CREDENTIALS or lower.startswith(PREFIXES_NOT_IN_THE_KEY):
            return False
        if lower in IN_THE_KEY or lower.startswith(PREFIXES_IN_THE_KEY) or _IDENTITY.search(lower):
            return True
        return False if lower.startswith(_AFTER_IDENTITY) else None


def wants_variety(fields: Mapping[str, Any]) -> bool:
    """Whether the same request, asked again, is meant to get another answer: it is sampled, and fixes no seed."""
    if fields.get("seed") is not None:
        return False
    temperature = fields.get("temperature")
    if temperature is None:
        return fields.get("n") not in (None, 1)
    return not (isinstance(temperature, int | float) and temperature <= 0)


def may_be_replayed(chat: ChatRequest, *, sampled: bool) -> bool:
    """Whether a remembered answer may stand for a fresh one. `sampled`: also where the request wants variety."""
    return not chat.state and (sampled or not wants_variety(chat.own_fields))


def tells_enough(answer: ExactAnswer, chat: ChatRequest) -> bool:
    """Whether a replay has all that was asked for: a replay never says what no engine said."""
    return not (chat.stream and chat.include_usage and answer.usage_estimated)


def _line(said: Mapping[str, str]) -> str:
    # No value holds a line break but between repeated headers, which stay in their order.
    return "\n".join([f"{name}:{said[name]}" for name in sorted(said)])
