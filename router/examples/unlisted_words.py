"""How alike two texts spell the words that no vocabulary lists: names, identifiers, and slips of the finger.

Exact comparison takes "Verdania" and "Verdanai" for two names as different as any. By the share of letter pairs in common
(Dice 1945, "Measures of the Amount of Ecologic Association Between Species"; on letter pairs: Adamson, Boreham 1974, "The
use of an association measure based on character structure to identify semantically related pairs of words") the scorer
sees how near a miss is, and learns from outcomes what near misses are worth. Pure functions of texts that were read.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from functools import lru_cache
from typing import NamedTuple

NAMES: tuple[str, ...] = (
    "unlisted_covered",  # the request's unlisted words, each by the example's most alike; their mean, 1 where there are none
    "unlisted_missed",  # what the worst covered one lacks
    "unlisted_covers",  # and of the example's question, by the request
    "unlisted_strange",
    "unlisted_none",  # the request has no unlisted words
)


class Spelling(NamedTuple):
    """A word's pairs of letters, as a set."""

    word: str
    pairs: int
    """A bit for each; 0 where there are other letters than a to z (`_letter_pairs` has those)."""
    distinct: int
    """How many there are; 0 for what is no name: an identifier with another letter or digit is another thing."""
    letters: str = ""
    """Which letters it has, in order of the alphabet: the same for words that differ by a swap or a doubled letter
    (router.examples.slips.swapped_or_doubled). Empty for words too short to tell."""


def unlisted(rare: Iterable[tuple[str, float]]) -> tuple[Spelling, ...]:
    """Of a text's words with their excess rarity (router.examples.reading.Text.rare), those that the vocabulary does
    not list.

    Without numbers, which are not misspelt into each other, and no more than a dozen.
    """
    found: list[Spelling] = []
    for word, excess in rare:
        if len(found) == _MOST:
            break
        if excess >= 1.0 and not word.isdigit():
            found.append(spelling(word))
    return tuple(found)


def compared(asked: tuple[Spelling, ...], theirs: tuple[Spelling, ...]) -> tuple[float, ...]:
    """Values of NAMES for the unlisted words of a request and of an example's question; each 0..1."""
    if asked == theirs:
        return (1.0, 0.0, 1.0, 0.0, not asked)
    if not asked:
        return (1.0, 0.0, 0.0, 1.0, True)
    if not theirs:
        return (0.0, 1.0, 1.0, 0.0, False)
    total, least = 0.0, 1.0
    bests = [0.0] * len(theirs)
    for word, pairs, distinct, _ in asked:
        best = 0.0
        for place, (other, other_pairs, other_distinct, _) in enumerate(theirs):
            if pairs and other_pairs:
                value = 2.0 * (pairs & other_pairs).bit_count() / (distinct + other_distinct)
            elif word == other:
                value = 1.0
            elif not (distinct and other_distinct):
                continue
            else:
                value = 2.0 * len(_letter_pairs(word) & _letter_pairs(other)) / (distinct + other_distinct)
            if value > best:
                best = value
            if value > bests[place]:
                bests[place] = value
        total += best
        if best < least:
            least = best
    return total / len(asked), 1.0 - least, sum(bests) / len(bests), 1.0 - min(bests), False


_MOST, _SHORTEST = 12, 4
_PLACES = 28
"""The letters a to z, and a word's beginning and end."""


@lru_cache(20_000)
def spelling(word: str) -> Spelling:
    """Of a word in lower case."""
    if not word.isalpha():
        return Spelling(word, 0, 0)
    letters = "".join(sorted(set(word))) if len(word) >= _SHORTEST else ""
    if not (word.isascii() and word.islower()):
        return Spelling(word, 0, len(_letter_pairs(word)), letters)
    pairs = 0
    for one, next_one in itertools.pairwise(
        (0, *(ord(letter) - ord("a") + 1 for letter in word), _PLACES - 1)
    ):
        pairs |= 1 << (_PLACES * one + next_one)
    return Spelling(word, pairs, pairs.bit_count(), letters)


@lru_cache(20_000)
def _letter_pairs(word: str) -> frozenset[str]:
    """With its beginning and end, which tell names apart more than what is between."""
    padded = f"^{word}$"
    return frozenset(padded[i : i + 2] for i in range(len(padded) - 1))
