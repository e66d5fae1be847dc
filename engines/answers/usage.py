"""Reads what an answer used out of what it tells, whichever API it came by: chat and text completions, embeddings,
Responses, Messages, images, transcriptions. Pure.

The APIs count differently. OpenAI's prompt tokens contain those read from a cache; Anthropic's `input_tokens` contain
neither those nor the ones written to one. Streams say it in their last events, piece by piece or all at once, in a chunk of
its own or in one that has content, too: what is said later adds to what was said before.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from engines.answers.terminal import choices_of
from engines.chat import Usage
from engines.loose_json import objects

_MOST = 10**12
"""More tokens than this are nonsense."""
_SAYING = frozenset({"prompt_tokens", "input_tokens", "completion_tokens", "output_tokens", "total_tokens"})
_CACHED = ("prompt_cache_hit_tokens", "cached_tokens")
"""Where DeepSeek and Moonshot tell what was read from a cache."""
_DETAILS = ("prompt_tokens_details", "input_tokens_details")
_NEVER_HOLDS = frozenset({"metadata", "usage", "delta"})
"""Members that may hold anything under the name `usage`."""


@dataclass(slots=True)
class Told:
    """What answers, or the events of one, have told so far."""

    usage: dict[str, Any] = field(default_factory=dict)
    """Their `usage` objects, one over the other."""
    service_tier: str = ""
    model: str = ""
    images: int = 0

    def hear(self, said: Any, choices: Sequence[Mapping[str, Any]] | None = None) -> bool:
        """Take note of an answer, or an event of a stream, as parsed JSON. Returns whether it told a usage. `choices`: its
        own, where they were looked up already.

        Usage stands at the top; in the `response` or `message` of an event; in the last choice (Moonshot); or under a
        member of the provider's own (`x_groq`). What the top says goes over what the others say.
        """
        if not isinstance(said, dict):
            return False
        inside = [
            holder for name, holder in said.items() if name not in _NEVER_HOLDS and isinstance(holder, dict)
        ]
        choices = choices_of(said) if choices is None else choices
        told = [self._hear(holder) for holder in (*inside, *choices, said)]
        self.images += _images(said)
        return any(told)

    def _hear(self, holder: Mapping[str, Any]) -> bool:
        usage = holder.get("usage")
        usage = usage if isinstance(usage, dict) else {}
        if usage:
            self.usage |= {n: value for n, value in usage.items() if value is not None or n not in self.usage}
        for tier in (holder.get("service_tier"), usage.get("service_tier")):
            if isinstance(tier, str) and tier:
                self.service_tier = tier[:64]
        model = holder.get("model")
        if isinstance(model, str) and model:
            self.model = model[:256]
        return not _SAYING.isdisjoint(usage)

    def amounts(self) -> Usage | None:
        """What it used; None where nothing was told of it that can be read."""
        found = _tokens(self.usage)
        if found is None:
            return Usage(0, 0, images=self.images, service_tier=self.service_tier) if self.images else None
        prompt, completion, cached, written = found
        estimated = self.usage.get("estimated") is True
        for_an_hour = _written_for_an_hour(self.usage, written) if written else 0
        return Usage(
            *(prompt, completion, cached, estimated, written),
            images=self.images,
            service_tier=self.service_tier,
            cache_write_1h_tokens=for_an_hour,
        )


def usage_of(answer: Mapping[str, Any]) -> Usage | None:
    """Read what a whole answer says it used, whichever API's it is; None if it does not say, or nothing that can be read."""
    told = Told()
    told.hear(answer)
    return told.amounts()


def _tokens(usage: Mapping[str, Any]) -> tuple[int, int, int, int] | None:
    """(prompt, completion, read from a cache, written to one)."""
    prompt = _count(usage.get("prompt_tokens", usage.get("input_tokens", 0)))
    completion = _count(usage.get("completion_tokens", usage.get("output_tokens", 0)))
    if prompt is None or completion is None or _SAYING.isdisjoint(usage):
        return None
    total = _count(usage.get("total_tokens")) or 0
    if "prompt_tokens" not in usage and "input_tokens" not in usage:
        # Some tell the sum and one part of it, or the sum alone.
        prompt = max(0, total - completion)
    read = _count(usage.get("cache_read_input_tokens"))
    written = _count(usage.get("cache_creation_input_tokens"))
    if "prompt_tokens" not in usage and (read is not None or written is not None):
        return _anthropics(prompt, completion, total, read, written)
    details = next((told for name in _DETAILS if isinstance(told := usage.get(name), dict)), {})
    cached = _count(details.get("cached_tokens"))
    if cached is None:
        cached = _told_beside(usage, read or 0)
    cached = min(cached, prompt)
    written = _count(details.get("cache_write_tokens")) or written or 0
    # What the sum holds beyond the prompt is output: xAI and Gemini tell their reasoning beside `completion_tokens`.
    return prompt, max(completion, total - prompt), cached, min(written, prompt - cached)


def _anthropics(
    prompt: int, completion: int, total: int, read: int | None, written: int | None
) -> tuple[int, int, int, int]:
    """The same of Anthropic's: no tokens of its cache are in `input_tokens`."""
    read, written = read or 0, written or 0
    prompt += read + written
    return prompt, max(completion, total - prompt), read, written


def _written_for_an_hour(usage: Mapping[str, Any], written: int) -> int:
    """The tokens that Anthropic's cache keeps for an hour, of those written to it."""
    kinds = usage.get("cache_creation")
    kept = _count(kinds.get("ephemeral_1h_input_tokens")) if isinstance(kinds, dict) else None
    return min(kept or 0, written)


def _told_beside(usage: Mapping[str, Any], otherwise: int) -> int:
    """The tokens read from a cache, as some tell them beside the details."""
    for name in _CACHED:
        cached = _count(usage.get(name))
        if cached is not None:
            return cached
    return otherwise


def _count(value: Any) -> int | None:
    """A number of tokens; None for what is none."""
    if value is None:
        return None
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= _MOST:
        return None
    return value


def _images(said: Mapping[str, Any]) -> int:
    data = said.get("data")
    if isinstance(data, list):
        return sum(not one.keys().isdisjoint(("b64_json", "url")) for one in objects(data))
    return int(said.get("type") in ("image_generation.completed", "image_edit.completed"))


def as_chat_tells(told: Told) -> dict[str, Any]:
    """The members by which a chat completion tells the same: `usage` and `service_tier`, as far as they were told."""
    used = told.amounts()
    members: dict[str, Any] = {"service_tier": told.service_tier} if told.service_tier else {}
    if used is None:
        return members
    return members | {"usage": chat_usage(used)}


def chat_usage(used: Usage, reasoning_tokens: int = 0) -> dict[str, Any]:
    """The member `usage` of chat completions."""
    details = {"cached_tokens": used.cached_tokens, "cache_write_tokens": used.cache_write_tokens}
    thought = {"completion_tokens_details": {"reasoning_tokens": reasoning_tokens}}
    return {
        "prompt_tokens": used.prompt_tokens,
        "completion_tokens": used.completion_tokens,
        "total_tokens": used.tokens,
        "prompt_tokens_details": details,
        **(thought if reasoning_tokens else {}),
        **beside_counts(used),
    }


def beside_counts(used: Usage) -> dict[str, Any]:
    """Members of a usage, in any API, that few have: what Anthropic's cache keeps for an hour, and that it is estimated."""
    tokens = used.cache_write_1h_tokens
    kept = {"cache_creation": {"ephemeral_1h_input_tokens": tokens}} if tokens else {}
    return kept | ({"estimated": True} if used.estimated else {})
