"""How requests like this one went: a bounded table of landmarks in embedding space, each with what its surroundings came to.

Nadaraya-Watson regression (Nadaraya 1964, Watson 1964) over online k-means centroids (MacQueen 1967) instead of over
every past request: its cost and size do not grow, it learns from one outcome at a time, old outcomes fade, and no single
request's vector is kept once others have joined its landmark.
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


@dataclass(frozen=True, slots=True)
class LandmarkKnobs:
    """How many landmarks, how far an outcome reaches, and how fast it fades."""

    most: int = 256
    sharpness: float = 8.0
    """Weight of a landmark is exp(sharpness * cosine): larger looks nearer by."""
    prior_outcomes: float = 10.0
    """An action is believed to be as it is on the whole until about this many outcomes near by say otherwise."""
    half_life_lessons: float = 5000.0
    """After this many lessons an outcome counts half."""
    fastest_drift: float = 0.01
    """A landmark moves towards what joins it by at least this share."""


class Landmarks:
    """Not safe to use from several threads: the bandit that owns it holds a lock."""

    def __init__(self, dimensions: int, knobs: LandmarkKnobs) -> None:
        self.dimensions = dimensions
        self._knobs = knobs
        self._count = 0
        self._centres = np.zeros((knobs.most, dimensions), np.float32)
        self._joined = np.zeros(knobs.most, np.float32)
        """Faded number of requests per landmark."""
        self._sums: dict[str, Array] = {}
        """Per action: [2, landmarks], faded sum of quality and faded number of outcomes."""
        self._fade = 0.5 ** (1.0 / knobs.half_life_lessons)
        self._scale = 1.0
        """What is stored is to be multiplied by this: fading all at every lesson would touch every number."""
        self._usual = 0.0
        self._usual_square = 0.0
        self._met = 0.0
        """Moving mean, and mean square, of the cosine to the nearest landmark, and how many it is of."""

    def near(self, vector: Vector) -> tuple[Array, float]:
        """Weight per landmark, the nearest's being 1, and familiarity 0..1. Weights are empty before the first lesson."""
        if not self._count:
            return np.zeros(0, np.float32), 0.0
        cosines = self._centres[: self._count] @ vector
        best = float(cosines.max())
        reach: Array = np.exp(np.float32(self._knobs.sharpness) * (cosines - np.float32(best)))
        return reach, self._familiarity(best)

    def expected(self, reach: Array, action: str, prior: float) -> float:
        """Quality of `action` there. `prior` is believed of an action that nothing is known of."""
        few = self._knobs.prior_outcomes
        kept = self._sums.get(action)
        if kept is None:
            return prior
        total, number = float(kept[0].sum()) * self._scale, float(kept[1].sum()) * self._scale
        whole = (total + few * prior) / (number + few)
        if not len(reach):
            return whole
        near = kept[:, : len(reach)] @ reach
        return (float(near[0]) * self._scale + few * whole) / (float(near[1]) * self._scale + few)

    def learn(self, vector: Vector | None, qualities: Mapping[str, float], weight: float) -> None:
        """Takes in what each action came to; without a vector it counts for nowhere in particular and is passed over."""
        if vector is None or weight <= 0.0:
            return
        self._scale *= self._fade
        if self._scale < 1e-6:
            self._settle()
        index = self._join(vector, weight)
        counted = weight / self._scale
        for action, quality in qualities.items():
            kept = self._sums.get(action)
            if kept is None:
                kept = self._sums[action] = np.zeros((2, self._knobs.most), np.float32)
            kept[0, index] += quality * counted
            kept[1, index] += counted

    def forget_actions(self, keep: Sequence[str]) -> None:
        """Drops what is known of every other action."""
        self._sums = {action: kept for action, kept in self._sums.items() if action in keep}

    def _join(self, vector: Vector, weight: float) -> int:
        counted = weight / self._scale
        if not self._count:
            return self._add(vector, counted)
        cosines = self._centres[: self._count] @ vector
        index = int(cosines.argmax())
        best = float(cosines[index])
        self._meet(best)
        if self._count < self._knobs.most and best < 0.98:
            return self._add(vector, counted)
        self._joined[index] += counted
        share = max(self._knobs.fastest_drift, counted / float(self._joined[index]))
        centre = self._centres[index] + np.float32(share) * (vector - self._centres[index])
        length = float(np.linalg.norm(centre))
        if length > 1e-6:
            self._centres[index] = centre / np.float32(length)
        return index

    def _add(self, vector: Vector, counted: float) -> int:
        index = self._count
        self._centres[index] = vector
        self._joined[index] = counted
        self._count += 1
        return index

    def _meet(self, best: float) -> None:
        # A tenth of a half-life is soon enough to follow a change of topics, and long enough to be an average.
        self._met = min(self._met + 1.0, self._knobs.half_life_lessons / 10)
        self._usual += (best - self._usual) / self._met
        self._usual_square += (best * best - self._usual_square) / self._met

    def _familiarity(self, best: float) -> float:
        """1 where the nearest landmark is as near as usual, 0 where it is three deviations farther, or little was met."""
        deviation = math.sqrt(max(1e-4, self._usual_square - self._usual**2))
        near = min(1.0, max(0.0, (best - (self._usual - 3 * deviation)) / (2 * deviation)))
        return near * self._met / (self._met + 20.0)

    def _settle(self) -> None:
        scale = np.float32(self._scale)
        self._joined *= scale
        for kept in self._sums.values():
            kept *= scale
        self._scale = 1.0

    def arrays(self) -> tuple[dict[str, npt.NDArray[Any]], list[str]]:
        """Everything learnt, as arrays by name, and the actions in the order of their sums."""
        self._settle()
        actions = sorted(self._sums)
        n = self._count
        sums = [self._sums[a][:, :n] for a in actions]
        return {
            "centres": self._centres[:n].copy(),
            "joined": self._joined[:n].copy(),
            "sums": np.stack(sums) if sums else np.zeros((0, 2, n), np.float32),
            "met": np.array([self._usual, self._usual_square, self._met]),
        }, actions

    def restore(self, arrays: Mapping[str, npt.NDArray[Any]], actions: Sequence[str]) -> None:
        """The inverse of `arrays`. Raises ValueError, KeyError for arrays that do not belong together."""
        centres, sums = arrays["centres"], arrays["sums"]
        n = len(centres)
        if n > self._knobs.most or centres.shape != (n, self.dimensions):
            raise ValueError("the landmarks have another shape")
        if (
            sums.shape != (len(actions), 2, n)
            or arrays["joined"].shape != (n,)
            or arrays["met"].shape != (3,)
        ):
            raise ValueError("the landmarks' outcomes have another shape")
        if not all(np.isfinite(a).all() for a in (centres, sums, arrays["joined"], arrays["met"])):
            raise ValueError("the landmarks hold a number that is not finite")
        self._count = n
        self._centres[:n] = centres
        self._joined[:n] = arrays["joined"]
        self._sums = {}
        for action, kept in zip(actions, sums, strict=True):
            self._sums[action] = np.zeros((2, self._knobs.most), np.float32)
            self._sums[action][:, :n] = kept
        self._scale = 1.0
        self._usual, self._usual_square, self._met = map(float, arrays["met"])
