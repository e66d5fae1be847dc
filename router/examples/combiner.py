"""Chooses which examples to send, and in what order: the set with the most expected quality for its tokens, often empty.

Greedy: each step takes the example that adds most to the expected quality of the set, less the price of its tokens, and
stops when none adds enough. The expected quality is that of router.examples.set_quality, with the scorer's estimates of
help (h) and harm (k) kept apart, and with `distraction`:

    (1 - M) * product(1 - distraction * (1 - h_i)) + M * alone * product(1 - k_i / 2),  M = product(1 - h_i)

Either some example holds what is needed, and the others distract from it, or none does, and they harm what the engine
knows. So a doubtful example may be worth sending where the engine would be wrong anyway, and not after a sure one was
chosen. What helps has diminishing returns, for which greedy is within 1 - 1/e of the best set of that size (Nemhauser,
Wolsey, Fisher 1978, "An analysis of approximations for maximizing submodular set functions", section 4). An example that
resembles one already in the set counts for less (maximal marginal relevance: Carbonell, Goldstein 1998, section 2):
near-duplicates help or fail together, which independent chances would not.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from engines.chat import ChatRequest
from router.examples.set_quality import EPSILON
from router.plan import Candidate
from router.prompt import example_tokens, tokens_needed

Order = Literal["helpful_last", "stable"]
LeftOut = Literal[
    "not_scored",
    "helps_too_little",
    "unfamiliar",
    "enough",
    "no_room",
    "redundant",
    "adds_too_little",
    "promises_too_little",
]
"""not_scored: its effect is unknown. helps_too_little: its gain alone is below `min_gain`. unfamiliar: no candidate mentions
what the request names, and none helps enough for that. enough: as many as allowed were chosen. no_room: its tokens did not
fit. redundant: it resembles a chosen one. adds_too_little: it adds too little to the chosen ones, for its tokens, or in a
bank that seldom helps (router.examples.help_rates). promises_too_little: it was chosen, but the whole set is below
`min_promise`."""


HARM_BELIEVED = 0.5
"""Share of the predicted harm that counts: outcomes predict harm poorly, since they count distraction as harm too."""


@dataclass(frozen=True, slots=True)
class Knobs:
    """Limits and prices that decide whether an example is worth sending."""

    order: Order
    """helpful_last: the most helpful next to the question. stable: those the engine keeps warm first, then by age, so that
    an engine that caches prefixes meets the same prefix again when the same examples are chosen."""
    min_gain: float = 0.003
    """Expected quality, 0 to 1, that each further example must add."""
    min_promise: float = 0.0
    """Expected quality, 0 to 1, that the whole set must add, or none is sent. A scorer is never sure that a merely similar
    example does not help; for an engine that copies whatever it is shown, a sum of such doubts must not count."""
    distraction: float = 0.02
    """Share of the quality, 0 to 1, that an example without the answer costs where another one has it."""
    unfamiliar_min_help: float = 0.03
    """Share of the errors, 0 to 1, that the best example must mend where no candidate mentions what the request names:
    there, small gains of many examples are more often an error of the scorer than help."""
    gain_per_ktok: float = 0.0
    """Price of a thousand prompt tokens, in quality: an example must add more than its tokens cost."""
    redundancy: float = 0.9
    """Share of its help, 0 to 1, that an exact duplicate of a chosen example loses; 0 ignores resemblance."""
    redundant_from: float = 0.9
    """Cosine of two questions above which they begin to count as duplicates; at 1 they are."""


@dataclass(frozen=True, slots=True)
class Combination:
    """The chosen set."""

    chosen: tuple[Candidate, ...]
    """In the order in which they are sent."""
    quality_with: float
    """Expected quality of the small engine with them, 0 to 1; without any, its quality alone."""
    tokens: int
    """Estimated tokens they add to the prompt."""
    left_out: Mapping[int, LeftOut] = field(default_factory=dict, compare=False)
    """Why each of the others was not chosen, by the example's id."""


def combine(
    candidates: Sequence[Candidate],
    *,
    quality_alone: float,
    most: int,
    budget_tokens: int,
    knobs: Knobs,
    familiar: bool = True,
    hot: Mapping[int, int] | None = None,
) -> Combination:
    """The examples to send: at most `most`, of at most `budget_tokens` together.

    `quality_alone` is the expected quality without any. Candidates without a score, or expected to help too little, are
    skipped. `familiar`: whether any candidate mentions what the request names (router.examples.features.names_met).
    `hot`: positions of the examples that the engine keeps warm, for the stable order. Takes some 0.05 ms of CPU for 20
    candidates.
    """
    left_out = {c.example.id: _reason_alone(c, knobs) for c in candidates}
    if most <= 0 or not 0.0 <= quality_alone <= 1.0:
        return Combination((), quality_alone, 0, left_out)
    waiting = _most_helpful_first(candidates, quality_alone, knobs)
    if not familiar and waiting and waiting[0].helps < knobs.unfamiliar_min_help:
        left_out.update((one.id, "unfamiliar") for one in waiting if left_out[one.id] == "enough")
        return Combination((), quality_alone, 0, left_out)
    chosen = _ChosenSet(quality_alone, budget_tokens)
    while len(chosen.examples) < most and (best := chosen.best_of(waiting, knobs)) is not None:
        chosen.add(*best)
        waiting.remove(best[0])
    examples, tokens = chosen.examples, budget_tokens - chosen.tokens_left
    if chosen.quality - quality_alone < knobs.min_promise:
        left_out.update((one.id, "promises_too_little") for one in examples)
        examples, tokens, chosen.tokens_left = [], 0, budget_tokens
    for one in examples:
        left_out.pop(one.id, None)
    if len(examples) < most:
        for one in waiting:
            if left_out[one.id] == "enough":
                left_out[one.id] = chosen.reason_against(one, knobs)
    return Combination(
        _ordered([one.candidate for one in reversed(examples)], knobs.order, hot or {}),
        chosen.quality if examples else quality_alone,
        tokens,
        left_out,
    )


def _reason_alone(candidate: Candidate, knobs: Knobs) -> LeftOut:
    """Why a candidate is not chosen, judged by its gain alone; "enough" where nothing speaks against it."""
    if candidate.gain is None:
        return "not_scored"
    return "enough" if candidate.gain > 0.0 and candidate.gain >= knobs.min_gain else "helps_too_little"


def _most_helpful_first(
    candidates: Sequence[Candidate], quality_alone: float, knobs: Knobs
) -> list[_Waiting]:
    """The scored candidates that help at all. None adds more than its help, so most are never looked at."""
    # NaN is not equal to itself.
    scored = [c for c in candidates if c.gain is not None and c.gain == c.gain]
    waiting = [_Waiting(c, quality_alone, knobs.distraction) for c in scored]
    return sorted([one for one in waiting if one.helps > 0.0], key=lambda one: one.helps, reverse=True)


class _ChosenSet:
    """The examples chosen so far, and the factors of their expected quality (see the module)."""

    def __init__(self, quality_alone: float, budget_tokens: int) -> None:
        self.examples: list[_Waiting] = []
        self.quality = quality_alone
        self.tokens_left = budget_tokens
        self._missed = 1.0
        self._undistracted = 1.0
        self._kept = quality_alone

    def best_of(self, waiting: Sequence[_Waiting], knobs: Knobs) -> tuple[_Waiting, float] | None:
        """The example that adds most after the price of its tokens, and the share missed with it; None: none adds enough."""
        best, best_net = None, 0.0
        missed, min_gain = self._missed, knobs.min_gain
        worth = missed * (self._undistracted - self._kept)
        for one in waiting:
            # An upper bound: were it redundant with nothing, without distraction and harm. The next ones help less.
            if one.helps * worth <= best_net or one.helps * worth < min_gain:
                break
            # The same without redundancy only, since comparing it with the chosen ones takes longer than all the rest.
            if self._adds(one, missed - missed * one.helps) <= best_net:
                continue
            left = missed - missed * one.helps * one.fresh_beside(self.examples, knobs)
            adds = self._adds(one, left)
            net = adds - one.price(knobs)
            if net > best_net and adds >= min_gain and one.tokens <= self.tokens_left:
                best, best_net = (one, left), net
        return best

    def add(self, one: _Waiting, missed: float) -> None:
        """Adds an example that leaves `missed` of the errors."""
        self.examples.append(one)
        self._missed = missed
        self._undistracted *= one.undistracted
        self._kept *= one.keeps
        self.quality = (1.0 - missed) * self._undistracted + missed * self._kept
        self.tokens_left -= one.tokens

    def reason_against(self, one: _Waiting, knobs: Knobs) -> LeftOut:
        """Why an example that waits was not added to the set."""
        adds = self._adds(one, self._missed - self._missed * one.helps)
        if adds <= 0.0 or adds < knobs.min_gain or adds <= one.price(knobs):
            return "adds_too_little"
        return "no_room" if one.tokens > self.tokens_left else "redundant"

    def _adds(self, one: _Waiting, left: float) -> float:
        """Quality that an example adds which leaves a share `left` of the errors."""
        undistracted = self._undistracted
        return (
            (undistracted - left * undistracted) * one.undistracted
            + left * self._kept * one.keeps
            - self.quality
        )


def with_gains(
    candidates: Sequence[Candidate],
    gains: Sequence[float],
    effects: Sequence[tuple[float, float]] | None = None,
) -> list[Candidate]:
    """The candidates with the scorer's gains and effects, in order; a third of the time dataclasses.replace takes."""
    return [
        Candidate(c.example, c.similarity, c.vector, c.answer_vector, gain, effect)
        for c, gain, effect in zip(
            candidates, gains, effects or itertools.repeat(None, len(gains)), strict=True
        )
    ]


def room_tokens(chat: ChatRequest, *, max_example_tokens: int, context_tokens: int | None) -> int:
    """Tokens that examples may take: the operator's limit, and what the engine's context window leaves; at least 0."""
    if context_tokens is None:
        return max(0, max_example_tokens)
    return max(0, min(max_example_tokens, context_tokens - tokens_needed(chat)))


def _ordered(
    picked_last_first: list[Candidate], order: Order, hot: Mapping[int, int]
) -> tuple[Candidate, ...]:
    if order == "stable":
        return hot_first(picked_last_first, hot)
    return tuple(sorted(picked_last_first, key=lambda c: c.gain or 0.0))


def hot_first(chosen: Sequence[Candidate], places: Mapping[int, int]) -> tuple[Candidate, ...]:
    """Sorts the examples that an engine keeps warm to the front, in a fixed order; the others follow by age.

    Prompts then share the longest prefix: requests with the same hottest example begin alike, whatever else was chosen,
    and the same set always has the same order. `places` maps an example's id to its position, 0 first.
    """
    return tuple(sorted(chosen, key=lambda c: (places.get(c.example.id, len(places)), c.example.id)))


class _Waiting:
    """An example that may be chosen. Its tokens and answer are computed when they are first needed."""

    _tokens, _fresh, _beside = -1, 1.0, 0
    _answer: str | None = None

    def __init__(self, candidate: Candidate, alone: float, distraction: float) -> None:
        self.candidate = candidate
        if candidate.effect is not None:
            self.helps, harms = candidate.effect
            self.keeps = 1.0 - HARM_BELIEVED * harms
        else:
            # From a gain alone: help without harm, or neither; what only harms is never chosen.
            self.helps = min(1.0, max(0.0, candidate.gain or 0.0) / max(EPSILON, 1.0 - alone))
            self.keeps = 1.0
        self.undistracted = 1.0 - distraction * (1.0 - self.helps)

    @property
    def id(self) -> int:
        return self.candidate.example.id

    @property
    def tokens(self) -> int:
        if self._tokens < 0:
            self._tokens = example_tokens(self.candidate)
        return self._tokens

    def price(self, knobs: Knobs) -> float:
        """Price of its tokens, in quality."""
        return self.tokens * knobs.gain_per_ktok / 1000 if knobs.gain_per_ktok else 0.0

    @property
    def answer(self) -> str:
        """Its answer, regardless of case and surrounding space."""
        if self._answer is None:
            self._answer = self.candidate.example.answer.strip().casefold()
        return self._answer

    def fresh_beside(self, picked: Sequence[_Waiting], knobs: Knobs) -> float:
        """Share of its help that is not redundant with `picked`, to which examples are only ever added; 0 to 1."""
        if knobs.redundancy > 0.0:
            for other in picked[self._beside :]:
                likeness = _likeness(self, other, knobs.redundant_from)
                self._fresh = min(self._fresh, 1.0 - knobs.redundancy * likeness)
            self._beside = len(picked)
        return self._fresh


def _likeness(one: _Waiting, other: _Waiting, redundant_from: float) -> float:
    """How far the two are duplicates, 0 to 1."""
    if one.answer == other.answer:
        return 1.0
    mine, theirs = one.candidate.vector, other.candidate.vector
    if mine is None or theirs is None or mine.shape != theirs.shape:
        return 0.0
    cosine = float(mine.dot(theirs))
    if cosine <= redundant_from:
        return 0.0
    return min(1.0, (cosine - redundant_from) / max(1.0 - redundant_from, 1e-6))
