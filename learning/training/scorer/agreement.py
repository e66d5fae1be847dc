"""Which of two remembered answers say the same, and which follow the same rule: found in the answers' texts alone.

A remembered request is known with its right answer. Whether an example would have helped with it shows, roughly, in whether
the example's answer says the same beside what its question says: names, numbers, words that few answers have. And where both
answers spell a code from their own questions, in one form, either shows the rule that the other follows.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence

from router.examples.reading import Text
from router.examples.slips import one_slip

SAME_FROM = 0.5
"""Share of the matter in common from which two answers say the same."""
WHOLE_FROM = 0.6
"""Share of the right answer's matter from which another says all of it: of two things that were asked, half is one."""
COMMON_SHARE = 0.1
"""Words in answers about more of the subjects than this are manner of speaking, not matter."""
_NAMES_FROM = math.log(1 / 0.02) - math.log(1 / COMMON_SHARE)
"""Weight of a word in the answers about one in fifty subjects."""
_WORD = re.compile(r"\w+(?:[-.,:/@]\w+)*")


class Agreement:
    """Compares answers by the words that answers about few subjects have. Immutable, so any thread may ask."""

    def __init__(self, answers: Iterable[tuple[str, str]]) -> None:
        """`answers`: of the bank that is learnt from, each with the subject it is about (`subjects`).

        They say which words are common there. Each subject counts once: the answer to what everybody asks is in a great
        share of all answers, and no manner of speaking for that.
        """
        about: dict[str, set[str]] = {}
        everything = set()
        for subject, answer in answers:
            everything.add(subject)
            for word in _words(answer):
                about.setdefault(word, set()).add(subject)
        total, common = len(everything), math.log(1 / COMMON_SHARE)
        self._unseen = max(0.0, math.log(total + 1) - common) if total else 1.0
        self._weights: Mapping[str, float] = {
            word: max(0.0, math.log(total / len(of)) - common) for word, of in about.items()
        }

    def matter(self, question: str, answer: str) -> dict[str, float]:
        """What an answer adds to its question: words with their weight, common ones left out."""
        found = {word: self._weights.get(word, self._unseen) for word in _words(answer) - _words(question)}
        return {word: weight for word, weight in found.items() if weight > 0.0}

    def echoes(self, question: Text, answer: str) -> frozenset[str]:
        """What an answer says again of whom its question names: words that no vocabulary lists and few subjects have."""
        said = _words(answer)
        return frozenset(
            word
            for word, excess in question.rare.items()
            if excess >= 1.0 and word in said and self._weights.get(word, self._unseen) >= _NAMES_FROM
        )

    @staticmethod
    def share(one: Mapping[str, float], other: Mapping[str, float]) -> float:
        """How much of the smaller of two matters is in the larger, 0..1; 0 where either is empty.

        Of the smaller, since an answer often says more than was asked.
        """
        least = min(sum(one.values()), sum(other.values()))
        shared = sum(weight for word, weight in one.items() if word in other)
        return min(1.0, shared / least) if least > 0.0 else 0.0

    @staticmethod
    def covered(right: Mapping[str, float], given: Mapping[str, float]) -> float:
        """How much of the right answer's matter is in another's, 0..1; 1 where it has none."""
        whole = sum(right.values())
        shared = sum(weight for word, weight in right.items() if word in given)
        return min(1.0, shared / whole) if whole > 0.0 else 1.0


def contradicted(names: Iterable[str], texts: str) -> bool:
    """Whether the texts miss one of the names, slips of the finger apart: then they are about something else."""
    said = _words(texts)
    return any(name not in said and not _slipped(name, said) for name in names)


def _slipped(name: str, said: Iterable[str]) -> bool:
    return name.isalpha() and any(
        len(word) >= _SHORTEST and one_slip(name, word) for word in said if word.isalpha()
    )


def subjects(questions: Sequence[Text]) -> list[str]:
    """What each question is about, roughly: its two rarest words; all of its words where it has no rare one.

    Two, since one may be the tenant's product, which is named in most of what it is asked.
    """
    return [" ".join(list(question.rare)[:2]) or " ".join(sorted(question.words)) for question in questions]


_SHORTEST = 4


def _words(text: str) -> set[str]:
    return {word.lower() for word in _WORD.findall(text)}
