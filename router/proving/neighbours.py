"""Predicts an answer's quality from the outcomes of the nearest requests that were compared before."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from router.plan import Candidate
from store.records import Vector

_KEPT = 1_000
"""Latest outcomes that count; older ones say less of an engine as it is now."""
_NEAREST = 100
_BY_MEAN = 2.0
"""Weight of the mean of all outcomes among those of the nearest."""
_ASSUMED = 50
"""Outcomes of the quality that a request's examples suggest, assumed beside those known."""
_SIMILARITY_WEIGHT, _AGREEMENT_WEIGHT = 40.0, 40.0


@dataclass(frozen=True, slots=True)
class Near:
    """The examples' evidence of how hard a request is, each 0 to 1."""

    similarity: float = 0.0
    """The similarity of the best example's question to the request."""
    agreement: float = 0.0
    """Share of the examples whose answer is that of the best."""


def near(examples: Sequence[Candidate]) -> Near:
    """Measure the examples that would be sent, in any order."""
    if not examples:
        return Near()
    best = max(examples, key=lambda each: each.similarity)
    answer, normal = best.example.answer, _normal(best.example.answer)
    same = sum(each.example.answer == answer or _normal(each.example.answer) == normal for each in examples)
    return Near(max(0.0, best.similarity), same / len(examples))


class Outcomes:
    """The latest outcomes of one action under one scope."""

    def __init__(self) -> None:
        self._points: npt.NDArray[np.float32] | None = None
        self._qualities = np.zeros(_KEPT, np.float32)
        self._squares = np.zeros(_KEPT, np.float32)
        """The squared length, by point, of what is not its vector."""
        self._count = 0

    def add(self, vector: Vector, near: Near, quality: float) -> None:
        """Keep one; the oldest goes if there are too many, and all where the embedding has another length."""
        point = _point(vector, near)
        if self._points is None or self._points.shape[1] != len(point):
            self._points, self._count = np.zeros((_KEPT, len(point)), np.float32), 0
        place = self._count % _KEPT
        self._points[place], self._qualities[place] = point, quality
        self._squares[place] = np.square(point[-2:]).sum()
        self._count += 1

    def expected(self, vector: Vector, near: Near) -> float:
        """The expected quality: of the nearest outcomes and a little of all; of few outcomes, what examples suggest."""
        count = min(self._count, _KEPT)
        if not count or self._points is None or self._points.shape[1] != len(vector) + 2:
            return _suggested(near)
        point = _point(vector, near)
        points, qualities = self._points[:count], self._qualities[:count]
        # The vectors have length 1, so this orders as the squared distance between points does.
        distances = -2 * (points @ point) + self._squares[:count]
        nearest = np.argpartition(distances, _NEAREST - 1)[:_NEAREST] if count > _NEAREST else slice(None)
        chosen, all_in_all = qualities[nearest], qualities.sum() + _ASSUMED * _suggested(near)
        all_in_all /= count + _ASSUMED
        others = _NEAREST + _BY_MEAN - len(chosen)
        return float((chosen.sum() + others * all_in_all) / (_NEAREST + _BY_MEAN))

    def clear(self) -> None:
        """Forget all."""
        self._count = 0


def _suggested(near: Near) -> float:
    """Much where a near example's answer is that of the others too; without examples nothing is suggested."""
    return near.agreement * (1 + near.similarity) / 2


def _point(vector: Vector, near: Near) -> npt.NDArray[np.float32]:
    scaled = (_SIMILARITY_WEIGHT**0.5 * near.similarity, _AGREEMENT_WEIGHT**0.5 * near.agreement)
    # A squared distance of unit vectors is twice one less their cosine.
    extra = np.asarray(scaled, np.float32) * np.float32(2**0.5)
    return np.concatenate([np.asarray(vector, np.float32), extra])


def _normal(answer: str) -> str:
    return " ".join(answer.split()).casefold()
