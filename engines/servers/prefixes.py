"""Beginnings of prompts are believed to be in the prefix cache of the server, or the provider, that they were sent to.

A prompt is known by hashes at the ends of its messages and at the boundaries of its variables (Parrot, OSDI 2024, section
5.3): there, and hardly anywhere else, two prompts of an application part. Whether the server still has one is not asked but
reckoned: it forgets what was used least recently, as vLLM does, and a provider what was not used for its time to live. To be
wrong costs the computing of a prefix, no more.
"""

from __future__ import annotations

import math
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

import orjson

from engines.chat import CHARACTERS_PER_TOKEN, ChatRequest, message_text

LEAST_TOKENS = 64
"""A shorter prefix is computed sooner than it is thought about; vLLM shares whole blocks of 16 tokens only."""
_MOST_POINTS = 64
"""Of one prompt; of more, the first half and the last."""
_MESSAGE_TOKENS = 4
"""That a chat template puts around a message, roughly."""
_SHAPING = ("tools", "functions", "chat_template", "chat_template_kwargs")
"""Fields that change the prompt before its first message."""


@dataclass(frozen=True, slots=True)
class Prefix:
    """The beginning of a prompt."""

    digest: bytes
    """16 bytes."""
    tokens: int
    """Estimated, from the prompt's start."""


def prefixes_of(
    chat: ChatRequest,
    boundaries: Sequence[tuple[int, int]] = (),
    tenant: str = "",
    least_tokens: int = LEAST_TOKENS,
) -> tuple[Prefix, ...]:
    """The prefixes of a chat request as it is sent, the shortest first; the last is its whole prompt.

    `boundaries`: see engines.placement.Placement, of the messages as they are sent; one at the very end of a text gives the
    prefix that a longer text has there. Prefixes below `least_tokens` are left out. Equal only within a tenant. Time is
    linear in the prompt: 1 ms for about 1 MB.
    """
    digest = blake2b(digest_size=16, person=b"prompt prefix")
    _feed(digest, tenant, chat.model)
    characters = 0
    for name in _SHAPING:
        if value := chat.fields.get(name):
            characters += _feed_json(digest, value)
    points: list[Prefix] = []
    offsets: dict[int, list[int]] = {}
    for index, offset in boundaries:
        offsets.setdefault(index, []).append(offset)
    for index, message in enumerate(chat.messages):
        for added in _message(digest, message, offsets.get(index, ())):
            characters += added
            tokens = characters // CHARACTERS_PER_TOKEN + _MESSAGE_TOKENS * (index + 1)
            if tokens >= least_tokens:
                points.append(Prefix(digest.copy().digest(), tokens))
    if len(points) > _MOST_POINTS:
        points = points[: _MOST_POINTS // 2] + points[-_MOST_POINTS // 2 :]
    return tuple(points)


class PrefixTable:
    """The beginnings that one cache is believed to hold. Bounded by its tokens, by `most` entries, and by their age."""

    def __init__(
        self,
        capacity_tokens: float,
        most: int = 4096,
        *,
        ttl_s: float = math.inf,
        least_tokens: int = 0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`ttl_s`: a beginning that was not used for so long is gone. `least_tokens`: a shorter one is not cached."""
        self.capacity_tokens = capacity_tokens
        """Of the server's key-value memory."""
        self._most = most
        self._ttl_s = ttl_s
        self._least_tokens = least_tokens
        self._clock = clock
        self._tokens = 0
        self._held: OrderedDict[bytes, tuple[int, float]] = OrderedDict()
        """Tokens of each beyond those of the one before it, and when it was used; the least recently used first."""

    def __len__(self) -> int:
        return len(self._held)

    def cached_tokens(self, prefixes: Sequence[Prefix]) -> int:
        """How much of a prompt is there: the longest of its prefixes that is known."""
        held, oldest = self._held, self._clock() - self._ttl_s
        for prefix in reversed(prefixes):
            if prefix.tokens < self._least_tokens:
                return 0
            found = held.get(prefix.digest)
            if found is not None and found[1] >= oldest:
                return prefix.tokens
        return 0

    def sent(self, prefixes: Sequence[Prefix], tokens: int) -> None:
        """A prompt goes there now; `tokens` it will hold at its end, its answer included."""
        if not prefixes:
            return
        now = self._clock()
        # The answer is in the same memory; nobody asks for it by this name.
        self._hold(prefixes[-1].digest + b"answer", max(0, tokens - prefixes[-1].tokens), now)
        # The longest first: a prefix is forgotten later than what goes on from it.
        for at in range(len(prefixes) - 1, -1, -1):
            before = prefixes[at - 1].tokens if at else 0
            self._hold(prefixes[at].digest, prefixes[at].tokens - before, now)
        while self._held and (self._tokens > self.capacity_tokens or len(self._held) > self._most):
            self._tokens -= self._held.popitem(last=False)[1][0]

    def forget(self) -> None:
        """The server was down: it comes back with nothing."""
        self._held.clear()
        self._tokens = 0

    def _hold(self, digest: bytes, tokens: int, now: float) -> None:
        self._tokens += tokens - self._held.pop(digest, (0, 0.0))[0]
        self._held[digest] = tokens, now


def _message(digest: blake2b, message: Mapping[str, Any], offsets: Sequence[int]) -> Iterator[int]:
    """Feed a message; yields at each of its boundaries, and at its end, the characters that were fed since the last."""
    content = message.get("content")
    _feed(digest, str(message.get("role")))
    text, at = message_text(content), 0
    for offset in offsets:
        if at < offset <= len(text):
            yield _feed_text(digest, text[at:offset])
            at = offset
    added = _feed_text(digest, text[at:])
    rest: dict[str, Any] = {name: value for name, value in message.items() if name not in ("role", "content")}
    if isinstance(content, list):
        rest["parts"] = [part for part in content if not _is_text(part)]
    if any(rest.values()):
        added += _feed_json(digest, rest)
    _feed(digest, "")
    yield added


def _is_text(part: Any) -> bool:
    return isinstance(part, Mapping) and part.get("type") == "text"


def _feed(digest: blake2b, *names: str) -> None:
    """Short texts, each with an end that no text holds."""
    for name in names:
        _feed_text(digest, name)
        digest.update(b"\xff")


def _feed_text(digest: blake2b, text: str) -> int:
    digest.update(text.encode("utf-8", "surrogatepass"))
    return len(text)


def _feed_json(digest: blake2b, value: Any) -> int:
    try:
        written = orjson.dumps(value)
    except TypeError:
        # Integers beyond 64 bits, lone surrogates.
        written = repr(value).encode("utf-8", "backslashreplace")
    digest.update(b"\xfe")
    digest.update(written)
    return len(written)
