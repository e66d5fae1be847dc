"""Which of two remembered answers say the same, and which follow the same rule: found in the answers' texts alone.

A remembered request is known with its right answer. Whether an example would have helped with it shows, roughly, in whether
the example's answer says the same beside what its question says: names, numbers, words that few answers have. And where both
answers spell a code from their own questions, in one form, either shows the rule that the other follows.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping

from router.scorer_reading import spelled_from

SAME_FROM = 0.5
"""Share of the matter in common from which two answers say the same."""
COMMON_SHARE = 0.1
"""Words in more of the answers than this are manner of speaking, not matter."""
_WORD = re.compile(r"\w+(?:[-.,:/@]\w+)*")
_LETTERS, _DIGITS = re.compile(r"[^\W\d_]+"), re.compile(r"\d+")
_AROUND = ".,;:!?\"'\u201c\u201d()"


class Agreement:
    """Compares answers by the words few answers have. Immutable, so any thread may ask."""

    def __init__(self, answers: Iterable[str]) -> None:
        """`answers`: of the bank that is learnt from; they say which words are common there."""
        counts: Counter[str] = Counter()
        total = 0
        for answer in answers:
            counts.update(_words(answer))
            total += 1
        common = math.log(1 / COMMON_SHARE)
        self._unseen = max(0.0, math.log(total + 1) - common) if total else 1.0
        self._weights: Mapping[str, float] = {
            word: max(0.0, math.log(total / count) - common) for word, count in counts.items()
        }

    def matter(self, question: str, answer: str) -> dict[str, float]:
        """What an answer adds to its question: words with their weight, common ones left out."""
        found = {word: self._weights.get(word, self._unseen) for word in _words(answer) - _words(question)}
        return {word: weight for word, weight in found.items() if weight > 0.0}

    @staticmethod
    def share(one: Mapping[str, float], other: Mapping[str, float]) -> float:
        """How much of the smaller of two matters is in the larger, 0..1; 0 where either is empty.

        Of the smaller, since an answer often says more than was asked.
        """
        least = min(sum(one.values()), sum(other.values()))
        shared = sum(weight for word, weight in one.items() if word in other)
        return min(1.0, shared / least) if least > 0.0 else 0.0


def forms(question: str, answer: str) -> frozenset[str]:
    """The forms of the codes that an answer spells from its question: for John Doe, "jdoe4" is of the form "a0"."""
    return frozenset(
        _DIGITS.sub("0", _LETTERS.sub("a", run))
        for run in (part.strip(_AROUND) for part in answer.split())
        if len(run) >= _SHORTEST and not run.isalpha() and spelled_from(question, run) > 0.0
    )


_SHORTEST = 4


def _words(text: str) -> set[str]:
    return {word.lower() for word in _WORD.findall(text)}
