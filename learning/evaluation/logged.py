"""From the store's rows to the arrays that policies are evaluated on: one row per request, one column per action.

Says what it had to leave out and what it had to assume. Holds no text.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np
import numpy.typing as npt

from learning.evaluation.off_policy import Figure, Log, checked_log, looked_estimated
from router.choosing.reward import reward, weights
from router.plan import Action
from store.records import ChoiceRecord, OutcomeRecord

Floats = npt.NDArray[np.float64]
Booleans = npt.NDArray[np.bool_]
Quality = Literal["relative", "measured"]
"""relative: the reference's own answers are 1 by definition, as judges see it. measured: as labels and users say."""

_RANK = {"label": 0, "judge": 1, "user": 2, "implicit": 3}
"""Where several sources spoke of one answer, the first of these counts."""
_OF_THEIR_OWN_ACCORD = ("user", "implicit")


class NothingLogged(Exception):
    """No row of the log can be evaluated; the text says why."""


class Experience(Protocol):
    """What is needed of store.decisions.outcomes.Experience."""

    @property
    def choice(self) -> ChoiceRecord: ...

    @property
    def outcomes(self) -> Sequence[OutcomeRecord]: ...


@dataclass(frozen=True, eq=False)
class Logged:
    """n requests of one served model, K actions, and what is to be known about them before believing a figure."""

    log: Log
    actions: tuple[Action, ...]
    """Columns. Engines as they came, small to large."""
    reference: npt.NDArray[np.int64]
    """[n]: the column of the reference engine, as it came."""
    available: Booleans
    """[n, K]"""
    expected_quality: Floats
    """[n, K]: what the router expected when it chose; 0 where an action was not to be had. So for the next two."""
    expected_cost_usd: Floats
    expected_latency_s: Floats
    similarities: tuple[tuple[float, ...], ...]
    """Of each request's candidates, best first."""
    choices: tuple[ChoiceRecord, ...]
    quality_is: Quality
    self_selected: bool
    """Quality came from people who chose to speak: assumed to be like those who did not."""
    left_out: Mapping[str, int]
    """Why rows were not used: other (a stand-in answered), impossible (chosen with probability 0, or not finite)."""

    def rewards(self, preference: float) -> Floats:
        """[n]: reward of what was chosen, by router.choosing.reward at this dial; nan where quality is unknown.

        Cost and latency are what they came to, as shares of the dearest and slowest action as it was expected.
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
        """quality, cost_usd, latency_s, and the reward at this dial, for learning.evaluation.off_policy.estimate."""
        known = np.isfinite(self.log.quality)
        return {
            "quality": Figure(self.log.quality, known, (0.0, 1.0)),
            "cost_usd": Figure(self.log.cost_usd),
            "latency_s": Figure(self.log.latency_s),
            "reward": Figure(self.rewards(preference), known),
        }

    def reference_quality(self) -> Floats:
        """[n]: expected of the reference; 1 by definition where quality is relative to it."""
        if self.quality_is == "relative":
            return np.ones(len(self.log))
        return self.expected_quality[np.arange(len(self.log)), self.reference]


def logged(experiences: Iterable[Experience], *, quality_is: Quality | None = None) -> Logged:
    """The arrays. `quality_is` None: measured if a label or a user spoke of a reference's answer, else relative.

    Raises NothingLogged.
    """
    left_out: Counter[str] = Counter()
    kept: list[Experience] = []
    for experience in experiences:
        reason = _unusable(experience.choice)
        if reason:
            left_out[reason] += 1
        else:
            kept.append(experience)
    if not kept:
        raise NothingLogged(
            f"no request of the log says what it weighed and took ({dict(left_out) or 'it is empty'})"
        )
    actions = _columns(kept)
    column = {action: index for index, action in enumerate(actions)}
    n, width = len(kept), len(actions)
    probabilities, quality, cost, latency = (np.zeros((n, width)) for _ in range(4))
    available = np.zeros((n, width), bool)
    chosen, reference = np.zeros(n, np.int64), np.zeros(n, np.int64)
    for row, experience in enumerate(kept):
        weighed = experience.choice.actions
        for place, each in enumerate(weighed):
            at = column[_action(each)]
            available[row, at] = True
            probabilities[row, at] = each["probability"]
            quality[row, at], cost[row, at], latency[row, at] = (
                each["quality"],
                each["cost_usd"],
                each["latency_s"],
            )
            if place == experience.choice.chosen:
                chosen[row] = at
        reference[row] = column[_action(weighed[-1])]
    found = [_quality(experience.outcomes) for experience in kept]
    is_reference = chosen == reference
    if quality_is is None:
        told = any(f is not None and f[2] != "judge" and r for f, r in zip(found, is_reference, strict=True))
        quality_is = "measured" if told else "relative"
    values = np.array([math.nan if each is None else each[0] for each in found])
    looked = np.array([math.nan if each is None else each[1] for each in found])
    by_definition = is_reference & (quality_is == "relative")
    values[by_definition], looked[by_definition] = 1.0, 1.0
    self_selected = any(
        each is not None and each[2] in _OF_THEIR_OWN_ACCORD and not fixed
        for each, fixed in zip(found, by_definition, strict=True)
    )
    choices = tuple(experience.choice for experience in kept)
    log = checked_log(
        probabilities / probabilities.sum(1, keepdims=True),
        chosen,
        values,
        _filled(looked, chosen),
        [choice.cost_usd for choice in choices],
        [choice.total_ms / 1000.0 for choice in choices],
        _features(choices),
    )
    return Logged(
        looked_estimated(log) if self_selected else log,
        actions,
        reference,
        available,
        quality,
        cost,
        latency,
        tuple(tuple(float(c["similarity"]) for c in choice.candidates) for choice in choices),
        choices,
        quality_is,
        self_selected,
        dict(left_out),
    )


def _unusable(choice: ChoiceRecord) -> str:
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
    """Every action that was ever to be had, in an order that agrees with most rows: by mean place, then by name."""
    places: dict[Action, list[float]] = {}
    for experience in kept:
        last = len(experience.choice.actions) - 1
        for place, each in enumerate(experience.choice.actions):
            places.setdefault(_action(each), []).append(place / last if last else 1.0)
    return tuple(sorted(places, key=lambda a: (sum(places[a]) / len(places[a]), a.engine, a.with_examples)))


def _action(each: Mapping[str, object]) -> Action:
    return Action(str(each["engine"]), bool(each["with_examples"]))


def _quality(outcomes: Sequence[OutcomeRecord]) -> tuple[float, float, str] | None:
    """(quality, probability of knowing it, source) of the answer that was served, by the best source that spoke of it."""
    served = [outcome for outcome in outcomes if outcome.served]
    if not served:
        return None
    source = min((outcome.source for outcome in served), key=_RANK.__getitem__)
    of = [outcome for outcome in served if outcome.source == source]
    return sum(o.quality for o in of) / len(of), max(o.probability for o in of), source


def _filled(looked: Floats, chosen: npt.NDArray[np.int64]) -> Floats:
    """Where nothing became known the coin's probability is not in the log: taken from the others of the same action."""
    known = np.isfinite(looked)
    filled = np.where(known, looked, float(looked[known].mean()) if known.any() else 1.0)
    for action in np.unique(chosen):
        of = chosen == action
        if (of & known).any():
            filled[of & ~known] = looked[of & known].mean()
    return filled


def _features(choices: Sequence[ChoiceRecord], projected: int = 16) -> Floats:
    """[n, d]: the context by name, and the request's vector on a few random directions; 0 where there is none."""
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
