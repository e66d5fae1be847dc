"""Codes in answers that are spelled from their questions: user names, shelf marks. They show a rule.

Such an example may help with a question about another name, and answers whose codes have one form answer one kind of
question.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from router.examples.lexical_things import LONGEST

_RUN = re.compile(r"[^\s,;:!?\"\u201c\u201d()]+")
_LETTERS = re.compile(r"[^\W\d_]+")
_DIGITS = re.compile(r"\d+")
_AROUND = ".,;:!?\"'\u201c\u201d()"
_LEAST_SPELLED, _WHOLLY_SPELLED = 3, 8
"""Letters in a row that a question and a code in its answer must share to be more than chance; and those that are enough."""
_SHORTEST_CODE, _LONGEST_CODE = 4, 40


def codes(question: str, answer: str) -> tuple[str, ...]:
    """The runs of letters in an answer's codes: what holds more than letters and does not stand in the question as it is."""
    asked = question[:LONGEST].casefold()
    found = {run.strip(".'-").casefold() for run in _RUN.findall(answer, 0, LONGEST)}
    found = {c for c in found if 4 <= len(c) <= _LONGEST_CODE and not c.isalpha() and c not in asked}
    return tuple(
        part for code in sorted(found) for part in _LETTERS.findall(code) if len(part) >= _LEAST_SPELLED
    )


def spelled_by(words: Iterable[str], parts: Sequence[str]) -> float:
    """How far a code, by its runs of letters (`codes`), is made of letters of the words, in lower case; 0..1."""
    longest = 0
    for word in words:
        if len(word) >= _LEAST_SPELLED:
            for part in parts:
                longest = max(longest, _run_in_common(part, word))
    return min(1.0, longest / _WHOLLY_SPELLED) if longest >= _LEAST_SPELLED else 0.0


def spelled_from(question: str, answer: str) -> float:
    """How far a code in the answer is made of letters of the question, 0..1: a user name from a name, say.

    Such an example shows a rule, and so may help with questions about other names.
    """
    parts = codes(question, answer)
    return spelled_by(set(_LETTERS.findall(question[:LONGEST].casefold())), parts) if parts else 0.0


def forms(question: str, answer: str) -> frozenset[str]:
    """The forms of the codes that an answer spells from its question: for John Doe, "jdoe4" is of the form "a0"."""
    return frozenset(
        _DIGITS.sub("0", _LETTERS.sub("a", run))
        for run in (part.strip(_AROUND) for part in answer.split())
        if len(run) >= _SHORTEST_CODE and not run.isalpha() and spelled_from(question, run) > 0.0
    )


def _run_in_common(a: str, b: str) -> int:
    """Length of the longest run of letters that both hold."""
    longest = 0
    for start in range(len(a)):
        while start + longest < len(a) and a[start : start + longest + 1] in b:
            longest += 1
    return longest
