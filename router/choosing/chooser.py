"""Chooses an engine, with or without examples: expected reward per action, then a draw with exactly known probabilities.

Exploration is SquareCB's inverse gap weighting (Foster & Rakhlin 2020, "Beyond UCB", Algorithm 1) on the expected reward:
each action but the best gets 1 / (K + gamma * gap) of K actions, and the best gets the rest. It is confined to actions that
may be the best for all that is known (AdaCB: Foster, Rakhlin, Simchi-Levi & Xu 2020): those whose upper bound reaches it.
No action is tried more often than it takes to know that it is behind (`tries_worth`). In addition, every action has a least
probability, so that any other policy can be evaluated on the log; the quality floor caps the probability of all engines but
the reference; and where exploration is not allowed the best action is taken with probability 1.
"""

from __future__ import annotations

import math
import random
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

from router.choosing import features
from router.choosing.bandit import UNKNOWN, Bandit, Estimate, Option, Scene
from router.choosing.features import Examples, Request
from router.choosing.lengths import UNKNOWN_LENGTHS, NearLengths
from router.choosing.load import EngineState, LoadKnobs, bias
from router.choosing.reward import Weights, expected_reward, weights
from router.plan import Action, Choice, Weighed
from router.turns.turn import Turn
from store.records import Vector

Number = TypeVar("Number", int, float)

UPPER = 1.0
"""Deviations of an upper bound above what is expected."""
LEARNED_BEFORE = 1000
"""Lessons that gamma counts in addition: before any, not everything is worth a try."""
HOPELESS = 0.2
"""Largest share of the least probability that an action has whose upper bound does not reach the best: from then on such an
action is tried once in as many requests as lessons were learnt."""


class NothingToChoose(Exception):
    """The situation has no engine. The request goes where the client asked."""


@dataclass(frozen=True, slots=True)
class Knobs:
    """Settings of exploration and load."""

    least_probability: float
    """The least probability of every action that may be the best, while exploring; at most half of all goes to this. Of one
    that is known to be behind it is less, see `tries_worth`."""
    load: LoadKnobs
    gamma_scale: float = 1.0
    """SquareCB: gamma = gamma_scale * (learned + LEARNED_BEFORE)^0.5. Larger explores less."""
    gamma_most: float = 1000.0
    """Largest gamma, so that a router that learnt for a year still notices a change."""
    answer_tokens: int = 256
    """Expected length of an answer if neither the situation nor any engine says."""


@dataclass(frozen=True, slots=True)
class Situation:
    """Everything a choice depends on, except the bandit and the random number."""

    request: Request
    engines: Sequence[EngineState]
    """Engines of the served model, small to large; the last is the reference."""
    vector: Vector | None = None
    examples: Examples = field(default_factory=Examples)
    """The examples that would be sent; a count of 0 leaves only actions without examples."""
    quality_alone: float = 0.5
    """Quality of the smallest engine without examples, 0..1, as the scorer expects it."""
    quality_with: float = 0.5
    """Quality of the smallest engine with the chosen examples, 0..1, as the scorer expects it."""
    preference: float = 0.5
    """0 cheapest, 1 best quality."""
    may_explore: bool = True
    """False in tool loops, for forced engines and for keys out of budget: the best action then has probability 1."""
    offload_cap: float = 1.0
    """Largest total probability of all engines but the reference, 0..1, as the quality floor allows."""
    max_loss: float | None = None
    """The loss that the quality floor promises: an action whose upper bound is farther below is not tried under it."""
    allowed: Collection[Action] | None = None
    """The actions that may be taken beside the reference; the others have probability 0. None: all."""
    completion_tokens: int | None = None
    """Expected length of the answer; None takes that of each engine's recent answers."""
    prompt_tokens: int | None = None
    """Estimated tokens of the request alone, by which its input is priced; None takes the request's, answer included."""
    near_lengths: NearLengths = UNKNOWN_LENGTHS
    """The lengths of answers to near questions."""
    most_answer_tokens: int | None = None
    """The longest answer that the client allows; None if it does not say."""
    seconds: Mapping[Action, float] = field(default_factory=dict)
    """Seconds that answers to such requests lately took, examples included; else the engine's own speed tells."""
    turn: Turn | None = None
    """Its place in its conversation, by which it is priced; None: as if it stood alone."""


@dataclass(frozen=True, slots=True)
class _Priced:
    """An action with its expected cost and latency."""

    action: Action
    state: EngineState
    rank: float
    is_reference: bool
    cost_usd: float
    alone_usd: float
    """The cost if nothing is cached and nothing follows."""
    answer_tokens: int
    latency_s: float
    idle_latency_s: float


@dataclass(frozen=True, slots=True)
class _Largest:
    """The largest cost, latency and price among a situation's actions: relative values are shares of these."""

    cost_usd: float
    latency_s: float
    idle_latency_s: float
    usd_per_mtok: float

    @classmethod
    def of(cls, priced: Sequence[_Priced], turn: Turn | None = None) -> _Largest:
        """`turn`: cost is measured by the reference's, had it answered the turns before: to go back to it may cost more."""
        dearest_usd = max((p.cost_usd for p in priced), default=0.0)
        if turn is not None:
            last = priced[-1]
            dearest_usd = turn.home_usd(last.state.name, last.state.price, last.answer_tokens) or dearest_usd
        return cls(
            dearest_usd or 1.0,
            max((p.latency_s for p in priced), default=0.0) or 1.0,
            max((p.idle_latency_s for p in priced), default=0.0) or 1.0,
            max(_per_token(p.state) for p in priced) or 1.0,
        )


@dataclass(frozen=True, slots=True)
class Prospect:
    """The expectations of an action, all of them as shares, so that its reward follows at any preference."""

    is_reference: bool
    quality: float
    deviation: float
    """Standard deviation of the quality."""
    sure: float
    """Quality, less what is not known of it."""
    relative_cost: float
    """Share of the dearest action's."""
    relative_latency: float
    """Share of the slowest action's."""
    busy: float
    """The part of the reward that the engine's load takes off, 0 or less."""


@dataclass(frozen=True, slots=True)
class Rewards:
    """The reward of every action: expected, at the upper bound of its quality, and less what is not known of it."""

    expected: Sequence[float]
    upper: Sequence[float]
    sure: Sequence[float]

    @classmethod
    def of(cls, dial: Weights, prospects: Sequence[Prospect]) -> Rewards:
        """The rewards at these weights."""
        reference = next(p.quality for p in prospects if p.is_reference)

        def one(p: Prospect, quality: float) -> float:
            others = None if p.is_reference else reference
            return p.busy + expected_reward(dial, quality, p.relative_cost, p.relative_latency, others)

        expected, upper, sure = [], [], []
        for i, p in enumerate(prospects):
            expected.append(one(p, p.quality))
            # The reference is what everything is measured by: it is neither doubted nor given up.
            if p.is_reference:
                upper.append(math.inf)
                sure.append(expected[i])
            else:
                upper.append(one(p, min(1.0, p.quality + UPPER * p.deviation)))
                sure.append(one(p, p.sure))
        return cls(expected, upper, sure)

    def best(self, allowed: Sequence[bool]) -> int:
        """The index of the best action that is allowed, where what is not known counts against an action."""
        return max((i for i, ok in enumerate(allowed) if ok), key=lambda i: (self.sure[i], -i))


class Chooser:
    """Chooses an action. Stateless: the same situation, bandit and random number give the same choice."""

    def __init__(self, knobs: Knobs) -> None:
        self._knobs = knobs

    def choose(self, situation: Situation, bandit: Bandit | None, rng: random.Random) -> Choice:
        """Estimates the reward of every action and draws one. Takes exactly one number from `rng`.

        Without a bandit the scorer's expectations are the qualities. Raises NothingToChoose, and BanditInput for
        numbers that are not finite.
        """
        if not situation.engines:
            raise NothingToChoose("no engine")
        priced = self._priced(situation)
        largest = _Largest.of(priced, situation.turn)
        dial = weights(situation.preference)
        options = [_option(p, largest) for p in priced]
        context = self._context(situation, dial)
        estimate, learned = self._estimated(situation, priced, options, context, bandit)
        proven = _may_be_taken(priced, situation.allowed)
        kept_out = situation.turn.kept_out if situation.turn is not None else frozenset()
        may = [ok and p.action.engine not in kept_out for ok, p in zip(proven, priced, strict=True)]
        allowed = _allowed(priced, may)
        is_reference = [p.is_reference for p in priced]
        lost = not_tried(estimate.qualities, estimate.deviations, is_reference, situation.max_loss)
        draw = rng.random()

        def weigh(loaded: bool) -> Rewards:
            return Rewards.of(
                dial, _prospects(estimate, priced, largest, self._knobs.load if loaded else None)
            )

        with_load, without_load = weigh(True), weigh(False)

        # The reference has its part also while it is down: who stands in for it takes that.
        among = [ok or reference for ok, reference in zip(allowed, is_reference, strict=True)]

        def probabilities(rewards: Rewards, cap: float, among: Sequence[bool] = among) -> list[float]:
            found = spread(rewards, among, lost, learned, situation.may_explore, self._knobs)
            return capped(found, is_reference, among, cap)

        final = probabilities(with_load, situation.offload_cap)
        meant, chosen = drawn(final, draw), standing_in(drawn(final, draw), allowed)
        idle = probabilities(without_load, situation.offload_cap)
        uncapped = final if situation.offload_cap >= 1 else probabilities(with_load, 1.0)
        best = standing_in(with_load.best(among), allowed)
        floored = is_reference[meant] and not is_reference[drawn(uncapped, draw)]
        instead_of = ""
        if may != allowed:
            working = priced[drawn(probabilities(with_load, situation.offload_cap, may), draw)]
            instead_of = "" if working.state.healthy else working.state.name
        return Choice(
            weighed=tuple(
                Weighed(p.action, pr, pi, q, p.cost_usd, p.latency_s, r, o.features, d, s, ok)
                for p, pr, pi, q, r, o, d, s, ok in zip(
                    priced,
                    stood_in(final, allowed),
                    stood_in(idle, allowed),
                    estimate.qualities,
                    with_load.expected,
                    options,
                    estimate.deviations,
                    map(estimate.surely, range(len(priced))),
                    allowed,
                    strict=True,
                )
            ),
            chosen=chosen,
            chosen_without_load=standing_in(drawn(idle, draw), allowed),
            features_version=features.VERSION,
            context=context,
            explored=chosen != best and not floored,
            floored=floored,
            instead_of=instead_of,
            wanted=situation.turn is not None and _wanted(dial, estimate, priced, proven),
        )

    def _estimated(
        self,
        situation: Situation,
        priced: Sequence[_Priced],
        options: Sequence[Option],
        context: dict[str, float],
        bandit: Bandit | None,
    ) -> tuple[Estimate, int]:
        """Estimate every action, and return the number of lessons that the bandit learnt from."""
        if bandit is None:
            return Estimate(self._expected(situation, priced), (UNKNOWN,) * len(priced)), 0
        return bandit.estimate(Scene(situation.vector, context, options)), bandit.learned

    def _priced(self, situation: Situation) -> list[_Priced]:
        """Every action that is possible, with its expected cost and latency."""
        last = len(situation.engines) - 1
        # An engine that has not answered yet is taken to say as much as the others do.
        known = [e.answer_tokens for e in situation.engines if e.answer_tokens is not None]
        usual = sum(known) / len(known) if known else float(self._knobs.answer_tokens)
        # What a context must hold, the answer's room included, is not what is paid for.
        alone = _or(situation.prompt_tokens, situation.request.prompt_tokens)
        priced = []
        for place, state in enumerate(situation.engines):
            near = situation.near_lengths.expected(_or(state.answer_tokens, usual))
            expected = _or(situation.completion_tokens, near)
            answer = round(min(expected, _or(situation.most_answer_tokens, expected)))
            ways = (False, True) if situation.examples.count and place < last else (False,)
            for with_examples in ways:
                prompt = round(alone + (situation.examples.tokens if with_examples else 0))
                generation = answer / state.tokens_per_s if state.tokens_per_s > 0 else 0.0
                idle_first_s = _or(state.idle_first_token_s, state.first_token_s)
                action = Action(state.name, with_examples)
                alone_usd = cost_usd = state.price.compared_usd(prompt, answer)
                if situation.turn is not None:
                    cost_usd = situation.turn.cost_usd(
                        state.name, state.price, answer, example_tokens=prompt - alone
                    )
                idle_s = situation.seconds.get(action, idle_first_s + generation)
                priced.append(
                    _Priced(
                        action,
                        state,
                        place / last if last else 1.0,
                        place == last,
                        cost_usd,
                        alone_usd,
                        answer,
                        max(0.0, idle_s + state.first_token_s - idle_first_s),
                        idle_s,
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
        )

    def _expected(self, situation: Situation, priced: Sequence[_Priced]) -> tuple[float, ...]:
        """Quality per action without a bandit: the scorer's for the smallest engine, 1 for the reference, by rank
        between."""

        def quality(p: _Priced) -> float:
            small = situation.quality_with if p.action.with_examples else situation.quality_alone
            small = min(1.0, max(0.0, small)) if math.isfinite(small) else 0.0
            return small + (1.0 - small) * p.rank

        return tuple(quality(p) for p in priced)


def _prospects(
    estimate: Estimate, priced: Sequence[_Priced], largest: _Largest, load: LoadKnobs | None
) -> list[Prospect]:
    """At the present load, or with `load` None as if every engine were idle."""
    found = []
    for i, p in enumerate(priced):
        latency, busy = p.idle_latency_s / largest.idle_latency_s, 0.0
        if load is not None:
            latency = p.latency_s / largest.latency_s
            busy = bias(p.state.utilisation, _per_token(p.state) / largest.usd_per_mtok, load)
        found.append(
            Prospect(
                p.is_reference,
                estimate.qualities[i],
                estimate.deviations[i],
                estimate.surely(i),
                p.cost_usd / largest.cost_usd,
                latency,
                busy,
            )
        )
    return found


def _wanted(dial: Weights, estimate: Estimate, priced: Sequence[_Priced], proven: Sequence[bool]) -> bool:
    """Tells if another action than the reference were the best, had the request stood alone."""
    alone = [replace(p, cost_usd=p.alone_usd) for p in priced]
    rewards = Rewards.of(dial, _prospects(estimate, alone, _Largest.of(alone), None))
    return not priced[rewards.best(proven)].is_reference


def spread(
    rewards: Rewards,
    allowed: Sequence[bool],
    lost: Sequence[bool],
    learned: int,
    explore: bool,
    knobs: Knobs,
) -> list[float]:
    """Probability per action by inverse gap weighting; without exploration, 1 for the best action.

    `lost`: actions that are not tried, whatever they may bring; `learned`: lessons of the bandit that expects the rewards.
    """
    best = rewards.best(allowed)
    probabilities = [0.0] * len(allowed)
    if not explore:
        probabilities[best] = 1.0
        return probabilities
    open_ = [i for i, ok in enumerate(allowed) if ok and (i == best or not lost[i])]
    hopeful = [i for i in open_ if i == best or rewards.upper[i] > rewards.expected[best]]
    hopeless = [i for i in open_ if i not in hopeful]
    least = min(HOPELESS * min(knobs.least_probability, 0.5 / len(open_)), 1.0 / max(1, learned))
    gamma = min(knobs.gamma_most, knobs.gamma_scale * math.sqrt(learned + LEARNED_BEFORE))
    found = inverse_gap_weights([rewards.expected[i] for i in hopeful], gamma, hopeful.index(best))
    for index, p in zip(hopeful, with_floor(found, knobs.least_probability), strict=True):
        gap = rewards.expected[best] - rewards.expected[index]
        probabilities[index] = min(p * (1.0 - least * len(hopeless)), tries_worth(gap, learned))
    for index in hopeless:
        probabilities[index] = least
    probabilities[best] += 1.0 - sum(probabilities)
    return probabilities


def tries_worth(gap: float, learned: int) -> float:
    """The largest probability of a try of what is expected to be `gap` behind: (deviation / gap)^2 / learned.

    So many tries tell such a gap from none by one standard error, in each e-fold of the lessons (Lai & Robbins 1985; Auer,
    Cesa-Bianchi & Fischer 2002, "Finite-time Analysis of the Multiarmed Bandit Problem", theorem 3): more of them would
    only lose.
    """
    known = max(0.0, gap) ** 2 * learned
    return 1.0 if known <= UNKNOWN**2 else UNKNOWN**2 / known


def inverse_gap_weights(rewards: Sequence[float], gamma: float, best: int) -> list[float]:
    """SquareCB's probabilities: 1 / (K + gamma * (best - r)) for all but the best, which gets the rest. They sum to 1.

    An action that is expected to be better than `best`, which was chosen for being surer, has 1 / K.
    """
    count = len(rewards)
    found = [1.0 / (count + gamma * max(0.0, rewards[best] - r)) for r in rewards]
    found[best] = 1.0 - (sum(found) - found[best])
    return found


def with_floor(probabilities: Sequence[float], least: float) -> list[float]:
    """Mixes with the uniform distribution so that none is below `least`, or below 0.5 / K for large K."""
    least = min(least, 0.5 / len(probabilities))
    return [least + (1.0 - len(probabilities) * least) * p for p in probabilities]


def capped(
    probabilities: Sequence[float], is_reference: Sequence[bool], allowed: Sequence[bool], cap: float
) -> list[float]:
    """Limits the total of all engines but the reference to `cap` and gives the rest to the reference.

    Nothing is limited if the reference is not allowed.
    """
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
    """The index at `draw`, 0 <= draw < 1, of the cumulative distribution; never one of probability 0.

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


def standing_in(index: int, allowed: Sequence[bool]) -> int:
    """Returns `index`, or the last allowed action, that of the largest engine, if that one is not allowed."""
    return index if allowed[index] else max(i for i, ok in enumerate(allowed) if ok)


def stood_in(probabilities: Sequence[float], allowed: Sequence[bool]) -> list[float]:
    """Gives the probability of actions that are not allowed to the one that stands in for them (`standing_in`)."""
    found = [0.0] * len(allowed)
    for index, p in enumerate(probabilities):
        found[standing_in(index, allowed)] += p
    return found


def _per_token(state: EngineState) -> float:
    """Price per million tokens, prompt and completion together."""
    return state.price.both_usd_per_mtok


def _may_be_taken(priced: Sequence[_Priced], actions: Collection[Action] | None) -> list[bool]:
    """Per action, whether it may be taken, whatever state its engine is in."""
    return [p.is_reference or actions is None or p.action in actions for p in priced]


def _allowed(priced: Sequence[_Priced], may: list[bool]) -> list[bool]:
    """Per action, whether it may be taken and its engine is healthy; if none is, whether it may be taken."""
    healthy = [ok and p.state.healthy for ok, p in zip(may, priced, strict=True)]
    return healthy if any(healthy) else may


def not_tried(
    qualities: Sequence[float],
    deviations: Sequence[float],
    is_reference: Sequence[bool],
    max_loss: float | None,
) -> list[bool]:
    """Per action, whether even the upper bound of its quality is below what the quality floor promises."""
    if max_loss is None:
        return [False] * len(qualities)
    promised = next(q for q, r in zip(qualities, is_reference, strict=True) if r) - max_loss
    bounds = (q + UPPER * d for q, d in zip(qualities, deviations, strict=True))
    return [not r and upper < promised for r, upper in zip(is_reference, bounds, strict=True)]


def _option(p: _Priced, largest: _Largest) -> Option:
    """The action with its features, as the bandit sees it."""
    return Option(
        p.action.engine,
        p.action.with_examples,
        features.action_features(
            is_reference=p.is_reference,
            rank=p.rank,
            with_examples=p.action.with_examples,
            relative_cost=p.cost_usd / largest.cost_usd,
            relative_latency=p.latency_s / largest.latency_s,
            utilisation=p.state.utilisation,
            healthy=p.state.healthy,
        ),
    )


def _or(value: Number | None, otherwise: Number) -> Number:
    return otherwise if value is None else value
