"""The promise over whole streams: the product's Promise, students trained on what the teacher was asked alone."""

from __future__ import annotations

import random
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from benchmarks.neural_caching.streams import Stream
from benchmarks.neural_caching.student import BatchStudent, trained
from learning.tasks.training import faded
from router.tasks.promise import Promise

MAX_LOSS = 0.05
_FIRST, _GROWTH = 100, 1.3
"""A student is trained once there are 100 labels, then with every 30 % more, so that a run takes seconds, and 100 labels
after it was stopped."""
_AHEAD = 400
"""Requests that are predicted at once."""
_HALF_LIFE_LABELS = 5_000


@dataclass(frozen=True, slots=True)
class PromiseRun:
    """What came of one stream."""

    stream: str
    seed: int
    requests: int
    taken: float
    """Share of the requests that the student answered."""
    taken_late: float
    """The same of the last tenth."""
    oracle: float
    """Of the last tenth, what a threshold on the same confidences would take that knows every outcome and loses 5 % of the
    requests at most."""
    most_lost: float
    """Largest share of the requests so far, at any time, whose answer differed from the teacher's."""
    lost: float
    own: float
    """Agreement of the student's own answers; NaN where there are none."""
    first: int | None
    """Place of the first request that the student answered."""
    closed: int
    """How often something was taken back."""


def promised(stream: Stream, seed: int) -> PromiseRun:
    """Play one stream."""
    order = stream.ordered(seed)
    told = stream.told(order)
    promise, coins = Promise(MAX_LOSS), random.Random(seed)
    student: BatchStudent | None = None
    kept: list[int] = []
    next_training, closed, lost, most = _FIRST, 0, 0, 0.0
    served, agreed_all = np.zeros(len(order), bool), np.zeros(len(order), bool)
    confidences = np.zeros(len(order))
    block = _Block.none()
    for place in range(len(order)):
        if len(kept) >= next_training:
            student = _trained(stream, order, told, kept, place, seed) or student
            next_training, block = int(len(kept) * _GROWTH) + 1, _Block.none()
        promise.request()
        if student is not None:
            if place not in block:
                block = _Block.of(stream, order, told, student, place)
            confidence, agreed = block.at(place)
            share = promise.to_answer(confidence)
            by_student = share is not None and coins.random() >= share
            confidences[place], agreed_all[place], served[place] = confidence, agreed, by_student
            turned = promise.add(confidence, None if by_student else agreed, share)
            if turned is not None and not turned.opened:
                closed += 1
                next_training = min(next_training, len(kept) + _FIRST)
            lost += by_student and not agreed
        if not served[place]:
            kept.append(place)
        most = max(most, lost / (place + 1))
    late = slice(len(order) - len(order) // 10, None)
    return PromiseRun(
        stream.name,
        seed,
        len(order),
        float(served.mean()),
        float(served[late].mean()),
        _oracle(confidences[late], agreed_all[late]),
        most,
        lost / len(order),
        float(agreed_all[served].mean()) if served.any() else float("nan"),
        int(served.argmax()) if served.any() else None,
        closed,
    )


def _oracle(confidences: npt.NDArray[np.float64], agreed: npt.NDArray[np.bool_]) -> float:
    lost = np.cumsum(~agreed[np.argsort(-confidences)]) / len(agreed)
    return float((np.flatnonzero(lost <= MAX_LOSS).max(initial=-1) + 1) / len(agreed))


def _trained(
    stream: Stream, order: npt.NDArray[np.int64], told: list[str], kept: list[int], version: int, seed: int
) -> BatchStudent | None:
    rows = stream.labelled([int(order[k]) for k in kept], [told[k] for k in kept])
    weights = faded(rows, half_life_labels=_HALF_LIFE_LABELS)
    return trained(
        stream.labelled([int(order[k]) for k in kept], [told[k] for k in kept], weights), version, seed
    )


@dataclass(frozen=True, slots=True)
class _Block:
    """Predictions of a part of the stream by one version."""

    start: int
    confidences: list[float]
    agreed: list[bool]

    def __contains__(self, place: int) -> bool:
        return self.start <= place < self.start + len(self.confidences)

    def at(self, place: int) -> tuple[float, bool]:
        """Confidence, whether it agrees."""
        n = place - self.start
        return self.confidences[n], self.agreed[n]

    @classmethod
    def none(cls) -> _Block:
        return cls(0, [], [])

    @classmethod
    def of(
        cls, stream: Stream, order: npt.NDArray[np.int64], told: list[str], student: BatchStudent, start: int
    ) -> _Block:
        places = order[start : start + _AHEAD]
        logs = student.logs(stream, places)
        tops = logs.argmax(axis=1)
        agreed = [
            student.labels[top] == said for top, said in zip(tops, told[start : start + _AHEAD], strict=True)
        ]
        return cls(start, np.exp(logs.max(axis=1)).tolist(), agreed)
