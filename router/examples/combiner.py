"""Which examples together, in what order: the set that promises the most quality for its tokens, often the empty one.

Greedy: each step takes the example that adds most to the expected quality of the set, less the price of its tokens, and
stops when none adds enough. That quality is the one of router.examples.set_quality, with what a scorer says of help
(h) and of harm (k) kept apart, and with `distraction`:

    (1 - M) * product(1 - distraction * (1 - h_i)) + M * alone * product(1 - k_i / 2),  M = product(1 - h_i)

Either some example holds what is needed, which the others distract from, or none does, and they spoil what the engine
knows. So a doubtful example may be worth sending where the engine would be wrong anyhow, and not once a sure one was chosen.
What helps has diminishing returns, for which greedy is within 1 - 1/e of the best set of that size (Nemhauser, Wolsey,
Fisher 1978, "An analysis of approximations for maximizing submodular set functions", section 4). What resembles an example
that is in the set already counts for less (maximal marginal relevance: Carbonell, Goldstein 1998, section 2):
near-duplicates share their fate, which independent chances would not.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from engines.chat import ChatRequest
from router.examples.hot_examples import hot_first
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
"""not_scored: nobody knows what it would do. helps_too_little: by itself, against `min_gain`, and beside others.
unfamiliar: no candidate mentions what the request names, and none helps enough for that. enough: as many as wanted were
chosen. no_room: its tokens would not have fitted. redundant: it is like one that was chosen. adds_too_little: beside the
chosen ones, for its tokens, or in a bank that so seldom helps (router.examples.help_rates). promises_too_little: it
would have been sent, but even the best set was not worth the risk."""


HARM_BELIEVED = 0.5
"""Of what a scorer predicts: outcomes tell it poorly, for what distracts from other examples counts as harm there, too."""


@dataclass(frozen=True, slots=True)
class Knobs:
    """What an example must add to be sent along."""

    order: Order
    """helpful_last: the most helpful next to the question. stable: those the engine keeps warm first, then by age, so that
    an engine that caches prefixes meets the same prefix again when the same examples are chosen."""
    min_gain: float = 0.003
    """Expected quality that each further example must add, 0 to 1. Where none does, none is sent."""
    min_promise: float = 0.0
    """Expected quality that the whole set must add, 0 to 1, or nothing is sent. A scorer is never quite sure that what is
    merely similar does not help; for an engine that copies whatever it is shown, sums of such doubts are no reason to."""
    distraction: float = 0.02
    """Share of the quality that an example takes where another one holds what is needed and it does not itself, 0 to 1."""
    unfamiliar_min_help: float = 0.03
    """Share of what goes wrong without any that the best example must mend, 0 to 1, where none mentions what the request
    names: small promises of many examples about other things are more often a scorer's error than help."""
    gain_per_ktok: float = 0.0
    """Price of a thousand prompt tokens, in quality: an example must add more than its tokens cost."""
    redundancy: float = 0.9
    """How much of its help an exact duplicate of a chosen example loses, 0 to 1; 0 looks at no resemblance."""
    redundant_from: float = 0.9
    """Cosine of two questions from which they begin to count as duplicates; at 1 they are."""


@dataclass(frozen=True, slots=True)
class Combination:
    """What was put together."""

    chosen: tuple[Candidate, ...]
    """In the order in which they are to be sent."""
    quality_with: float
    """Expected of the small engine with them, 0 to 1; without any, what it was alone."""
    tokens: int
    """That they add to the prompt, estimated."""
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

    `quality_alone` is the expected quality without any. Candidates that were not scored, or are expected to help less than
    is asked for, are passed over. `familiar`: whether any mentions what the request names
    (router.examples.features.names_met). `hot`: places of examples that the engine keeps warm, for the stable
    order. Takes some 0.05 ms of CPU for 20 candidates.
    """
    left_out: dict[int, LeftOut] = {
        c.example.id: "not_scored"
        if c.gain is None
        else "enough"
        if c.gain > 0.0 and c.gain >= knobs.min_gain
        else "helps_too_little"
        for c in candidates
    }
    if most <= 0 or not 0.0 <= quality_alone <= 1.0:
        return Combination((), quality_alone, 0, left_out)
    # Most helpful first: none adds more than its help, so most are never looked at.
    scored = [c for c in candidates if c.gain is not None and c.gain == c.gain]
    waiting = [_Waiting(c, quality_alone, knobs.distraction) for c in scored]
    waiting = [one for one in waiting if one.helps > 0.0]
    waiting.sort(key=_helps, reverse=True)
    if not familiar and waiting and waiting[0].helps < knobs.unfamiliar_min_help:
        left_out.update((one.id, "unfamiliar") for one in waiting if left_out[one.id] == "enough")
        return Combination((), quality_alone, 0, left_out)
    picked: list[_Waiting] = []
    missed, undistracted, kept, now = 1.0, 1.0, quality_alone, quality_alone
    left_tokens, min_gain = budget_tokens, knobs.min_gain
    while len(picked) < most:
        best, best_net, best_missed = None, 0.0, 0.0
        worth = missed * (undistracted - kept)
        for one in waiting:
            helps, undistracted_by = one.helps, one.undistracted
            # If it were like nothing that was chosen, distracted from nothing and harmed nothing; the next ones help less.
            if helps * worth <= best_net or helps * worth < min_gain:
                break
            left = missed - missed * helps
            # If it were like nothing that was chosen. To look whether it is takes longer than all the rest.
            if (
                undistracted - left * undistracted
            ) * undistracted_by + left * kept * one.keeps - now <= best_net:
                continue
            left = missed - missed * helps * one.fresh_beside(picked, knobs)
            adds = (undistracted - left * undistracted) * undistracted_by + left * kept * one.keeps - now
            net = adds - one.price(knobs)
            if net > best_net and adds >= min_gain and one.tokens <= left_tokens:
                best, best_net, best_missed = one, net, left
        if best is None:
            break
        picked.append(best)
        waiting.remove(best)
        missed, undistracted, kept = best_missed, undistracted * best.undistracted, kept * best.keeps
        now = (1.0 - missed) * undistracted + missed * kept
        left_tokens -= best.tokens
    if now - quality_alone < knobs.min_promise:
        left_out.update((one.id, "promises_too_little") for one in picked)
        picked, left_tokens = [], budget_tokens
    for chosen in picked:
        left_out.pop(chosen.id, None)
    for one in waiting:
        if left_out[one.id] == "enough" and len(picked) < most:
            left = missed - missed * one.helps
            adds = (undistracted - left * undistracted) * one.undistracted + left * kept * one.keeps - now
            left_out[one.id] = (
                "adds_too_little"
                if adds <= 0.0 or adds < min_gain or adds <= one.price(knobs)
                else "no_room"
                if one.tokens > left_tokens
                # It would have been sent, were it not like one that was.
                else "redundant"
            )
    return Combination(
        _ordered([one.candidate for one in reversed(picked)], knobs.order, hot or {}),
        now if picked else quality_alone,
        budget_tokens - left_tokens,
        left_out,
    )


def with_gains(
    candidates: Sequence[Candidate],
    gains: Sequence[float],
    effects: Sequence[tuple[float, float]] | None = None,
) -> list[Candidate]:
    """The candidates with what a scorer gave them, in order; a third of the time dataclasses.replace takes."""
    return [
        Candidate(c.example, c.similarity, c.vector, c.answer_vector, gain, effect)
        for c, gain, effect in zip(
            candidates, gains, effects or itertools.repeat(None, len(gains)), strict=True
        )
    ]


def room_tokens(chat: ChatRequest, *, max_example_tokens: int, context_tokens: int | None) -> int:
    """Tokens that examples may take: the operator's cap, and what the engine's context window leaves; never below 0."""
    if context_tokens is None:
        return max(0, max_example_tokens)
    return max(0, min(max_example_tokens, context_tokens - tokens_needed(chat)))


def _ordered(
    picked_last_first: list[Candidate], order: Order, hot: Mapping[int, int]
) -> tuple[Candidate, ...]:
    if order == "stable":
        return hot_first(picked_last_first, hot)
    return tuple(sorted(picked_last_first, key=lambda c: c.gain or 0.0))


class _Waiting:
    """An example that may yet be chosen. What nobody asks of it is not worked out."""

    _tokens, _fresh, _beside = -1, 1.0, 0
    _answer: str | None = None

    def __init__(self, candidate: Candidate, alone: float, distraction: float) -> None:
        self.candidate = candidate
        if candidate.effect is not None:
            self.helps, harms = candidate.effect
            self.keeps = 1.0 - HARM_BELIEVED * harms
        else:
            # Some help and no harm, or the other way round, and what only harms is never chosen.
            self.helps = min(1.0, max(0.0, candidate.gain or 0.0) / max(EPSILON, 1.0 - alone))
            self.keeps = 1.0
        self.undistracted = 1.0 - distraction * (1.0 - self.helps)

    @property
    def id(self) -> int:
        """The example's."""
        return self.candidate.example.id

    @property
    def tokens(self) -> int:
        if self._tokens < 0:
            self._tokens = example_tokens(self.candidate)
        return self._tokens

    def price(self, knobs: Knobs) -> float:
        """Of its tokens, in quality."""
        return self.tokens * knobs.gain_per_ktok / 1000 if knobs.gain_per_ktok else 0.0

    @property
    def answer(self) -> str:
        """Its answer, whatever the case and the space around it."""
        if self._answer is None:
            self._answer = self.candidate.example.answer.strip().casefold()
        return self._answer

    def fresh_beside(self, picked: Sequence[_Waiting], knobs: Knobs) -> float:
        """What of its help is left beside what was picked, of which there is only ever more; 0 to 1."""
        if knobs.redundancy > 0.0:
            for other in picked[self._beside :]:
                likeness = _likeness(self, other, knobs.redundant_from)
                self._fresh = min(self._fresh, 1.0 - knobs.redundancy * likeness)
            self._beside = len(picked)
        return self._fresh


def _helps(one: _Waiting) -> float:
    return one.helps


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
