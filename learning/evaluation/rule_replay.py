"""Replays the few_shot rule on a log at another theta and m: whom it would have asked, and what is known of that.

The log holds how near the past answers were that the rule counted. Whom it asks follows exactly, except below the theta
that was in force, where nothing was looked for. What the small engine would have said to a request that it was never asked
is known only where a comparison asked it in the background; everywhere else its quality is not known, and is said to be so.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from learning.evaluation.intervals import Floats, Interval, Ratio, Told, bootstrap, weighted_mean, widened
from learning.evaluation.logged import best_known
from learning.evaluation.replayed import near_answers
from store.decisions.outcomes import Experience
from store.records import ChoiceRecord, OutcomeRecord

FEWEST = 10
"""Least number of judged answers from which a quality is told."""


@dataclass(frozen=True, slots=True)
class RuleEffect:
    """The effect of the rule with a theta and an m."""

    offloaded: Told
    """Share of requests that the small engine answers; the interval holds those of which the log cannot tell."""
    quality: Told | None
    """None: not known."""
    offloaded_quality: Told | None
    """The quality of the small engine's answers; None: not known."""
    judged: int
    """Answers of the small engine whose quality is known."""
    cost_usd: Told | None
    """The cost of a request; None: no answer of an engine that would be asked is in the log."""
    never_offloaded: float
    """Share of requests that would be offloaded and were not."""
    not_known: float
    """Share of requests of which the log cannot tell whom the rule would ask."""


class RuleReplay:
    """One served model's requests of a tenant, decided by the rule."""

    def __init__(self, experiences: Sequence[Experience], *, resamples: int = 400) -> None:
        """Leaves out what the log does not tell enough of: see `left_out`."""
        self._kept = [each for each in experiences if not _unusable(each.choice)]
        reasons = [_unusable(each.choice) for each in experiences]
        self.left_out = {reason: reasons.count(reason) for reason in sorted({*reasons} - {""})}
        """Number of requests by reason: earlier release (the log does not say what was near), other (another engine
        answered than the rule chose)."""
        self.by_proof = sum(bool(each.choice.settings["by_proof"]) for each in self._kept)
        """Requests where what is proven decided, at any theta and m."""
        self._resamples = resamples
        self._small = np.array([_went_small(each.choice) for each in self._kept], bool)
        self._cost_usd = np.array([each.choice.cost_usd for each in self._kept])

    def __len__(self) -> int:
        return len(self._kept)

    def offloaded(self) -> float:
        """Share of requests that the small engine was asked."""
        return float(self._small.mean()) if len(self) else math.nan

    def cost_usd(self) -> float:
        """Mean cost of a request."""
        return float(self._cost_usd.mean()) if len(self) else math.nan

    def judged(self) -> int:
        """Answers that clients got of the small engine and whose quality is known."""
        return sum(
            _quality(each.outcomes, served=True) is not None
            for each, small in zip(self._kept, self._small, strict=True)
            if small
        )

    def effect(self, theta: float | None = None, m: int | None = None) -> RuleEffect:
        """Estimate the effect of this theta and m on these requests; None leaves each request its own.

        Raises ValueError without any request.
        """
        if not len(self):
            raise ValueError("the log holds no request that the rule decided")
        asked = [_asked_small(each.choice, theta, m) for each in self._kept]
        small = np.array([bool(each) for each in asked])
        unknown = np.array([each is None for each in asked])
        judged, quality_of_small = self._quality_of_small(small)
        low = self._share(small)
        high = self._share(small | unknown)
        offloaded = Told(float(small.mean()), low.low, high.high)
        quality = None
        if quality_of_small is not None and not unknown.any():
            quality = _overall(offloaded.value, quality_of_small)
        elif not small.any() and not unknown.any():
            quality = Told(1.0, 1.0, 1.0)
        return RuleEffect(
            offloaded,
            quality,
            quality_of_small,
            judged,
            None if unknown.any() else self._cost(small),
            float((small & ~self._small).mean()),
            float(unknown.mean()),
        )

    def _share(self, small: Floats) -> Interval:
        share, n = float(small.mean()), len(small)
        return widened(Interval(share, share), share, float(n), (0.0, 1.0))

    def _quality_of_small(self, small: Floats) -> tuple[int, Told | None]:
        """Estimate the quality of the small engine's answers from those that it gave and those that comparisons asked for.

        Not known while one of the two parts has too few judged answers.
        """
        parts, judged = [], 0
        for part, served in ((small & self._small, True), (small & ~self._small, False)):
            if not part.any():
                continue
            known = [
                found
                for row in np.flatnonzero(part)
                if (found := _quality(self._kept[row].outcomes, served=served)) is not None
            ]
            judged += len(known)
            if len(known) < FEWEST:
                return judged, None
            parts.append((float(part.sum()), known))
        if not parts:
            return 0, None
        whole = sum(count for count, _ in parts)
        told = [(count / whole, self._mean(known)) for count, known in parts]
        value = sum(share * each.value for share, each in told)
        around = [
            math.hypot(*(share * (getattr(each, end) - each.value) for share, each in told))
            for end in ("low", "high")
        ]
        return judged, Told(value, max(0.0, value - around[0]), min(1.0, value + around[1]))

    def _mean(self, known: Sequence[tuple[float, float]]) -> Told:
        """Return the mean quality of (quality, probability of its being known)."""
        quality, weight = (np.array(each) for each in zip(*((q, 1.0 / p) for q, p in known), strict=True))
        value, interval = weighted_mean(quality, weight, resamples=self._resamples)
        return Told(value, *interval)

    def _cost(self, small: Floats) -> Told | None:
        """Estimate the cost of a request: as it was if the same engine was asked, else that engine's mean."""
        values = self._cost_usd.copy()
        for engine in (True, False):
            moved = (small == engine) & (self._small != engine)
            if not moved.any():
                continue
            own = self._cost_usd[self._small == engine]
            if not len(own):
                return None
            # Drawn, not their mean: the interval is then as wide as such costs vary.
            values[moved] = np.random.default_rng(0).choice(own, int(moved.sum()))
            values[moved] += own.mean() - values[moved].mean()
        ((value, interval),) = bootstrap([Ratio(values, np.ones(len(values)))], resamples=self._resamples)
        return Told(float(value), max(0.0, interval.low), interval.high)


def _overall(share: float, of_small: Told) -> Told:
    """Quality of all requests, where the reference's own answers are 1 and this share is offloaded."""

    def whole(quality: float) -> float:
        return 1.0 - share * (1.0 - quality)

    return Told(whole(of_small.value), whole(of_small.low), whole(of_small.high))


def _unusable(choice: ChoiceRecord) -> str:
    """Why a request cannot be replayed; empty if it can."""
    if choice.policy != "few_shot" or "theta" not in choice.settings or not choice.actions:
        return "earlier release"
    if not any(_is_taken(action) and action["engine"] == choice.engine for action in choice.actions):
        return "other"
    return ""


def _is_taken(action: object) -> bool:
    return isinstance(action, dict) and float(action["probability"]) > 0.0


def _went_small(choice: ChoiceRecord) -> bool:
    return bool(choice.engine != choice.actions[-1]["engine"])


def _asked_small(choice: ChoiceRecord, theta: float | None, m: int | None) -> bool | None:
    """Tell if the rule would have asked the small engine; None: the log cannot tell."""
    settings, went_small = choice.settings, _went_small(choice)
    theta = settings["theta"] if theta is None else theta
    m = int(settings["m"]) if m is None else m
    if settings["by_proof"] or (theta, m) == (settings["theta"], settings["m"]):
        return went_small
    near = near_answers(choice, max(theta, settings["theta"]))
    if near >= m:
        # Familiar before, and yet the reference: no example fitted into the prompt, and none fits now.
        return went_small or near_answers(choice, settings["theta"]) < settings["m"]
    looked_for = 2 * max(settings["m"], settings["max_examples"])
    if theta < settings["theta"] or len(choice.candidates) >= looked_for:
        return None
    return False


def _quality(outcomes: Sequence[OutcomeRecord], *, served: bool) -> tuple[float, float] | None:
    """(Quality, probability that it became known) of a small engine's answer, from the best source; None: not known.

    `served`: of the answer that the client got; else of one that a comparison asked for, with examples.
    """
    known = best_known([o for o in outcomes if o.served == served and (served or o.example_ids)])
    return None if known is None else known[:2]
