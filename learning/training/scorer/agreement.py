"""Decides from texts alone whether two stored answers say the same, and whether they follow the same rule.

A stored request has its right answer. An example would probably have helped with it if the example's answer says the same
beyond what its question says: names, numbers, words that few answers contain. And where both answers spell a code from their
own questions, in one form, each shows the rule that the other follows.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence

from router.examples.reading import Text
from router.examples.slips import one_slip

SAME_FROM = 0.5
"""Least share of the matter in common for two answers to say the same."""
WHOLE_FROM = 0.6
"""Least share of the right answer's matter for another to say all of it; the answer to one of two questions has half."""
COMMON_SHARE = 0.1
"""Words in answers about more of the subjects than this are common wording, not matter."""
_NAMES_FROM = math.log(1 / 0.02) - math.log(1 / COMMON_SHARE)
"""Weight of a word in the answers about one in fifty subjects."""
_WORD = re.compile(r"\w+(?:[-.,:/@]\w+)*")


class Agreement:
    """Compares answers by the words that answers about few subjects contain. Immutable and thread-safe."""

    def __init__(self, answers: Iterable[tuple[str, str]]) -> None:
        """`answers`: those of the bank, each with its subject (`subjects`).

        They determine which words are common. Each subject counts once: the answer to a frequent question makes a large
        share of all answers, but its words are no common wording.
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
        """What an answer adds to its question: words with their weight, without common ones."""
        found = {word: self._weights.get(word, self._unseen) for word in _words(answer) - _words(question)}
        return {word: weight for word, weight in found.items() if weight > 0.0}

    def echoes(self, question: Text, answer: str) -> frozenset[str]:
        """Names from its question that an answer repeats: words that no vocabulary lists and few subjects contain."""
        said = _words(answer)
        return frozenset(
            word
            for word, excess in question.rare.items()
            if excess >= 1.0 and word in said and self._weights.get(word, self._unseen) >= _NAMES_FROM
        )

    @staticmethod
    def share(one: Mapping[str, float], other: Mapping[str, float]) -> float:
        """Share of the smaller of two matters that is in the larger, 0..1; 0 if either is empty.

        Of the smaller, since an answer often says more than was asked.
        """
        least = min(sum(one.values()), sum(other.values()))
        shared = sum(weight for word, weight in one.items() if word in other)
        return min(1.0, shared / least) if least > 0.0 else 0.0

    @staticmethod
    def covered(right: Mapping[str, float], given: Mapping[str, float]) -> float:
        """Share of the right answer's matter that is in another's, 0..1; 1 if it has none."""
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
    """The approximate subject of each question: its two rarest words; all of its words if it has no rare one.

    Two words, since one may be the tenant's product, which most questions name.
    """
    return [" ".join(list(question.rare)[:2]) or " ".join(sorted(question.words)) for question in questions]


_SHORTEST = 4


def _words(text: str) -> set[str]:
    return {word.lower() for word in _WORD.findall(text)}
