"""Predicts an answer's quality from the outcomes of the nearest requests that were compared before."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from router.plan import Candidate
from store.records import Vector

_KEPT = 4_000
"""Latest outcomes that count; older ones say less of an engine as it is now."""
_FIRST_ROOM = 250
"""Outcomes that there is room for at first: most scopes have few."""
_SHARPNESS = 15.0
"""How fast an outcome counts less the less similar its request is: by exp(sharpness x (cosine - that of the nearest)). From
10 to 30 it makes little difference (docs/explanation/proof.md); a mean of the 100 nearest finds nothing that is good in
part."""
_BY_MEAN = 1.0
"""Weight of the mean of all outcomes beside that of the near ones; the nearest has a weight of 1."""
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
        self._qualities = np.zeros(0, np.float32)
        self._squares = np.zeros(0, np.float32)
        """Of each point, the squared length of what is not its vector."""
        self._count = 0

    def __len__(self) -> int:
        """Outcomes since the last time that all were forgotten."""
        return self._count

    def add(self, vector: Vector, near: Near, quality: float) -> None:
        """Keep one; the oldest goes if there are too many, and all where the embedding has another length."""
        point = _point(vector, near)
        if self._points is None or self._points.shape[1] != len(point):
            self._points, self._count = np.zeros((0, len(point)), np.float32), 0
        if self._count == len(self._points) < _KEPT:
            self._points = self._grown(self._points)
        place = self._count % _KEPT
        self._points[place], self._qualities[place] = point, quality
        self._squares[place] = np.square(point[-2:]).sum()
        self._count += 1

    def _grown(self, points: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
        """Make room for twice as many."""
        room = min(_KEPT, max(_FIRST_ROOM, 2 * len(points)))
        self._qualities = np.resize(self._qualities, room)
        self._squares = np.resize(self._squares, room)
        larger = np.zeros((room, points.shape[1]), np.float32)
        larger[: len(points)] = points
        return larger

    def expected(self, vector: Vector, near: Near) -> float:
        """The expected quality: of the outcomes, each by how near its request is, and a little of all; of few outcomes, what
        examples suggest."""
        count = min(self._count, _KEPT)
        if not count or self._points is None or self._points.shape[1] != len(vector) + 2:
            return _suggested(near)
        point = _point(vector, near)
        qualities = self._qualities[:count]
        # The vectors have length 1: half the squared distance of two is one less the cosine, and what the examples add.
        extra = (self._squares[:count] + np.square(point[-2:]).sum()) / 2
        closeness = self._points[:count] @ point - extra
        weights = np.exp(_SHARPNESS * (closeness - closeness.max()))
        all_in_all = (qualities.sum() + _ASSUMED * _suggested(near)) / (count + _ASSUMED)
        return float((weights @ qualities + _BY_MEAN * all_in_all) / (weights.sum() + _BY_MEAN))

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
