"""Estimates what a smaller cap on the number of examples would have brought, from a log in which the cap varies.

Requests that were sent fewer examples than the cap k, or none, stay as they were. Those that were sent k or more are
represented by those whose own cap was k, weighted by the inverse of the probability with which that cap was drawn
(router.examples.count) and self-normalised within these requests (Swaminathan & Joachims 2015, "The self-normalized
estimator for counterfactual learning"; that is Hajek's ratio within a stratum). The choice of engines is taken as it was.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from learning.evaluation.intervals import Ratio, Told, bootstrap, effective_samples, widened
from learning.evaluation.logged import Floats, Logged
from router.examples.count import RUNGS
from store.records import ChoiceRecord

_FEWEST = 10
"""Least number of requests with that cap, below which they cannot represent the others."""
_BOUNDS = {"quality": (0.0, 1.0)}
_OF_A_SET = ("drop", "swap")
"""Explored sets that no cap produces (router.choosing.label_exploration)."""


@dataclass(frozen=True, slots=True)
class Capped:
    """The estimated outcome of a cap on the requests of the log."""

    most: int
    quality: Told
    cost_usd: Told
    latency_s: Told
    offloaded: float
    """Share of requests that went to another engine than the reference."""
    shortened: float
    """Share of requests that were sent `most` examples or more: the cap changes only these."""
    effective_samples: float
    """Effective number of requests behind the quality (Kish 1965, section 11.7)."""


class CapUnknown(Exception):
    """The log has no evidence about this cap; the text says why."""


def at_most(logged: Logged, most: int, *, resamples: int = 1000) -> Capped:
    """The outcome of the log's requests had each been sent at most `most` examples.

    Raises CapUnknown, and ValueError for a cap below 1. Without any example the engines are chosen differently, which
    is a question of policies (learning.evaluation.target_policies.always).
    """
    if most < 1:
        raise ValueError(f"a cap of {most}: at least 1 is right")
    choices = logged.choices
    sent = np.array([len(choice.example_ids) for choice in choices])
    caps = np.array([choice.most_examples for choice in choices])
    drawn = np.array([choice.examples_probability for choice in choices])
    whole = np.array([choice.examples_explored not in _OF_A_SET for choice in choices])
    longer = sent >= most
    # Without a scorer no cap is drawn, and the log holds the number of examples sent instead.
    coin = np.array([bool(choice.scorer) for choice in choices]) & (drawn > 0.0)
    stand_in = longer & whole & coin & (caps == most)
    shortened = float(longer.mean())
    weights = np.where(longer, 0.0, 1.0)
    if longer.any() and (sent[longer] > most).any():
        had = [_might_have_been(choice, most) for choice in choices]
        chance = longer & coin & np.array(had)
        if stand_in.sum() < _FEWEST or chance[longer].mean() < 0.5:
            raise CapUnknown(
                _why_unknown(most, int(longer.sum()), int(stand_in.sum()), chance[longer].mean())
            )
        inverse = np.where(stand_in, 1.0 / np.where(drawn > 0.0, drawn, 1.0), 0.0)
        weights += inverse * longer.sum() / inverse.sum()
    else:
        weights += longer
    return _weighed(logged, most, weights, shortened, resamples)


def _why_unknown(most: int, longer: int, drawn: int, chance: float) -> str:
    """Say which evidence is missing: enough draws of the cap, or requests that had a chance of it."""
    said = f"at most {most}: of {longer} requests that were sent as many or more, a cap of {most} was drawn for {drawn}"
    if drawn < _FEWEST:
        said += f"; {_FEWEST} are needed"
    if chance < 0.5:
        said += f"; {chance:.0%} of them had a chance of it, and half of them are needed"
    return said


def _might_have_been(choice: ChoiceRecord, most: int) -> bool:
    """Tell if `most` could have been drawn instead: only the best known cap and the rungs beside it can."""
    cap = choice.most_examples
    if cap == most:
        return True
    if choice.examples_probability >= 1.0 or cap not in RUNGS or most not in RUNGS:
        return False
    return abs(RUNGS.index(cap) - RUNGS.index(most)) <= (2 if choice.examples_explored == "count" else 1)


def _weighed(logged: Logged, most: int, weights: Floats, shortened: float, resamples: int) -> Capped:
    log = logged.log
    known = np.isfinite(log.quality)
    judged = np.where(known, weights / log.known_probability, 0.0)
    parts: dict[str, tuple[Floats, Floats]] = {
        "quality": (judged, np.where(known, log.quality, 0.0)),
        "cost_usd": (weights, log.cost_usd),
        "latency_s": (weights, log.latency_s),
    }
    drawn = bootstrap(
        [Ratio(weight * value, weight) for weight, value in parts.values()],
        resamples=resamples,
    )
    samples = effective_samples(judged)
    found = {}
    for name, (value, interval) in zip(parts, drawn, strict=True):
        if name in _BOUNDS:
            interval = widened(interval, value if samples else 0.0, samples, _BOUNDS[name])
        found[name] = Told(value, *interval)
    reference = logged.log.chosen == logged.reference
    return Capped(
        most,
        found["quality"],
        found["cost_usd"],
        found["latency_s"],
        1.0 - float(np.average(reference, weights=weights)),
        shortened,
        samples,
    )
