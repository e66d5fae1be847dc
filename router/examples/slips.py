"""Which listed word an unlisted one was probably meant to be: "platvorm", "ebmlem" and "freigot" are slips of the finger.

Two words a slip apart (a letter left out, put in, exchanged, or two swapped) share a form when each may lose a letter (Mor,
Fraenkel 1982, "A hash code method for detecting and correcting spelling errors"). The forms of a vocabulary are kept as
sorted numbers, a megabyte or two. Knows nothing of any text, so it is the same for everybody.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from functools import lru_cache

import numpy as np

MOST_WORDS = 15_000
"""Of the vocabulary, commonest first: who slips means a common word more often than one that nobody writes."""
SHORTEST, SHORTEST_MEANT, _SHORTEST_NAME = 4, 4, 3
_MARKS = 1 << 23
"""Bits, one in 75 of them set by the forms of 15,000 words (Bloom 1970, "Space/Time Trade-offs in Hash Coding with
Allowable Errors", with a single hash)."""
_LAST_MARK = _MARKS - 1


class Slips:
    """Immutable, so any thread may ask."""

    def __init__(self, ranked: Sequence[str]) -> None:
        """`ranked`: whole words, commonest first. Takes a tenth of a second for 15,000."""
        self._words = [
            word
            for word in ranked[:MOST_WORDS]
            if len(word) >= SHORTEST_MEANT and word.isalpha() and word.isascii()
        ]
        forms = [(hash(form), rank) for rank, word in enumerate(self._words) for form in _forms(word)]
        keys = np.array([key for key, _ in forms], np.int64)
        order = np.argsort(keys, kind="stable")
        self._keys = keys[order]
        self._ranks = np.array([rank for _, rank in forms], np.int32)[order]
        self._marks = bytearray(_MARKS // 8)
        for key in keys.tolist():
            self._marks[(key & _LAST_MARK) >> 3] |= 1 << (key & 7)
        self.meant = lru_cache(20_000)(self._meant)

    def _meant(self, word: str) -> str | None:
        if len(word) < SHORTEST or not (word.isalpha() and word.isascii()):
            return None
        marks, hit = self._marks, []
        # Most names share no form with any word: that shows here, in a twentieth of the time that looking them up takes.
        for form in _forms(word):
            key = hash(form)
            if marks[(key & _LAST_MARK) >> 3] & (1 << (key & 7)):
                hit.append(key)
        if not hit:
            return None
        wanted = np.array(hit, np.int64)
        first, last = self._keys.searchsorted(wanted, "left"), self._keys.searchsorted(wanted, "right")
        ranks = sorted(
            {int(r) for a, b in zip(first.tolist(), last.tolist(), strict=True) for r in self._ranks[a:b]}
        )
        for rank in ranks:
            other = self._words[rank]
            if (
                word != other
                and (len(word) > 4 or len(other) > 4 or sorted(word) == sorted(other))
                and one_slip(word, other)
            ):
                return other
        return None


def one_slip(one: str, other: str) -> bool:
    """Whether one letter left out, put in, exchanged, or two neighbours swapped, makes one word of the other."""
    if len(one) > len(other):
        one, other = other, one
    if len(other) - len(one) > 1:
        return False
    start = 0
    while start < len(one) and one[start] == other[start]:
        start += 1
    if len(one) < len(other):
        return one[start:] == other[start + 1 :]
    swapped = one[start + 1 : start + 2] + one[start : start + 1] + one[start + 2 :]
    return one[start + 1 :] == other[start + 1 :] or swapped == other[start:]


def swapped_or_doubled(one: str, other: str) -> bool:
    """Whether two words differ only in neighbours swapped or in a letter written twice.

    That is how hands slip, and hardly ever how two names differ, while a letter more or another one often is both.
    """
    if one == other or once(one) == once(other):
        return one != other
    if len(one) != len(other):
        return False
    differ = [i for i, (a, b) in enumerate(zip(one, other, strict=True)) if a != b]
    if len(differ) != 2 or differ[1] != differ[0] + 1:
        return False
    i, j = differ
    return one[i] == other[j] and one[j] == other[i]


KINDS: tuple[str, ...] = ("shorter", "longer", "vowel", "letter")
_VOWELS = frozenset("aeiouyàáâäåæèéêëìíîïòóôöøùúûü")


def kind_of_slip(one: str, other: str) -> int | None:
    """How `one` differs from `other`, if in one letter or digit: its place in KINDS.

    It lacks one, has one more, has another vowel (or digit), or another letter. None for words that differ in more, or as
    `swapped_or_doubled`. Names of people and places often differ in a vowel, and things in a digit; hands slip as they will.
    """
    less = len(other) - len(one)
    # Most words differ at both ends, or by more than a letter.
    if one == other or not -1 <= less <= 1 or (one[:1] != other[:1] and one[-1:] != other[-1:]):
        return None
    start = 0
    for a, b in zip(one, other, strict=False):
        if a != b:
            break
        start += 1
    if one[start + (less < 1) :] != other[start + (less > -1) :] or swapped_or_doubled(one, other):
        return None
    if less:
        return 0 if less > 0 else 1
    exchanged = {one[start], other[start]}
    return 2 if exchanged <= _VOWELS or all(map(str.isdigit, exchanged)) else 3


def once(word: str) -> str:
    """A word with every letter that is written several times in a row written once."""
    return "".join(letter for letter, _ in itertools.groupby(word))


def near_forms(words: Iterable[str]) -> frozenset[int]:
    """Numbers of which two words that differ in one letter share one, and hardly any others do; in this process only.

    Of words too short to tell there are none.
    """
    return frozenset([hash(form) for word in words if len(word) >= _SHORTEST_NAME for form in _forms(word)])


def _forms(word: str) -> set[str]:
    return {word} | {word[:i] + word[i + 1 :] for i in range(len(word))}
