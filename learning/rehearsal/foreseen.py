"""Foresees how much a gateway would come to offload: its own gates and promises are told what was rehearsed.

Requests are drawn anew from the rehearsed questions, as many as the log holds, and each is decided, compared and counted as
router.proving.gate does with live ones; the questions themselves are drawn anew each time (bootstrap), so the interval holds
what few questions leave open and what chance does to a proof. Nothing here proves anything: a gateway begins without it.

Not in it: the bank that is still small at first, what learning may spend, judges, and answers that come late.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from learning.evaluation.intervals import Interval
from learning.rehearsal.arms import Question, Rehearsed, Tried
from learning.rehearsal.students import Predicted
from router.plan import Candidate
from router.proving.gate import Gate
from router.proving.regions import Compared
from router.proving.standing import Action
from router.tasks.promise import Promise
from store.records import Example

LEVEL = 0.95
_SMALL = "small"
_TIMES = 20
"""Streams that are drawn: each takes half a second, or more on a busy machine."""
_MOSTLY_EQUAL = 0.9
"""Share of answers whose agreement is known from which on equality alone tells (learning.outcomes.equality_alone)."""


@dataclass(frozen=True, slots=True)
class Foreseen:
    """A share of the requests."""

    requests: int
    """In each stream that was drawn."""
    share: float
    """The median."""
    within: Interval
    """95 % of the streams."""


def gate_opens(
    found: Rehearsed,
    ways: tuple[str, str],
    max_loss: float,
    *,
    requests: int,
    told_share: float = 0.0,
    times: int = _TIMES,
) -> Foreseen:
    """The share that the small engine would answer. `ways`: alone, and with the nearest. `told_share`: share of the log's
    requests of which a person said how good the answer was. Blocks: seconds for a thousand requests."""
    outcomes = [
        (one, found.ways[ways[0]][place], found.ways[ways[1]][place])
        for place, one in enumerate(found.questions)
    ]
    known = [each.agreed is not None for _, *both in outcomes for each in both if each is not None]
    equality = sum(known) >= _MOSTLY_EQUAL * len(known)
    shares = []
    for seed in range(times):
        draw = random.Random(seed)
        drawn = draw.choices(outcomes, k=len(outcomes))
        shares.append(_played(drawn, max_loss, requests, told_share, draw, equality=equality))
    return _foreseen(requests, shares)


def student_opens(
    predicted: Sequence[Predicted | None], max_loss: float, *, every: int, times: int = _TIMES
) -> Foreseen:
    """The share that a task's student would answer of requests in the log's order (learning.rehearsal.students.in_order):
    in each stream those between two trainings are drawn anew."""
    shares = []
    for seed in range(times):
        draw, promise, answered = random.Random(seed), Promise(max_loss), 0
        for start in range(0, len(predicted), every):
            stretch = predicted[start : start + every]
            for one in draw.choices(stretch, k=len(stretch)):
                promise.request()
                if one is None:
                    continue
                share = promise.to_answer(one.confidence)
                by_student = share is not None and draw.random() >= share
                answered += by_student
                promise.add(one.confidence, None if by_student else one.agreed, share)
        shares.append(answered / max(1, len(predicted)))
    return _foreseen(len(predicted), shares)


def _foreseen(requests: int, shares: Sequence[float]) -> Foreseen:
    low, middle, high = np.quantile(shares, [(1 - LEVEL) / 2, 0.5, (1 + LEVEL) / 2])
    return Foreseen(requests, float(middle), Interval(float(low), float(high)))


_Outcome = tuple[Question, Tried | None, Tried | None]


def _played(
    drawn: Sequence[_Outcome],
    max_loss: float,
    requests: int,
    told_share: float,
    draw: random.Random,
    *,
    equality: bool,
) -> float:
    """The share of a stream that the gate opens."""
    gate = Gate((_SMALL,), max_loss, draw)
    told = [one for one in drawn if one[0].past.score is not None]
    rest = [one for one in drawn if one[0].past.score is None] or told
    answered = 0
    for _ in range(requests):
        spoken = bool(told) and draw.random() < told_share
        one, *tried = draw.choice(told if spoken else rest)
        scope, vector = one.past.scope, one.past.vector
        proof = gate.proof("", scope, vector, _candidates(one))
        answered += bool(proof.open_actions())
        wished = proof.wished if draw.random() < proof.share else ()
        for with_examples, each in enumerate(tried):
            action = Action(_SMALL, bool(with_examples))
            if each is None:
                continue
            if action in wished and equality and each.agreed is not None:
                gate.add("", scope, vector, proof.noted, action, Compared(each.agreed))
            if spoken and each.loss is not None:
                gate.add("", scope, vector, proof.noted, action, Compared(None, each.loss, one.past.score))
    return answered / requests


def _candidates(one: Question) -> list[Candidate]:
    """The examples that stood beside the question."""
    return [
        Candidate(Example(place, place, "", one.past.scope, "", answer, "", 0.0), similarity)
        for place, (similarity, answer) in enumerate(one.shown)
    ]
