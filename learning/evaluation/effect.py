"""Estimates what routing settings would bring on a log: offloaded share, quality and cost, each with an interval.

The router's draw is replayed (learning.evaluation.replayed), then the quality floor beside it
(learning.evaluation.floor_replay), and what that would have brought is estimated doubly robustly
(learning.evaluation.off_policy). For the settings in force the same is done: its intervals should hold what happened.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from learning.evaluation.floor_replay import Floor, Replayed, with_floor_replayed
from learning.evaluation.intervals import Interval, Told, effective_samples, widened
from learning.evaluation.logged import Floats, Logged
from learning.evaluation.off_policy import Figure, difference, estimate, with_prediction
from learning.evaluation.replayed import Exploring, Routing, replayed

FIGURES = ("quality", "cost_usd", "latency_s")
_Z = NormalDist().inv_cdf(0.975)


@dataclass(frozen=True, slots=True)
class Effect:
    """The effect of routing settings on the requests of a log."""

    offloaded: Told
    """Share of requests that another engine than the reference answers."""
    quality: Told
    cost_usd: Told
    """The cost of a request; likewise the next."""
    latency_s: Told
    stopped: float
    """Share of requests that the quality floor keeps with the reference."""
    unsupported: float
    """Share that goes to actions of which the log knows nothing."""
    effective_samples: float


@dataclass(frozen=True, slots=True)
class Compared:
    """Settings beside those in force, on the same requests."""

    now: Effect
    then: Effect
    differences: Mapping[str, Told]
    """The rise of `then` over `now`: offloaded, quality, cost_usd, latency_s."""


class Replay:
    """Estimates effects on one log. The models of quality, cost and latency are fitted once."""

    def __init__(
        self,
        logged: Logged,
        exploring: Exploring,
        floor: Floor | None,
        *,
        resamples: int = 400,
    ) -> None:
        """`floor`: None if the model promises nothing, or keeps its promise by proofs."""
        self._logged = logged
        self._exploring = exploring
        self._floor = floor
        self._resamples = resamples
        figures = logged.figures(0.5)
        self._figures: dict[str, Figure] = {
            name: with_prediction(logged.log, figures[name]) for name in FIGURES
        }

    def effect(self, routing: Routing) -> Effect:
        """Estimate the effect of these settings."""
        return self._effect(*self._target(routing))

    def compared(self, now: Routing, then: Routing) -> Compared:
        """Both, and how far they are apart."""
        (first, first_runs), (second, second_runs) = self._target(now), self._target(then)
        apart = {}
        for name, figure in self._figures.items():
            value, interval = difference(
                self._logged.log,
                first,
                second,
                figure,
                resamples=self._resamples,
            )
            more = self._between(name, second_runs) - self._between(name, first_runs)
            apart[name] = self._wider(value, interval, more)
        moved = self._offloaded_apart(first, second, first_runs, second_runs)
        apart["offloaded"] = moved
        likelier = second if moved.value > 0 else first
        apart["quality"] = _at_least(apart["quality"], self._unseen(likelier, abs(moved.value)), (-1.0, 1.0))
        return Compared(self._effect(first, first_runs), self._effect(second, second_runs), apart)

    def _target(self, routing: Routing) -> tuple[Floats, Replayed | None]:
        target = replayed(self._logged, routing, self._exploring)
        if self._floor is None:
            return target, None
        found = with_floor_replayed(self._logged, target, self._floor)
        return found.probabilities, found

    def _effect(self, target: Floats, runs: Replayed | None) -> Effect:
        found = estimate(
            self._logged.log,
            target,
            self._figures,
            methods=("dr",),
            resamples=self._resamples,
        )
        told = {}
        for name in FIGURES:
            each = found[name]["dr"]
            least, most = self._figures[name].bounds or (0.0, math.inf)
            wider = self._wider(each.value, each.interval, self._between(name, runs))
            told[name] = Told(*(min(max(number, least), most) for number in wider))
        quality, offloaded = found["quality"]["dr"], self._offloaded(target, runs)
        return Effect(
            offloaded,
            _at_least(told["quality"], self._unseen(target, offloaded.value), (0.0, 1.0)),
            told["cost_usd"],
            told["latency_s"],
            runs.stopped if runs is not None else 0.0,
            quality.unsupported,
            quality.effective_samples,
        )

    def _around(self, values: Floats) -> float:
        """Half the width of the interval of one more value of which these are a sample: Student's t, by its expansion in the
        degrees of freedom (Abramowitz & Stegun 1964, 26.7.5)."""
        z, free = _Z, len(values) - 1
        t = z + (z**3 + z) / (4 * free)
        return t * float(values.std(ddof=1)) * math.sqrt(1.0 + 1.0 / len(values))

    def _unseen(self, target: Floats, share: float) -> float:
        """Bound the quality's error from few judged answers among the `share` of requests that are offloaded.

        The reference's own answers are all known, so that they would make a handful of judged ones look like many: those are
        counted by themselves, as learning.evaluation.intervals.widened does.
        """
        log, logged = self._logged.log, self._logged
        if logged.quality_is != "relative" or not share > 0.0:
            return 0.0
        rows = np.arange(len(log))
        known = np.isfinite(log.quality) & (log.chosen != logged.reference)
        weights = np.where(
            known, target[rows, log.chosen] / log.probabilities[rows, log.chosen] / log.known_probability, 0.0
        )
        if not weights.any():
            return share
        mean = float((weights * np.where(known, log.quality, 0.0)).sum() / weights.sum())
        low, high = widened(Interval(mean, mean), mean, effective_samples(weights), (0.0, 1.0))
        return share * max(mean - low, high - mean)

    def _away(self, target: Floats) -> Floats:
        """[n]: probability of another engine than the reference."""
        away: Floats = 1.0 - target[np.arange(len(target)), self._logged.reference]
        return away

    def _offloaded(self, target: Floats, runs: Replayed | None) -> Told:
        """The share, with the luck of the draws: another time as many requests were drawn otherwise."""
        away = self._away(target)
        if runs is None:
            value = float(away.mean())
            around = _Z * math.sqrt(float((away * (1.0 - away)).sum())) / len(away)
        else:
            value = float(runs.offloaded.mean())
            around = self._around(runs.offloaded) + 0.5 / len(away)
        return Told(value, max(0.0, value - around), min(1.0, value + around))

    def _offloaded_apart(
        self, now: Floats, then: Floats, now_runs: Replayed | None, then_runs: Replayed | None
    ) -> Told:
        if now_runs is not None and then_runs is not None:
            each = then_runs.offloaded - now_runs.offloaded
            value, around = float(each.mean()), self._around(each)
        else:
            first, second = self._away(now), self._away(then)
            value = float((second - first).mean())
            luck = float((np.abs(second - first) * (1.0 - np.abs(second - first))).sum())
            around = _Z * math.sqrt(luck) / len(first)
        return Told(value, value - around, value + around)

    def _between(self, name: str, runs: Replayed | None) -> Floats:
        """[runs]: the figure as predicted in each replay; zeros without a floor."""
        predicted = self._figures[name].predicted
        if runs is None or predicted is None:
            return np.zeros(2)
        means: Floats = np.einsum("rnk,nk->r", runs.expected, predicted) / len(predicted)
        return means

    def _wider(self, value: float, interval: Interval, between: Floats) -> Told:
        """The interval with what differs between the replays of the floor on top, as independent of it."""
        around = self._around(between)
        below, above = max(0.0, value - interval.low), max(0.0, interval.high - value)
        return Told(value, value - math.hypot(below, around), value + math.hypot(above, around))


def _at_least(told: Told, around: float, bounds: tuple[float, float]) -> Told:
    """The interval, reaching at least so far to both sides."""
    low, high = min(told.low, told.value - around), max(told.high, told.value + around)
    return Told(told.value, max(bounds[0], low), min(bounds[1], high))
