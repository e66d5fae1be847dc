"""Who decides in the simulation: fixed baselines, a difficulty threshold, and the gateway's own deciding code."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from benchmarks.defaults import HALF_LIFE_S, default_chooser
from benchmarks.echolm.engines import LARGE, SMALL
from benchmarks.echolm.examples import (
    BUDGET_TOKENS,
    MOST,
    Bank,
    Seen,
    fits_of,
    put_together,
    quality_alone,
    stale_quality,
)
from benchmarks.echolm.world import DIMENSIONS, Query, cut
from learning.outcomes.judge import quality
from learning.training.bandit import Row, TrainingKnobs, fresh_bandit
from router.choosing.bandit import Lesson, Option, Scene
from router.choosing.bandit_vw import BanditSettings, VowpalBandit
from router.choosing.chooser import Chooser, Situation
from router.choosing.exploration_budget import ExplorationBudget
from router.choosing.features import Examples, Request, spread
from router.choosing.load import EngineState
from router.choosing.rule_choice import choice_by_rule
from router.plan import Action, Candidate, Choice
from router.prompt import example_tokens

THETA, M = 0.8, 3
"""Of the rule that decides until there is a bandit (LOGIC's case study)."""
LOAD_STRENGTH = 0.6
"""What docs/experiments/echolm.md was measured with: a little more than a served model has by default."""
OUTCOMES_TO_LEARN = 200
"""Judged requests at which the bandit takes over from the rule."""
_TEXTS = (
    "Give three tips for a good {}.",
    "can you help me with my {}? i tried already and it does not work, write me something about it",
    "Read the passage about the {} and answer: which of the following is true? Explain why.",
    "{} cost per month",
    "who was the first {} in the country",
)
"""What requests of each data set look like; only their shape is read (router.choosing.features)."""


@dataclass(frozen=True, slots=True)
class Decision:
    """Where a request goes, and what with."""

    to_small: bool
    fits: tuple[float, ...] = ()
    """What the examples sent along truly are (examples.py); empty without."""
    example_tokens: int = 0
    choice: Choice | None = None
    seen_fits: tuple[float, ...] = ()
    """Of the examples that would be sent along to the small engine, sent or not: what a comparison uses."""


class Router(Protocol):
    """Sees a request and the engines, small first; and, later, how some answers were judged."""

    wants_outcomes: bool

    def decide(self, query: Query, states: Sequence[EngineState], now_s: float) -> Decision: ...
    def judged(self, query: Query, decision: Decision, small_score: float, now_s: float) -> None: ...
    def answered(self, query: Query, decision: Decision) -> None: ...


class Unmoved:
    """A router that learns nothing and keeps nothing."""

    wants_outcomes = False

    def judged(self, query: Query, decision: Decision, small_score: float, now_s: float) -> None:
        """See Router."""

    def answered(self, query: Query, decision: Decision) -> None:
        """See Router."""


@dataclass
class Fixed(Unmoved):
    """Everything to one engine: to the small one with the bank's examples or without."""

    to_small: bool
    bank: Bank | None = None

    def decide(self, query: Query, states: Sequence[EngineState], now_s: float) -> Decision:
        """See Router."""
        if self.bank is None:
            return Decision(self.to_small)
        seen = self.bank.look(query)
        chosen = put_together(seen, quality_alone(query)).chosen
        fits = tuple(fits_of(seen, chosen))
        return Decision(True, fits, sum(map(example_tokens, chosen)), seen_fits=fits)


@dataclass
class Threshold(Unmoved):
    """Like RouteLLM: requests that a trained classifier expects the small engine to do well go there, as they are.

    `share` sets the threshold: how much of the traffic is to go to the small engine. `knowing` is told each topic's true
    mean score instead of the classifier's guess: without examples, no router that knows only the request can do better.
    """

    share: float
    knowing: bool = False
    threshold: float = 0.0

    def settle(self, sample: Sequence[Query]) -> Threshold:
        """Puts the threshold where `share` of these requests lie above it."""
        self.threshold = float(np.quantile([self._expected(q) for q in sample], 1 - self.share))
        return self

    def decide(self, query: Query, states: Sequence[EngineState], now_s: float) -> Decision:
        """See Router."""
        return Decision(self._expected(query) > self.threshold)

    def _expected(self, query: Query) -> float:
        known = query.topic_score if self.knowing else query.told_score
        # A topic's requests in a made-up order, or shares could only be met topic by topic.
        return known + 1e-3 * ((query.id * 0.618034) % 1.0)


@dataclass(frozen=True, slots=True)
class Parts:
    """Which parts of the gateway take part: all of them, unless an ablation leaves one out."""

    examples: bool = True
    proxy: bool = True
    """False: the nearest examples that the rule calls familiar are sent, as the gateway does when its scorer is down."""
    bandit: bool = True
    """False: the scorer's expectation stands for quality, and nothing is learnt."""
    rule: bool = False
    """The few-shot rule for ever."""
    stale: bool = False
    """The scorer was trained before the small engine changed: see stale_quality."""


@dataclass(slots=True)
class Gateway:
    """The gateway's own code, end to end but for the scorer, which is simulated (examples.py)."""

    bank: Bank
    preference: float
    rng: random.Random
    parts: Parts = field(default_factory=Parts)
    bandit: VowpalBandit | None = None
    wants_outcomes: bool = True
    _chooser: Chooser = field(default_factory=lambda: default_chooser(LOAD_STRENGTH))
    _budget: ExplorationBudget = field(default_factory=ExplorationBudget)
    _rows: list[Row] = field(default_factory=list)

    def decide(self, query: Query, states: Sequence[EngineState], now_s: float) -> Decision:
        """See Router."""
        parts = self.parts
        seen = self.bank.look(query) if parts.examples else Seen((), np.zeros(0))
        chosen, alone, together = self._combined(query, seen)
        may_explore = self._budget.allows("key", now_s)
        situation = Situation(
            request=Request(
                _TEXTS[query.dataset].format("thing"),
                turns=1,
                prompt_tokens=query.tokens_in,
                nearest=seen.near[0].similarity if seen.near else 0.0,
            ),
            engines=states,
            vector=query.vector,
            examples=Examples(
                count=len(chosen),
                tokens=sum(map(example_tokens, chosen)),
                gain=together - alone,
                best_similarity=max((c.similarity for c in chosen), default=0.0),
                spread=spread([c.similarity for c in chosen]),
            ),
            quality_alone=alone,
            quality_with=together,
            preference=self.preference,
            may_explore=may_explore,
        )
        by_rule = parts.rule or (parts.bandit and self.bandit is None)
        choice = self._chooser.choose(situation, None if by_rule else self.bandit, self.rng)
        if by_rule:
            choice = self._by_rule(choice, seen, chosen, may_explore=may_explore)
        if choice.explored:
            self._budget.spent("key", now_s)
        taken = choice.weighed[choice.chosen].action
        fits = tuple(fits_of(seen, chosen))
        sent = taken.with_examples
        tokens = situation.examples.tokens if sent else 0
        return Decision(taken.engine == SMALL.name, fits if sent else (), tokens, choice, fits)

    def judged(self, query: Query, decision: Decision, small_score: float, now_s: float) -> None:
        """A comparison came in: of the small engine's answer, served or asked for in the background."""
        choice = decision.choice
        if choice is None or not self.parts.bandit or self.parts.rule:
            return
        scene = Scene(
            query.vector,
            choice.context,
            [Option(w.action.engine, w.action.with_examples, w.features) for w in choice.weighed],
        )
        small = compared(choice, decision)
        lesson = Lesson(scene, {small: quality(cut(small_score)), len(choice.weighed) - 1: 1.0})
        if self.bandit is not None:
            self.bandit.learn([lesson])
            return
        self._rows.append(Row(lesson, now_s))
        if len(self._rows) >= OUTCOMES_TO_LEARN:
            settings = BanditSettings(dimensions=DIMENSIONS)
            self.bandit = fresh_bandit(self._rows, settings, TrainingKnobs(HALF_LIFE_S), now_s=now_s)

    def answered(self, query: Query, decision: Decision) -> None:
        """The large engine's answers become examples."""
        if not decision.to_small:
            self.bank.add(query)

    def _combined(self, query: Query, seen: Seen) -> tuple[tuple[Candidate, ...], float, float]:
        if self.parts.proxy:
            alone = stale_quality(query) if self.parts.stale else quality_alone(query)
            combination = put_together(seen, alone)
            return combination.chosen, alone, combination.quality_with
        picked: list[Candidate] = []
        room = BUDGET_TOKENS
        for candidate in seen.near:
            tokens = example_tokens(candidate)
            if candidate.similarity >= THETA and len(picked) < MOST and tokens <= room:
                picked.append(candidate)
                room -= tokens
        return tuple(reversed(picked)), 0.5, 0.5

    def _by_rule(
        self, choice: Choice, seen: Seen, chosen: Sequence[Candidate], *, may_explore: bool
    ) -> Choice:
        familiar = sum(c.similarity >= THETA for c in seen.near) >= M
        # Without examples there is nothing that the rule could send along: only what is drawn against it is offloaded.
        to_small = familiar and bool(chosen)
        return choice_by_rule(
            choice,
            Action(SMALL.name, True) if to_small else Action(LARGE.name, False),
            reference=LARGE.name,
            available=[True] * len(choice.weighed),
            least_probability=0.01 if may_explore else 0.0,
            offload_cap=1.0,
            rng=self.rng,
        )


def compared(choice: Choice, decision: Decision) -> int:
    """Index of the small engine's action that a comparison tells about: the one taken, or the one it would be asked with."""
    if decision.to_small:
        return choice.chosen
    with_examples = bool(decision.seen_fits)
    return next(
        i
        for i, w in enumerate(choice.weighed)
        if w.action.engine == SMALL.name and w.action.with_examples == with_examples
    )


def small_fits(decision: Decision) -> tuple[float, ...]:
    """The examples that the small engine's judged answer was given with."""
    return decision.fits if decision.to_small else decision.seen_fits
