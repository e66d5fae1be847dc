"""Tells whether a later turn of a conversation asks a question that stands for itself: a logistic regression.

Its weights were trained on recorded conversations by `python -m benchmarks.standalone`, which also tells how often it is
right: see docs/experiments/standalone.md.
"""

from __future__ import annotations

import asyncio
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

from engines.chat import message_text
from router.digest import is_follow_up, question
from router.embedding.embedder import Embedder, EmbedderError
from router.examples.rarity import Rarity
from store.records import Vector

LEAST = 0.7
"""Probability from which a question is taken to stand for itself."""
WEIGHTS: Mapping[str, float] = {
    "bias": -7.42,
    "telling_words": 0.29,
    "rarest_word": 5.5,
    "points": -1.28,
    "points_back": -0.8,
    "acknowledges": -1.24,
    "changes": -2.18,
    "names_what_was_said": -0.39,
    "like_first": 3.26,
    "like_previous": 0.81,
}
"""Of `features`, by name; `bias` is added."""
_READ_CHARACTERS = 2000
"""Of a question, and of the latest of what was said before it, that are read for words."""
_WORD = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)?|\d+")
_THE = re.compile(r"\b(?:the|our|my|these|those|this|that)\s+([^\W\d_]+)", re.IGNORECASE)


def _words(*lines: str) -> frozenset[str]:
    return frozenset(" ".join(lines).split())


_POINTING = _words("it its it's they them their he him his she her this that these those ones")
_BACK = _words(
    "same above previous previously earlier former latter again another other others more else instead such further",
    "continue rest also too",
)
_ACKNOWLEDGING = _words(
    "and or but so then ok okay yes no great good nice excellent thanks thank sure now finally however perfect cool wow"
)
_CHANGING = _words(
    "continue rewrite redo shorten shorter longer expand elaborate revise fix add include change modify improve remove",
    "replace convert make update summarize translate use go try show list",
)
_COMMON = _words(
    "a an the of to in on for with by from at as is are was were be been do does did how what which who whom whose when",
    "where why can could would should will may might i me my we our us you your yours not and or but if so than then into",
    "about over per via please give tell write create explain describe make list show help need want like have has had get",
    "use using",
)


def features(
    asked: str, before: str, rarity: Rarity, like_first: float, like_previous: float
) -> dict[str, float]:
    """What the test goes by, by name. `before`: what was said before. `like_first`, `like_previous`: the cosine of the
    question and the conversation's first one, and of the question and the one before it."""
    words = [word.lower() for word in _WORD.findall(asked[:_READ_CHARACTERS])]
    earlier = {word.lower() for word in _WORD.findall(before[-_READ_CHARACTERS:])}
    telling = {word for word in words if word not in _COMMON and word not in _POINTING and len(word) > 2}
    first = words[0] if words else ""
    named = [word.lower() for word in _THE.findall(asked[:_READ_CHARACTERS])]
    return {
        "bias": 1.0,
        "telling_words": math.log1p(len(telling)),
        "rarest_word": max(rarity.of(words).values(), default=0.0),
        "points": float(not _POINTING.isdisjoint(words)),
        "points_back": float(min(3, sum(word in _BACK for word in words))),
        "acknowledges": float(first in _ACKNOWLEDGING),
        "changes": float(first in _CHANGING),
        "names_what_was_said": float(min(3, sum(word in earlier for word in named))),
        "like_first": like_first,
        "like_previous": like_previous,
    }


def probability(found: Mapping[str, float]) -> float:
    """The probability, 0 to 1, that a question with these features stands for itself."""
    return 1.0 / (1.0 + math.exp(-sum(weight * found[name] for name, weight in WEIGHTS.items())))


class Standalone:
    """The test with what it needs. A question that is no follow-up, or of which nothing is known in time, does not pass."""

    def __init__(self, embedder: Embedder, rarity: Rarity) -> None:
        self._embedder = embedder
        self._rarity = rarity

    async def tells(self, messages: Sequence[Mapping[str, Any]]) -> bool:
        """Tell if a follow-up's question stands for itself."""
        texts = _questions(messages)
        try:
            vectors = await asyncio.gather(*map(self._embedder.embed, texts))
        except EmbedderError:
            return False
        return self._passes(messages, texts, vectors)

    def tells_blocking(self, messages: Sequence[Mapping[str, Any]]) -> bool:
        """The same, for threads other than the event loop's. Raises EmbedderError."""
        texts = _questions(messages)
        return self._passes(messages, texts, [self._embedder.embed_blocking(text) for text in texts])

    def _passes(
        self, messages: Sequence[Mapping[str, Any]], texts: Sequence[str], vectors: Sequence[Vector]
    ) -> bool:
        if not is_follow_up(messages) or len(texts) < 2:
            return False
        *earlier, asked = vectors
        before = " ".join(message_text(message.get("content")) for message in messages[:-1])
        like = [float(asked @ vector) for vector in (earlier[0], earlier[-1])]
        return probability(features(texts[-1], before, self._rarity, *like)) >= LEAST


def _questions(messages: Sequence[Mapping[str, Any]]) -> list[str]:
    """The first question of a conversation, the one before the last, and the last; those that are there, once each."""
    said = [message for message in messages if message.get("role") == "user"]
    texts = [message_text(message.get("content")).strip() for message in said]
    earlier = dict.fromkeys((*texts[:1], *texts[-2:-1]))
    return [text for text in (*earlier, question(messages, alone=True)) if text]
