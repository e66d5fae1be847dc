"""Estimates what a replay job brought: requests with the examples it changed, before and after, against unchanged ones.

Difference in differences (Card & Krueger 1994): what changed for the unchanged examples in the same time, by traffic,
engines or the judge, is taken off. Examples are chosen for bad answers, so some of the rise may be chance that does not come
back (regression to the mean); that is said beside the figures. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from learning.evaluation.intervals import Interval, sum_of, weighted_mean
from store.jobs.replay_records import ChargedUse, JudgedUse

FEWEST = 30
"""Judged answers, or requests, below which nothing is known."""
_RESAMPLES = 400

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Uses:
    """Answers with examples from before a change and from after it."""

    judged_before: Sequence[JudgedUse]
    judged_after: Sequence[JudgedUse]
    charged_before: Sequence[ChargedUse]
    charged_after: Sequence[ChargedUse]


@dataclass(frozen=True, slots=True)
class Mean:
    """The judged quality of some answers."""

    judged: int
    value: float | None
    """0 to 1; None without any."""
    interval: Interval | None


@dataclass(frozen=True, slots=True)
class Benefit:
    """The benefit of a job, as far as it is known."""

    changed_before: Mean
    changed_after: Mean
    unchanged_before: Mean
    unchanged_after: Mean
    quality: float | None
    """By how much quality rose with changed examples beyond that of the others, -1 to 1; None: not known yet."""
    quality_interval: Interval | None
    fewest_judged: int
    """The number of judged answers in the smallest of the four groups."""
    usd: float | None
    """The rise of what requests with changed examples saved, at the traffic of the others; None: not known yet."""
    usd_interval: Interval | None
    requests: int
    """With a changed example, since the change."""


def benefit(changed: frozenset[int], uses: Uses) -> Benefit:
    """Estimate the benefit of changing these examples."""
    groups = [
        [_mean(each for each in found if changed.isdisjoint(each.example_ids) is not of_changed)]
        for of_changed in (True, False)
        for found in (uses.judged_before, uses.judged_after)
    ]
    (changed_before,), (changed_after,), (unchanged_before,), (unchanged_after,) = groups
    means = (changed_after, changed_before, unchanged_after, unchanged_before)
    quality, interval = _difference(means)
    usd, usd_interval = _saved_more(changed, uses)
    return Benefit(
        changed_before,
        changed_after,
        unchanged_before,
        unchanged_after,
        quality,
        interval,
        min(each.judged for each in means),
        usd,
        usd_interval,
        sum(not changed.isdisjoint(each.example_ids) for each in uses.charged_after),
    )


def _mean(uses: Iterable[JudgedUse]) -> Mean:
    found = list(uses)
    if not found:
        return Mean(0, None, None)
    qualities = np.array([each.quality for each in found])
    weights = np.array([1.0 / each.probability for each in found])
    value, interval = weighted_mean(qualities, weights)
    return Mean(len(found), value, interval)


def _difference(means: Sequence[Mean]) -> tuple[float | None, Interval | None]:
    """Return the difference in differences of changed after, changed before, unchanged after, unchanged before."""
    if any(each.judged < FEWEST for each in means):
        return None, None
    parts = [
        (factor, each.value, each.interval)
        for factor, each in zip((1.0, -1.0, -1.0, 1.0), means, strict=True)
        if each.value is not None and each.interval is not None
    ]
    return sum_of(parts)


def _saved_more(changed: frozenset[int], uses: Uses) -> tuple[float | None, Interval | None]:
    """Estimate what requests with changed examples saved since, less what they would have saved as before.

    As many more requests as the unchanged examples had are taken to have come in any case. Poisson bootstrap over requests
    (Chamandy et al. 2012, "Estimating uncertainty for massive data streams").
    """
    before, unchanged_before = _split(changed, uses.charged_before)
    after, unchanged_after = _split(changed, uses.charged_after)
    if min(len(each) for each in (before, after, unchanged_before, unchanged_after)) < FEWEST:
        return None, None
    traffic = len(unchanged_after) / len(unchanged_before)
    value = float(after.sum() - before.sum() * traffic)
    rng = np.random.default_rng(0)
    grown = rng.poisson(len(unchanged_after), _RESAMPLES) / np.maximum(
        1, rng.poisson(len(unchanged_before), _RESAMPLES)
    )
    drawn = _resampled(rng, after) - _resampled(rng, before) * grown
    low, high = np.quantile(drawn, [0.025, 0.975])
    return value, Interval(float(low), float(high))


def _split(changed: frozenset[int], uses: Sequence[ChargedUse]) -> tuple[Floats, Floats]:
    """Split the savings of requests, in US dollars: those with a changed example, those without."""
    having: list[float] = []
    others: list[float] = []
    for each in uses:
        (others if changed.isdisjoint(each.example_ids) else having).append(each.saved_usd)
    return np.array(having), np.array(others)


def _resampled(rng: np.random.Generator, saved: Floats) -> Floats:
    """(resamples,): sums in which each request counts a Poisson number of times."""
    return np.array([rng.poisson(1.0, len(saved)) @ saved for _ in range(_RESAMPLES)])
