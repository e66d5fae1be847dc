"""Computes the named features of a request and its candidates that a scorer reads, the same for serving and for training.

They are logged with the decision and trained on as logged. A change of what a feature means must raise VERSION: models of
another version are refused.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import isfinite, log1p
from sys import intern
from typing import TYPE_CHECKING

import numpy as np

from router.examples.fusion import fused_scores, ranks
from router.examples.rarity import Rarity
from router.plan import Candidate
from store.examples.accounting import decayed
from store.records import Example, Vector

if TYPE_CHECKING:
    import numpy.typing as npt

    Floats = npt.NDArray[np.float32]

VERSION = "11"

NAMES: tuple[str, ...] = (
    "similarity",  # cosine of the two questions
    "similarity_lost",  # against the nearest candidate
    "similarity_rank",  # 1 for the nearest, 1/2, 1/3 ...
    "words",  # BM25 of the two questions, as a share of the best candidate's
    "words_rank",  # as similarity_rank; 0 for what was not found by words
    "fused",  # reciprocal rank fusion of both, as a share of the best candidate's
    "answer_similarity",  # cosine of the request and the example's answer; where that is unknown, the others' mean
    "request_answered",  # share of the request's words that the example's answer says, weighted by rarity
    "request_covered",  # share of the request's words that the example's question says, weighted by rarity
    "question_covered",  # share of the question's words that the request says
    "numbers",  # 1: both texts hold the same numbers, -1: others, 0: neither holds any
    "code",  # the same of words that hold digits, signs or inner capitals
    "request_length",  # logarithms of characters
    "question_length",
    "answer_length",
    "agreement",  # mean likeness of the answer to the other candidates' answers
    "agreement_near",  # the same, weighted by the reciprocal ranks of the others
    "quality",  # mean of the answer's judgements; 1/2 without any
    "gain",  # past gain, decayed to now, x / (1 + x)
    "age",  # logarithm of days
    "demonstration",
    "flagged",
    "from_reference",  # the reference engine wrote the answer
    "merged",  # logarithm of how many agreeing pairs it stands for
)
"""One name per column."""

PLACE = {name: i for i, name in enumerate(NAMES)}
"""Column by name."""

_WORD = re.compile(r"\w+")
_CODE = re.compile(
    r"[^\s]*(?:[A-Za-z][0-9_./\\@$=<>{}~^|*:#+-]+[A-Za-z0-9]|[a-z][A-Z]|[0-9][A-Za-z]|--?[A-Za-z])[^\s]*"
)
_NUMBER = re.compile(r"\d+(?:[.,:]\d+)*")
_LIKENESS_DIMENSIONS = 128
"""The dimensions of an answer's words as a hashed bag: answers are compared by their cosine."""
_LONGEST = 2000
"""Characters of a text that are read."""


@dataclass(frozen=True, slots=True)
class RequestView:
    """A request as the scorer sees it."""

    text: str
    """The embedded text: router.digest.question."""
    vector: Vector
    """Unit length, (dimensions,)."""
    reference_engine: str = ""
    """The served model's largest engine."""


@dataclass(frozen=True, slots=True)
class _Read:
    """The words and numbers that are read from a text."""

    words: dict[str, float]
    """Each word in lower case with its rarity."""
    weight: float
    numbers: frozenset[str]
    code: frozenset[str]
    length: float


@dataclass(frozen=True, slots=True)
class _Pair:
    """The features that are read from an example."""

    question: _Read
    answer_words: Mapping[str, object]
    """The words that are the keys: a dictionary of these takes a quarter of a set's memory."""
    answer_length: float
    likeness: Floats
    """The answer's words as a hashed bag of unit length, (_LIKENESS_DIMENSIONS,)."""


class Features:
    """Computes the features. Thread-safe; what was read of examples is cached by a hash of 64 bits of their texts."""

    def __init__(self, rarity: Rarity, cache_entries: int = 4_000, cache_words: int = 400_000) -> None:
        """Set up caches for so many examples, and for texts of so many words in all.

        Some 1.4 KB of each example and 25 bytes of each word, 16 MB together; 40 MB if every word is another.
        """
        self.rarity = rarity
        self._pairs: dict[int, _Pair] = {}
        self._former: dict[int, _Pair] = {}
        """Those before them: what is asked for again moves over, and the rest is dropped with the next change."""
        self._words = 0
        """The words in `_pairs`."""
        self._most, self._most_words = max(1, cache_entries // 2), cache_words // 2

    def rows(self, request: RequestView, candidates: Sequence[Candidate], now_s: float) -> Floats:
        """One row per candidate, shape (candidates, len(NAMES)), all finite."""
        if not candidates:
            return np.zeros((0, len(NAMES)), np.float32)
        asked, pairs = self._read(request.text), [self._pair(c.example) for c in candidates]
        similarity, words = [c.similarity for c in candidates], [c.words for c in candidates]
        near, worded = ranks(similarity), ranks(words)
        by_place, fused = [1.0 / (1 + place) for place in near], fused_scores(near, worded)
        best, best_words, best_fused = max(similarity), max(words) or 1.0, max(fused)
        agreement, agreement_near = _agreement(pairs, by_place)
        answers = _cosines(request.vector, [c.answer_vector for c in candidates])
        said, reference = asked.words.items(), request.reference_engine
        found: list[float] = []
        # A loop over numbers is faster here than array operations that are called once each.
        for n, (candidate, pair) in enumerate(zip(candidates, pairs, strict=True)):
            example, question, judged = candidate.example, pair.question, candidate.example.quality_count
            theirs = question.words
            shared = sum([weight for word, weight in said if word in theirs])
            answered = sum([weight for word, weight in said if word in pair.answer_words])
            gain = decayed(example.gain, example.gain_at_s, now_s) if example.gain else 0.0
            age_s = now_s - example.created_at_s
            found += (
                similarity[n],
                best - similarity[n],
                by_place[n],
                words[n] / best_words,
                1.0 / (1 + worded[n]) if words[n] else 0.0,
                fused[n] / best_fused,
                answers[n],
                answered / asked.weight,
                shared / asked.weight,
                shared / question.weight,
                _equal(asked.numbers, question.numbers),
                _equal(asked.code, question.code),
                asked.length,
                question.length,
                pair.answer_length,
                agreement[n],
                agreement_near[n],
                example.quality_sum / judged if judged else 0.5,
                gain / (1.0 + abs(gain)),
                log1p(age_s / 86_400.0) if age_s > 0.0 else 0.0,
                example.kind == "demonstration",
                example.flagged,
                example.source_engine == reference,
                log1p(example.merged) if example.merged else 0.0,
            )
        rows = np.array(found, np.float32)
        # A wrong embedding or clock must not become a row of NaN that is logged and trained on.
        rows = rows if isfinite(rows.dot(rows)) else np.nan_to_num(rows, posinf=0.0, neginf=0.0)
        return rows.reshape(len(candidates), len(NAMES))

    def _read(self, text: str) -> _Read:
        text = text[:_LONGEST]
        words = self.rarity.of(_WORD.findall(text.lower()))
        return _Read(
            words,
            sum(words.values()) or 1.0,
            frozenset(_NUMBER.findall(text)),
            frozenset(_CODE.findall(text)),
            log1p(len(text)),
        )

    def _pair(self, example: Example) -> _Pair:
        key = hash((example.question, example.answer))
        found = self._pairs.get(key)
        if found is None:
            found = self._former.get(key) or self._read_pair(example)
            self._remember(key, found)
        return found

    def _read_pair(self, example: Example) -> _Pair:
        question = self._read(example.question)
        words = _WORD.findall(example.answer[:_LONGEST].lower())
        return _Pair(
            # Examples share most of their words: each word is in memory once.
            replace(question, words={intern(word): weight for word, weight in question.words.items()}),
            dict.fromkeys(map(intern, words)),
            log1p(len(example.answer)),
            _bag(words or [example.answer]),
        )

    def _remember(self, key: int, pair: _Pair) -> None:
        """Two threads that come here at once lose some of what was read, at worst."""
        words = len(pair.question.words) + len(pair.answer_words)
        if len(self._pairs) >= self._most or self._words + words > self._most_words:
            self._former, self._pairs, self._words = self._pairs, {}, 0
        self._pairs[key] = pair
        self._words += words


def _cosines(vector: Vector, others: Sequence[Vector | None]) -> list[float]:
    """Compute the cosine of each with `vector`; for None their mean: what is not embedded yet is no worse.

    Raises ValueError for vectors of another size.
    """
    known = [other for other in others if other is not None]
    if not known:
        return [0.0] * len(others)
    found = np.concatenate(known).reshape(len(known), len(vector)) @ vector
    mean, cosines = float(found.mean()), iter(found.tolist())
    return [mean if other is None else next(cosines) for other in others]


def _equal(one: frozenset[str], other: frozenset[str]) -> float:
    return 0.0 if not one and not other else 1.0 if one == other else -1.0


def _bag(words: Sequence[str]) -> Floats:
    bag = np.zeros(_LIKENESS_DIMENSIONS, np.float32)
    for word in words:
        bag[zlib.crc32(word.encode()) % _LIKENESS_DIMENSIONS] += 1.0
    np.sqrt(bag, out=bag)
    return bag / np.linalg.norm(bag)


def _agreement(pairs: Sequence[_Pair], weights: Sequence[float]) -> tuple[list[float], list[float]]:
    """Compute each answer's mean likeness to the others, evenly and by the others' weights; 0 for a single candidate."""
    if len(pairs) == 1:
        return [0.0], [0.0]
    bags = np.concatenate([pair.likeness for pair in pairs]).reshape(len(pairs), -1)
    by = np.array([[1.0] * len(pairs), weights], np.float32)
    # Each is its own like: that is taken off. The sums of all are multiplied once, instead of every two.
    even, near = (by @ bags @ bags.T - by) / (by.sum(axis=1, keepdims=True) - by)
    return even.tolist(), near.tolist()
