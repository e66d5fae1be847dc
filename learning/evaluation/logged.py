"""Turns rows of the store into the arrays that policies are evaluated on: one row per request, one column per action.

Reports which rows were left out and what was assumed. Holds no text.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from learning.evaluation.off_policy import Figure, Log, checked_log, with_estimated_known_probability
from router.choosing.reward import reward, weights
from router.plan import Action
from store.decisions.outcomes import Experience
from store.records import ChoiceRecord, OutcomeRecord

Floats = npt.NDArray[np.float64]
Booleans = npt.NDArray[np.bool_]
Quality = Literal["relative", "measured"]
"""relative: a judge compares with the reference, whose answers are 1 by definition. measured: by labels and users."""

_RANK = {"label": 0, "judge": 1, "user": 2, "implicit": 3}
"""If an answer has outcomes of several sources, those of the first in this order count."""
_VOLUNTARY = ("user", "implicit")


class NothingLogged(Exception):
    """No row of the log can be evaluated; the text says why."""


@dataclass(frozen=True, eq=False)
class Logged:
    """n requests of one served model, K actions, and the limits of what they show."""

    log: Log
    actions: tuple[Action, ...]
    """The columns: engines as in the log, small to large."""
    reference: npt.NDArray[np.int64]
    """[n]: the column of the reference engine without examples."""
    available: Booleans
    """[n, K]: whether the action was weighed."""
    expected_quality: Floats
    """[n, K]: the router's expectation when it chose; 0 if the action was not available."""
    expected_cost_usd: Floats
    """[n, K], as expected_quality."""
    expected_latency_s: Floats
    """[n, K], as expected_quality."""
    similarities: tuple[tuple[float, ...], ...]
    """Cosines of each request's candidates, best first."""
    choices: tuple[ChoiceRecord, ...]
    quality_is: Quality
    self_selected: bool
    """True if quality is known from people who chose to give feedback, assumed to be like those who did not."""
    left_out: Mapping[str, int]
    """Number of unused rows by reason: other (not weighed), impossible (probability 0, or not finite)."""

    def rewards(self, preference: float) -> Floats:
        """[n]: reward of the chosen action (router.choosing.reward) at this preference; nan if quality is unknown.

        Cost and latency are the observed ones, as shares of the dearest and slowest action's expected ones.
        """
        dial = weights(preference)
        rows = np.arange(len(self.log))
        cost = _share(self.log.cost_usd, self.expected_cost_usd.max(1))
        latency = _share(self.log.latency_s, self.expected_latency_s.max(1))
        references = self.reference_quality()
        return np.array(
            [
                reward(dial, quality, cost[row], latency[row], references[row])
                if quality == quality
                else math.nan
                for row, quality in zip(rows, self.log.quality, strict=True)
            ]
        )

    def figures(self, preference: float) -> dict[str, Figure]:
        """quality, cost_usd, latency_s, and the reward at this preference, for learning.evaluation.off_policy.estimate."""
        known = np.isfinite(self.log.quality)
        return {
            "quality": Figure(self.log.quality, known, (0.0, 1.0)),
            "cost_usd": Figure(self.log.cost_usd),
            "latency_s": Figure(self.log.latency_s),
            "reward": Figure(self.rewards(preference), known),
        }

    def reference_quality(self) -> Floats:
        """[n]: expected quality of the reference; 1 by definition where quality is relative to it."""
        if self.quality_is == "relative":
            return np.ones(len(self.log))
        return self.expected_quality[np.arange(len(self.log)), self.reference]


def logged(experiences: Iterable[Experience], *, quality_is: Quality | None = None) -> Logged:
    """The log as arrays. `quality_is` None: measured if a label or a user judged a reference's answer, else relative.

    Raises NothingLogged.
    """
    kept, left_out = _usable(experiences)
    if not kept:
        raise NothingLogged(_nothing(left_out))
    actions = _columns(kept)
    weighed = _weighed(kept, actions)
    found = [best_known([o for o in experience.outcomes if o.served]) for experience in kept]
    is_reference = weighed.chosen == weighed.reference
    if quality_is is None:
        quality_is = _quality_is(found, is_reference)
    by_definition = is_reference & (quality_is == "relative")
    values, probability = _known(found, by_definition)
    self_selected = any(
        each is not None and each[2] in _VOLUNTARY and not fixed
        for each, fixed in zip(found, by_definition, strict=True)
    )
    choices = tuple(experience.choice for experience in kept)
    log = checked_log(
        weighed.probabilities / weighed.probabilities.sum(1, keepdims=True),
        weighed.chosen,
        values,
        _filled(probability, weighed.chosen),
        [choice.cost_usd for choice in choices],
        [choice.total_ms / 1000.0 for choice in choices],
        _features(choices),
    )
    return Logged(
        with_estimated_known_probability(log) if self_selected else log,
        actions,
        weighed.reference,
        weighed.available,
        weighed.quality,
        weighed.cost_usd,
        weighed.latency_s,
        tuple(tuple(float(c["similarity"]) for c in choice.candidates) for choice in choices),
        choices,
        quality_is,
        self_selected,
        left_out,
    )


def _usable(experiences: Iterable[Experience]) -> tuple[list[Experience], dict[str, int]]:
    """The experiences that can be evaluated, and the number of the others by reason."""
    left_out: Counter[str] = Counter()
    kept: list[Experience] = []
    for experience in experiences:
        if reason := _unusable(experience.choice):
            left_out[reason] += 1
        else:
            kept.append(experience)
    return kept, dict(left_out)


def _nothing(left_out: Mapping[str, int]) -> str:
    """Why nothing can be estimated, and what would change that."""
    told = [
        f"{number} {'were not weighed' if reason == 'other' else 'have figures that cannot be right'}"
        for reason, number in left_out.items()
    ]
    return (
        f"no request of the log says what it weighed and took: {', '.join(told) or 'it is empty'}. Only a model with policy "
        "in_context weighs its engines: set `policy: in_context`, and prices, then let requests come"
    )


class _Weighed(NamedTuple):
    """The logged actions: [n, K] but for `chosen` and `reference`, which are columns, [n]."""

    probabilities: Floats
    quality: Floats
    cost_usd: Floats
    latency_s: Floats
    available: Booleans
    chosen: npt.NDArray[np.int64]
    reference: npt.NDArray[np.int64]


def _weighed(kept: Sequence[Experience], actions: Sequence[Action]) -> _Weighed:
    column = {action: index for index, action in enumerate(actions)}
    n, width = len(kept), len(actions)
    probabilities, quality, cost, latency = (np.zeros((n, width)) for _ in range(4))
    available = np.zeros((n, width), bool)
    chosen, reference = np.zeros(n, np.int64), np.zeros(n, np.int64)
    for row, experience in enumerate(kept):
        for place, each in enumerate(experience.choice.actions):
            at = column[action_of(each)]
            available[row, at] = True
            probabilities[row, at], quality[row, at] = each["probability"], each["quality"]
            cost[row, at], latency[row, at] = each["cost_usd"], each["latency_s"]
            if place == experience.choice.chosen:
                chosen[row] = at
        reference[row] = column[action_of(experience.choice.actions[-1])]
    return _Weighed(probabilities, quality, cost, latency, available, chosen, reference)


_Known = tuple[float, float, str]
"""Quality, the probability that it became known, and its source."""


def _quality_is(found: Sequence[_Known | None], is_reference: Booleans) -> Quality:
    measured = any(f is not None and f[2] != "judge" and r for f, r in zip(found, is_reference, strict=True))
    return "measured" if measured else "relative"


def _known(found: Sequence[_Known | None], by_definition: Booleans) -> tuple[Floats, Floats]:
    """[n]: quality, and the probability that it became known; both 1 by definition, nan if nothing is known."""
    values = np.array([math.nan if each is None else each[0] for each in found])
    probability = np.array([math.nan if each is None else each[1] for each in found])
    values[by_definition], probability[by_definition] = 1.0, 1.0
    return values, probability


def _unusable(choice: ChoiceRecord) -> str:
    """Why a choice cannot be evaluated (see Logged.left_out); empty if it can."""
    if not 0 <= choice.chosen < len(choice.actions):
        return "other"
    numbers = [
        float(action[name])
        for action in choice.actions
        for name in ("probability", "quality", "cost_usd", "latency_s")
    ]
    whole = math.fsum(float(action["probability"]) for action in choice.actions)
    fine = all(map(math.isfinite, (*numbers, choice.cost_usd, choice.total_ms)))
    if not fine or not float(choice.actions[choice.chosen]["probability"]) > 0 or abs(whole - 1.0) > 1e-3:
        return "impossible"
    return ""


def _columns(kept: Sequence[Experience]) -> tuple[Action, ...]:
    """Every action of the log, in an order that agrees with most rows: by mean place, then by name."""
    places: dict[Action, list[float]] = {}
    for experience in kept:
        last = len(experience.choice.actions) - 1
        for place, each in enumerate(experience.choice.actions):
            places.setdefault(action_of(each), []).append(place / last if last else 1.0)
    return tuple(sorted(places, key=lambda a: (sum(places[a]) / len(places[a]), a.engine, a.with_examples)))


def action_of(each: Mapping[str, object]) -> Action:
    return Action(str(each["engine"]), bool(each["with_examples"]))


def best_known(outcomes: Sequence[OutcomeRecord]) -> _Known | None:
    """Return the quality of an answer by the best source that judged it; None without an outcome."""
    source = min((outcome.source for outcome in outcomes), key=_RANK.__getitem__, default=None)
    if source is None:
        return None
    of = [outcome for outcome in outcomes if outcome.source == source]
    return sum(o.quality for o in of) / len(of), max(o.probability for o in of), source


def _filled(probability: Floats, chosen: npt.NDArray[np.int64]) -> Floats:
    """Fills in unknown probabilities, which the log does not hold, with the mean of the same action's known ones."""
    known = np.isfinite(probability)
    filled = np.where(known, probability, float(probability[known].mean()) if known.any() else 1.0)
    for action in np.unique(chosen):
        of = chosen == action
        if (of & known).any():
            filled[of & ~known] = probability[of & known].mean()
    return filled


def _features(choices: Sequence[ChoiceRecord], projected: int = 16) -> Floats:
    """[n, d]: the context features by name, and the embedding projected on a few random directions; 0 if missing."""
    names = sorted({name for choice in choices for name in choice.context})
    context = np.array([[choice.context.get(name, 0.0) for name in names] for choice in choices])
    versions = Counter(choice.embedding_version for choice in choices if choice.vector is not None)
    if versions:
        version = versions.most_common(1)[0][0]
        vectors = [c.vector if c.embedding_version == version else None for c in choices]
        dimensions = next(len(v) for v in vectors if v is not None)
        directions = np.random.default_rng(0).normal(size=(dimensions, projected))
        rows = [np.zeros(projected) if v is None or len(v) != dimensions else v @ directions for v in vectors]
        context = np.concatenate([context.reshape(len(choices), -1), np.array(rows)], axis=1)
    found: Floats = context.reshape(len(choices), -1)
    return np.where(np.isfinite(found), found, 0.0)


def _share(value: Floats, whole: Floats) -> Floats:
    return np.clip(value / np.where(whole > 0, whole, np.inf), 0.0, 1.0)
