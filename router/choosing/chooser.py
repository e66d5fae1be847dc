"""Which engine plays, with examples or without: expected reward per action, then a draw whose probabilities are exact.

Exploration is SquareCB's inverse gap weighting (Foster & Rakhlin 2020, "Beyond UCB", Algorithm 1), applied to the
expected reward: the best action of K gets what the others leave, and each of them 1 / (K + gamma * gap). Around it: a
least probability for every action, so that any other policy can be evaluated on the log; a cap on everything but the
reference, from the quality floor; and no draw at all where nothing may be explored.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from router.choosing import features
from router.choosing.bandit import Bandit, Option, Scene
from router.choosing.features import Examples, Request
from router.choosing.load import EngineState, LoadKnobs, bias
from router.choosing.reward import Weights, reward, weights
from router.plan import Action, Choice, Weighed
from store.records import Vector

Number = TypeVar("Number", int, float)

UNFAMILIAR_PENALTY = 0.3
"""Share of its expected quality that an engine other than the reference loses on a request like none before."""


class NothingToChoose(Exception):
    """A situation without an engine. The request goes where the client asked."""


@dataclass(frozen=True, slots=True)
class Knobs:
    """How the chooser explores, and how careful it is with what it does not know."""

    gamma_scale: float
    """SquareCB: gamma = gamma_scale * learned^gamma_exponent. Larger explores less."""
    least_probability: float
    """Of every action while exploring; at most half of all probability goes to this."""
    load: LoadKnobs
    gamma_exponent: float = 0.5
    gamma_most: float = 1000.0
    """So that a router that has learnt for a year still notices a change."""
    unfamiliar_penalty: float = UNFAMILIAR_PENALTY
    answer_tokens: int = 256
    """Expected length of an answer where the situation does not say."""


@dataclass(frozen=True, slots=True)
class Situation:
    """Everything a choice depends on."""

    request: Request
    engines: Sequence[EngineState]
    """Of the served model, small to large; the last is the reference."""
    vector: Vector | None = None
    examples: Examples = field(default_factory=Examples)
    """What would be sent along; a count of 0 leaves only actions without examples."""
    quality_alone: float = 0.5
    """The scorer's expectation for the smallest engine without examples, 0..1."""
    quality_with: float = 0.5
    """And with the chosen ones."""
    preference: float = 0.5
    """The dial: 0 cheapest, 1 best."""
    may_explore: bool = True
    """False in tool loops, when forced, when the key's budget is spent: the best action is taken with probability 1."""
    offload_cap: float = 1.0
    """Probability that may go to other actions than the reference's, 0..1: what the quality floor leaves."""
    familiarity: float | None = None
    """0..1, where the caller knows better than the bandit; None asks it, or takes request.nearest."""
    completion_tokens: int | None = None
    """Expected length of the answer."""


@dataclass(frozen=True, slots=True)
class _Priced:
    action: Action
    state: EngineState
    rank: float
    is_reference: bool
    cost_usd: float
    latency_s: float
    idle_latency_s: float


class Chooser:
    """Holds no state: the same situation, bandit and random numbers give the same choice."""

    def __init__(self, knobs: Knobs) -> None:
        self._knobs = knobs

    def choose(self, situation: Situation, bandit: Bandit | None, rng: random.Random) -> Choice:
        """Weighs every action and draws one. Exactly one number is taken from `rng`.

        Without a bandit the scorer's expectations stand for quality. Raises NothingToChoose, and BanditInput for
        numbers that are not finite.
        """
        knobs = self._knobs
        if not situation.engines:
            raise NothingToChoose("no engine")
        priced = self._priced(situation)
        dial = weights(situation.preference)
        most_cost = max((p.cost_usd for p in priced), default=0.0) or 1.0
        most_latency = max((p.latency_s for p in priced), default=0.0) or 1.0
        most_idle = max((p.idle_latency_s for p in priced), default=0.0) or 1.0
        dearest = max(_per_token(p.state) for p in priced) or 1.0
        options = [
            Option(
                p.action.engine,
                p.action.with_examples,
                features.action_features(
                    is_reference=p.is_reference,
                    rank=p.rank,
                    with_examples=p.action.with_examples,
                    relative_cost=p.cost_usd / most_cost,
                    relative_latency=p.latency_s / most_latency,
                    utilisation=p.state.utilisation,
                    healthy=p.state.healthy,
                ),
            )
            for p in priced
        ]
        context = self._context(situation, dial)
        if bandit is not None:
            estimate = bandit.estimate(Scene(situation.vector, context, options))
            qualities, learned = list(estimate.qualities), bandit.learned
            familiarity = estimate.familiarity if situation.familiarity is None else situation.familiarity
        else:
            qualities, learned = self._expected(situation, priced), 0
            familiarity = _or(situation.familiarity, max(0.0, situation.request.nearest))
        context["familiarity"] = familiarity
        shrink = 1.0 - knobs.unfamiliar_penalty * (1.0 - min(1.0, max(0.0, familiarity)))
        qualities = [q if p.is_reference else q * shrink for q, p in zip(qualities, priced, strict=True)]
        reference_quality = next(q for q, p in zip(qualities, priced, strict=True) if p.is_reference)

        def rewards(*, loaded: bool) -> list[float]:
            most = most_latency if loaded else most_idle
            return [
                reward(
                    dial,
                    quality,
                    p.cost_usd / most_cost,
                    (p.latency_s if loaded else p.idle_latency_s) / most,
                    reference_quality,
                )
                + (bias(p.state.utilisation, _per_token(p.state) / dearest, knobs.load) if loaded else 0.0)
                for quality, p in zip(qualities, priced, strict=True)
            ]

        allowed = [p.state.healthy for p in priced]
        if not any(allowed):
            allowed = [True] * len(priced)
        is_reference = [p.is_reference for p in priced]
        with_load, without_load = rewards(loaded=True), rewards(loaded=False)
        draw = rng.random()

        def probabilities(values: Sequence[float], cap: float) -> list[float]:
            return capped(
                self._spread(values, allowed, learned, situation.may_explore), is_reference, allowed, cap
            )

        final = probabilities(with_load, situation.offload_cap)
        chosen = drawn(final, draw)
        idle = probabilities(without_load, situation.offload_cap)
        uncapped = final if situation.offload_cap >= 1 else probabilities(with_load, 1.0)
        best = max((i for i, ok in enumerate(allowed) if ok), key=lambda i: (with_load[i], -i))
        floored = is_reference[chosen] and not is_reference[drawn(uncapped, draw)]
        return Choice(
            weighed=tuple(
                Weighed(p.action, pr, pi, q, p.cost_usd, p.latency_s, r, o.features)
                for p, pr, pi, q, r, o in zip(priced, final, idle, qualities, with_load, options, strict=True)
            ),
            chosen=chosen,
            chosen_without_load=drawn(idle, draw),
            features_version=features.VERSION,
            context=context,
            explored=chosen != best and not floored,
            floored=floored,
        )

    def _spread(
        self, rewards: Sequence[float], allowed: Sequence[bool], learned: int, explore: bool
    ) -> list[float]:
        knobs = self._knobs
        indices = [i for i, ok in enumerate(allowed) if ok]
        probabilities = [0.0] * len(rewards)
        if not explore:
            probabilities[max(indices, key=lambda i: (rewards[i], -i))] = 1.0
            return probabilities
        gamma = min(knobs.gamma_most, knobs.gamma_scale * max(1, learned) ** knobs.gamma_exponent)
        found = inverse_gap_weights([rewards[i] for i in indices], gamma)
        for index, p in zip(indices, with_floor(found, knobs.least_probability), strict=True):
            probabilities[index] = p
        return probabilities

    def _priced(self, situation: Situation) -> list[_Priced]:
        last = len(situation.engines) - 1
        answer = _or(situation.completion_tokens, self._knobs.answer_tokens)
        priced = []
        for place, state in enumerate(situation.engines):
            ways = (False, True) if situation.examples.count and place < last else (False,)
            for with_examples in ways:
                prompt = situation.request.prompt_tokens + (situation.examples.tokens if with_examples else 0)
                generation = answer / state.tokens_per_s if state.tokens_per_s > 0 else 0.0
                priced.append(
                    _Priced(
                        Action(state.name, with_examples),
                        state,
                        place / last if last else 1.0,
                        place == last,
                        state.price.cost_usd(prompt, answer),
                        state.first_token_s + generation,
                        _or(state.idle_first_token_s, state.first_token_s) + generation,
                    )
                )
        return priced

    def _context(self, situation: Situation, dial: Weights) -> dict[str, float]:
        return features.context_features(
            situation.request,
            situation.examples,
            quality_alone=situation.quality_alone,
            quality_with=situation.quality_with,
            weights=dial.as_tuple(),
            familiarity=_or(situation.familiarity, 0.0),
        )

    def _expected(self, situation: Situation, priced: Sequence[_Priced]) -> list[float]:
        """Without a bandit: the scorer speaks for the smallest engine, the reference is 1, others lie between by rank."""

        def quality(p: _Priced) -> float:
            small = situation.quality_with if p.action.with_examples else situation.quality_alone
            small = min(1.0, max(0.0, small)) if math.isfinite(small) else 0.0
            return small + (1.0 - small) * p.rank

        return [quality(p) for p in priced]


def inverse_gap_weights(rewards: Sequence[float], gamma: float) -> list[float]:
    """SquareCB: 1 / (K + gamma * (best - r)) for all but the best, which gets the rest. Sums to 1."""
    count = len(rewards)
    best = max(range(count), key=lambda i: (rewards[i], -i))
    found = [1.0 / (count + gamma * (rewards[best] - r)) for r in rewards]
    found[best] = 1.0 - (sum(found) - found[best])
    return found


def with_floor(probabilities: Sequence[float], least: float) -> list[float]:
    """Mixed with the uniform distribution so that none is below `least`, or below 0.5 / K where K is large."""
    least = min(least, 0.5 / len(probabilities))
    return [least + (1.0 - len(probabilities) * least) * p for p in probabilities]


def capped(
    probabilities: Sequence[float], is_reference: Sequence[bool], allowed: Sequence[bool], cap: float
) -> list[float]:
    """At most `cap` on other actions than the reference's; what they lose, it gets. No cap while it may not be used."""
    reference = next(
        (i for i, (r, ok) in enumerate(zip(is_reference, allowed, strict=True)) if r and ok), None
    )
    found = list(probabilities)
    if reference is None:
        return found
    others = 1.0 - found[reference]
    cap = min(1.0, max(0.0, cap))
    if others <= cap:
        return found
    found = [p * cap / others for p in found]
    found[reference] = 1.0 - cap
    return found


def drawn(probabilities: Sequence[float], draw: float) -> int:
    """The action at `draw`, 0 <= draw < 1, of the cumulative distribution; never one of probability 0.

    Actions keep their order, so that with the same draw two similar distributions mostly give the same action.
    """
    total, last = 0.0, 0
    for index, p in enumerate(probabilities):
        if p > 0.0:
            total += p
            last = index
            if draw < total:
                return index
    return last


def _per_token(state: EngineState) -> float:
    return state.price.input_usd_per_mtok + state.price.output_usd_per_mtok


def _or(value: Number | None, otherwise: Number) -> Number:
    return otherwise if value is None else value
