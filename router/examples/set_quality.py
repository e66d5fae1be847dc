"""The expected quality of a set of examples, from the worth of each: five coefficients that are learnt from outcomes.

An example's worth is how far it holds what is needed, 0 to 1. Sets help in two ways, and which of them counts is learnt:

- *One is enough*: the chance that any example holds it, 1 - product(1 - worth), where examples with the same answer count
  once (noisy-or: Pearl 1988, "Probabilistic Reasoning in Intelligent Systems", section 4.3.2).
- *Several vote*: sum(worth) / (n + 1), the share of right votes where the engine's own knowledge has one.

    quality(S) = alone + one * (1 - product(1 - worth)) + vote * sum(worth) / (n + 1) - displaced * n / (n + 1) - each * n

`displaced` is what the engine knew and is talked out of; `each` is what a further example distracts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple, dataclass
from math import isfinite

_SURE = 0.999
"""Largest worth: a sure example would leave nothing for others to mend."""

Terms = tuple[float, float, float, float]
"""The factors of `one`, `vote`, `displaced` and `each`."""


def terms_of_prefixes(worths: Sequence[float], answers: Sequence[str]) -> list[Terms]:
    """The terms of the first example, of the first two, and so on. `answers` as `same_answer` gives them."""
    best: dict[str, float] = {}
    missed, total, found = 1.0, 0.0, []
    for n, (worth, answer) in enumerate(zip(worths, answers, strict=True), 1):
        total += worth
        worth, known = min(worth, _SURE), best.get(answer, 0.0)
        if worth > known:
            missed *= (1.0 - worth) / (1.0 - known)
            best[answer] = worth
        found.append((1.0 - missed, total / (n + 1), -n / (n + 1), -float(n)))
    return found


def same_answer(answer: str) -> str:
    """An answer, regardless of case and surrounding space: what counts as the same."""
    return answer.strip().casefold()


@dataclass(frozen=True, slots=True)
class SetQuality:
    """The coefficients, none below 0."""

    alone: float
    """Quality without examples."""
    one: float
    vote: float
    displaced: float
    each: float

    def of(self, terms: Terms) -> float:
        """The expected quality, 0 to 1 but for what the linear form overshoots."""
        one, vote, displaced, each = terms
        return self.alone + self.one * one + self.vote * vote + self.displaced * displaced + self.each * each


UNLEARNT = SetQuality(alone=0.3, one=0.0, vote=0.5, displaced=0.0, each=0.0)
UNLEARNT_MOST = 5
"""Before there is evidence every example is expected to help, and so many are sent, best first."""


def coefficients(numbers: Sequence[float]) -> SetQuality:
    """From five numbers. Raises ValueError for others."""
    if len(numbers) != len(astuple(UNLEARNT)) or not all(isfinite(n) and n >= 0.0 for n in numbers):
        raise ValueError(f"coefficients {numbers}: five numbers from 0 are right")
    return SetQuality(*map(float, numbers))
