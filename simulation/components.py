"""Simulated components: they embed, rerank, search and answer as tools at a modelled pace, by the running loop's clock.

What they say depends on the texts alone. Vectors are sums of directions of words, so that texts with the same words are
near; scores are shares of words; hits and tools' answers say that they are simulated.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from engines.components.component import Ability, ComponentSpec, SimulatedPace
from engines.components.registry import Member
from engines.components.running import Answers, Ask, Portion
from engines.components.tool import Call

Row = npt.NDArray[np.float32]
_WORD = re.compile(r"\w+")
_COMMON = frozenset(
    _WORD.findall(
        "a an and are as at be by for from in is it of on or that the this to was what which who with"
    )
)


class SimulatedComponent:
    """All abilities of one. A request takes `fixed_s`, and `per_item_s` for each text or query in it."""

    def __init__(self, name: str, pace: SimulatedPace) -> None:
        self.name = name
        self._pace = pace

    def member(self, spec: ComponentSpec) -> Member:
        """As the registry takes it."""
        asks: Mapping[Ability, Ask[Any, Any]] = {
            "embed": self.embed,
            "rerank": self.rerank,
            "search": self.search,
            "tool": self.call,
        }
        return Member(spec.name, spec.limits, asks, lambda: f"simulated {self._pace.dimensions}")

    async def embed(self, portions: Sequence[Portion[str]]) -> Sequence[Answers[Row]]:
        """See engines.components.running.Ask."""
        await self._takes_time(portions)
        return [[_vector(text, self._pace.dimensions) for text in portion.items] for portion in portions]

    async def rerank(self, portions: Sequence[Portion[str]]) -> Sequence[Answers[float]]:
        """See engines.components.running.Ask: the share of the query's words that a text has."""
        await self._takes_time(portions)
        return [[_shared(portion.question, text) for text in portion.items] for portion in portions]

    async def search(self, portions: Sequence[Portion[str]]) -> Sequence[Answers[list[str]]]:
        """See engines.components.running.Ask."""
        await self._takes_time(portions)
        return [[_hits(query, portion.question) for query in portion.items] for portion in portions]

    async def call(self, portions: Sequence[Portion[Call]]) -> Sequence[Answers[str]]:
        """See engines.components.running.Ask: the arguments, as JSON."""
        await self._takes_time(portions)
        return [[self._said(call) for call in portion.items] for portion in portions]

    def _said(self, call: Call) -> str:
        return json.dumps(
            {"simulated": self.name, "args": dict(call.args)}, ensure_ascii=False, sort_keys=True
        )

    async def _takes_time(self, portions: Sequence[Portion[Any]]) -> None:
        items = sum(len(portion.items) for portion in portions)
        await asyncio.sleep(self._pace.fixed_s + self._pace.per_item_s * items)


def _words(text: str) -> list[str]:
    return [word for word in _WORD.findall(text.casefold()) if word not in _COMMON]


def _vector(text: str, dimensions: int) -> Row:
    total = np.zeros(dimensions)
    for word in _words(text) or [text]:
        total += _direction(word, dimensions)
    length = float(np.linalg.norm(total))
    return (total / length if length else _direction("", dimensions)).astype(np.float32)


@lru_cache(maxsize=4096)
def _direction(word: str, dimensions: int) -> npt.NDArray[np.float64]:
    seed = int.from_bytes(hashlib.blake2b(word.encode("utf-8", "replace"), digest_size=8).digest())
    return np.random.default_rng(seed).standard_normal(dimensions)


def _shared(query: str, text: str) -> float:
    asked = set(_words(query))
    return len(asked & set(_words(text))) / len(asked) if asked else 0.0


def _hits(query: str, k: int) -> list[str]:
    digest = hashlib.blake2b(query.encode("utf-8", "replace"), digest_size=4).hexdigest()
    return [f"Simulated hit {place} of a search for: {query} ({digest}-{place})" for place in range(1, k + 1)]
