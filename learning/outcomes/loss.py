"""Measures the loss of one answer against the reference's if a person's word tells how good one of them was.

Pure functions. Both answers are measured alike: against the right one where it is known, which a person wrote (a
correction) or confirmed (the highest score).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from learning.outcomes.equal import same, settles

_LONGEST = 8000
"""Characters of a longer text beyond which words are not counted."""


def right_answer(answer: str, score: float, correction: str = "", near: Sequence[str] = ()) -> str:
    """The right answer to a request, as far as what a person said of one answer tells; empty if it does not. `score`: 0
    to 1. Praise makes an answer the only right one where it leaves no choice of words. `near`: as of `settles`."""
    return correction or (answer if score >= 1.0 and settles(answer, near) else "")


def closeness(answer: str, right: str) -> float:
    """Return how good an answer is, 0 to 1, given the right one: 1 for the same.

    Else 0 if the right one leaves no choice of words, as a label does, or the F1 of the words in common (Rajpurkar et al.,
    2016, "SQuAD").
    """
    if same(answer, right):
        return 1.0
    if settles(right) or max(len(answer), len(right)) > _LONGEST:
        return 0.0
    ours, wanted = Counter(answer.split()), Counter(right.split())
    return 2.0 * (ours & wanted).total() / max(1, ours.total() + wanted.total())


def loss(reference: str, answer: str, *, right: str, score: float, quality: float) -> float:
    """The quality of the reference's answer less that of the other one, -1 to 1, or a bound of it from above.

    `right`: the right answer, empty if nobody knows; then `score` is what a person said of the reference's answer, and
    `quality` how good the other one is against it, 0 to 1.
    """
    if quality >= 1.0:
        return 0.0
    if right:
        return closeness(reference, right) - closeness(answer, right)
    return score * (1.0 - quality)
