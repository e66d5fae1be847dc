"""Predicts quality from the outcomes of similar requests, kept in a bounded table of landmarks.

Nadaraya-Watson regression (Nadaraya 1964, Watson 1964) over online k-means centroids (MacQueen 1967) instead of over
every past request: its cost and size do not grow, it learns from one outcome at a time, old outcomes fade, and no single
request's vector is kept once others have joined its landmark. Requests are similar if they are about the same (embedding)
and look the same (lengths, numbers, kind of task): either alone predicts worse (docs/explanation/routing.md).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from store.records import Vector

Array = npt.NDArray[np.float32]

_SAME = 0.16
"""Half a squared distance below which a request equals a landmark: a cosine of 0.98 at the default sharpness."""


_FAR = np.float32(3.0)
"""Deviations at which a number is clipped."""


@dataclass(frozen=True, slots=True)
class LandmarkKnobs:
    """How many landmarks, how far an outcome reaches, and how fast it fades."""

    most: int = 512
    """Largest number of landmarks."""
    sharpness: float = 8.0
    """A landmark's weight falls with exp(sharpness * cosine): larger values use only nearer landmarks."""
    looks: float = 0.5
    """Weight of one standard deviation of a text feature in the distance."""
    prior_outcomes: float = 5.0
    """Number of nearby outcomes it takes to outweigh an action's mean over all landmarks."""
    half_life_lessons: float = 5000.0
    """An outcome counts half after this many lessons."""
    fastest_drift: float = 0.01
    """Least share by which a landmark moves towards a request that joins it."""


class Scaling:
    """Maps an embedding and text features to a point. Saved with the landmarks: points of two scalings do not compare."""

    def __init__(self, knobs: LandmarkKnobs, dimensions: int, numbers: int) -> None:
        self.dimensions = dimensions
        self.mean: Array = np.full(numbers, 0.3, np.float32)
        self.deviation: Array = np.full(numbers, 0.25, np.float32)
        self._sharpness = np.float32(math.sqrt(knobs.sharpness))
        self._looks = np.float32(knobs.looks)

    def fit(self, numbers: Array) -> None:
        """Sets mean and deviation from `numbers`, [requests, numbers]."""
        self.mean = numbers.mean(0).astype(np.float32)
        # The floor of 0.02 keeps a feature that hardly varies from dominating the one request where it does.
        spread = numbers.std(0)
        # A feature that never varied in training (labels have no examples) is ignored.
        self.deviation = np.where(spread < 1e-6, 1e6, np.maximum(spread, 0.02)).astype(np.float32)

    def place(self, vector: Vector | None, numbers: Array) -> Array:
        """The point, [dimensions + numbers]; without a vector only [numbers], which is compared with that part alone."""
        looks = np.maximum(np.minimum((numbers - self.mean) / self.deviation, _FAR), -_FAR) * self._looks
        if vector is None:
            return np.asarray(looks, np.float32)
        return np.concatenate((vector * self._sharpness, looks), dtype=np.float32)


class Landmarks:
    """The table of landmarks with their outcomes. Not thread-safe: the bandit that owns it holds a lock."""

    def __init__(self, dimensions: int, numbers: int, knobs: LandmarkKnobs) -> None:
        self.scaling = Scaling(knobs, dimensions, numbers)
        self._knobs = knobs
        self._width = dimensions + numbers
        self._count = 0
        self._centres = np.zeros((knobs.most, self._width), np.float32)
        self._squares = np.zeros((2, knobs.most), np.float32)
        """Half the squared length of each centre, and of its text features alone."""
        self._joined = np.zeros(knobs.most, np.float32)
        """Faded number of requests per landmark."""
        self._sums: dict[str, Array] = {}
        """Per action: [2, landmarks], faded sum of quality and faded number of outcomes."""
        self._wholes: dict[str, tuple[float, float]] = {}
        """Per action: both sums over all landmarks."""
        self._fade = 0.5 ** (1.0 / knobs.half_life_lessons)
        self._scale = 1.0
        """Factor to apply to every stored sum: fading each of them at every lesson would touch every number."""
        self._usual = 0.0
        self._usual_square = 0.0
        self._met = 0.0
        """Moving mean and mean square of the similarity of the nearest landmark, and the number of requests behind them."""

    def near(self, place: Array) -> tuple[Array, float]:
        """Weight per landmark, 1 for the nearest, and familiarity, 0..1. No weights before the first lesson."""
        if not self._count:
            return np.zeros(0, np.float32), 0.0
        nearness = self._nearness(place)
        best = float(nearness.max())
        reach: Array = np.exp(nearness - np.float32(best))
        # Without an embedding nobody knows what the request is about, so it is unfamiliar, however usual it looks.
        return reach, self._familiarity(best) if len(place) == self._width else 0.0

    def expected(self, reach: Array, action: str, prior: float) -> float:
        """Expected quality of `action` at the point with weights `reach`; `prior` for an action without outcomes."""
        few = self._knobs.prior_outcomes
        kept = self._sums.get(action)
        if kept is None:
            return prior
        total, number = self._wholes[action]
        whole = (total * self._scale + few * prior) / (number * self._scale + few)
        near = kept[:, : len(reach)] @ reach
        return (float(near[0]) * self._scale + few * whole) / (float(near[1]) * self._scale + few)

    def learn(self, place: Array, qualities: Mapping[str, float], weight: float) -> None:
        """Adds the quality of each action at `place`. A point without an embedding is ignored."""
        if len(place) != self._width or weight <= 0.0:
            return
        self._scale *= self._fade
        if self._scale < 1e-6:
            self._settle()
        counted = weight / self._scale
        index = self._join(place, counted)
        for action, quality in qualities.items():
            kept = self._sums.get(action)
            if kept is None:
                kept = self._sums[action] = np.zeros((2, self._knobs.most), np.float32)
            kept[0, index] += quality * counted
            kept[1, index] += counted
            total, number = self._wholes.get(action, (0.0, 0.0))
            self._wholes[action] = total + quality * counted, number + counted

    def _nearness(self, place: Array) -> Array:
        """Minus half the squared distance to each landmark."""
        n, by_looks = self._count, len(place) != self._width
        centres = self._centres[:n, self._width - len(place) :] if by_looks else self._centres[:n]
        found: Array = centres @ place - self._squares[int(by_looks), :n]
        return found - np.float32(0.5 * float(place @ place))

    def _join(self, place: Array, counted: float) -> int:
        """The landmark that a request joins, moved towards it; a new one while there is room."""
        if not self._count:
            return self._add(place, counted)
        nearness = self._nearness(place)
        index = int(nearness.argmax())
        best = float(nearness[index])
        self._meet(best)
        if self._count < self._knobs.most and best < -_SAME:
            return self._add(place, counted)
        self._joined[index] += counted
        share = max(self._knobs.fastest_drift, counted / float(self._joined[index]))
        self._centres[index] += np.float32(share) * (place - self._centres[index])
        self._measure(index)
        return index

    def _add(self, place: Array, counted: float) -> int:
        index = self._count
        self._centres[index] = place
        self._measure(index)
        self._joined[index] = counted
        self._count += 1
        return index

    def _measure(self, index: int) -> None:
        centre = self._centres[index]
        looks = centre[self.scaling.dimensions :]
        self._squares[:, index] = 0.5 * float(centre @ centre), 0.5 * float(looks @ looks)

    def _meet(self, best: float) -> None:
        # A tenth of the half-life is short enough to follow a change of topics, and long enough to be an average.
        self._met = min(self._met + 1.0, max(1.0, self._knobs.half_life_lessons / 10))
        self._usual += (best - self._usual) / self._met
        self._usual_square += (best * best - self._usual_square) / self._met

    def _familiarity(self, best: float) -> float:
        """1 where the nearest landmark is about as near as usual, 0 where it is three deviations farther.

        Also 0 while few requests were seen.
        """
        deviation = math.sqrt(max(1e-4, self._usual_square - self._usual**2))
        near = min(1.0, max(0.0, (best - (self._usual - 3 * deviation)) / (2 * deviation)))
        return near * self._met / (self._met + 20.0)

    def _settle(self) -> None:
        scale = np.float32(self._scale)
        self._joined *= scale
        for kept in self._sums.values():
            kept *= scale
        self._add_up()
        self._scale = 1.0

    def _add_up(self) -> None:
        self._wholes = {a: (float(k[0].sum()), float(k[1].sum())) for a, k in self._sums.items()}

    def arrays(self) -> tuple[dict[str, npt.NDArray[Any]], list[str]]:
        """Everything learnt, as arrays by name, and the actions in the order of their sums."""
        self._settle()
        actions = sorted(self._sums)
        n = self._count
        sums = [self._sums[a][:, :n] for a in actions]
        return {
            "mean": self.scaling.mean,
            "deviation": self.scaling.deviation,
            "centres": self._centres[:n].copy(),
            "joined": self._joined[:n].copy(),
            "sums": np.stack(sums) if sums else np.zeros((0, 2, n), np.float32),
            "met": np.array([self._usual, self._usual_square, self._met]),
        }, actions

    def restore(self, arrays: Mapping[str, npt.NDArray[Any]], actions: Sequence[str]) -> None:
        """Restores what `arrays` returned. Raises ValueError or KeyError for arrays that do not belong together."""
        centres, sums = arrays["centres"], arrays["sums"]
        n, numbers = len(centres), (self._width - self.scaling.dimensions,)
        if n > self._knobs.most or centres.shape != (n, self._width):
            raise ValueError("the landmarks have another shape")
        if arrays["mean"].shape != numbers or arrays["deviation"].shape != numbers:
            raise ValueError("the scaling has another shape")
        if (
            sums.shape != (len(actions), 2, n)
            or arrays["joined"].shape != (n,)
            or arrays["met"].shape != (3,)
        ):
            raise ValueError("the landmarks' outcomes have another shape")
        if not all(np.isfinite(a).all() for a in arrays.values()) or not (arrays["deviation"] > 0).all():
            raise ValueError("the landmarks hold a number that cannot be")
        self.scaling.mean, self.scaling.deviation = arrays["mean"], arrays["deviation"]
        self._count = n
        self._centres[:n] = centres
        for index in range(n):
            self._measure(index)
        self._joined[:n] = arrays["joined"]
        self._sums = {}
        for action, kept in zip(actions, sums, strict=True):
            self._sums[action] = np.zeros((2, self._knobs.most), np.float32)
            self._sums[action][:, :n] = kept
        self._add_up()
        self._scale = 1.0
        self._usual, self._usual_square, self._met = map(float, arrays["met"])
