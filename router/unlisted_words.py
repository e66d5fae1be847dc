"""How alike two texts spell the words that no vocabulary lists: names, identifiers, and slips of the finger.

Exact comparison takes "Verdania" and "Verdanai" for two names as different as any. By the share of letter pairs in common
(Dice 1945, "Measures of the Amount of Ecologic Association Between Species"; on letter pairs: Adamson, Boreham 1974, "The
use of an association measure based on character structure to identify semantically related pairs of words") the scorer
sees how near a miss is, and learns from outcomes what near misses are worth. Pure functions of texts that were read.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

NAMES: tuple[str, ...] = (
    "unlisted_covered",  # the request's unlisted words, each by the example's most alike; their mean, 1 where there are none
    "unlisted_missed",  # what the worst covered one lacks
    "unlisted_covers",  # and of the example's question, by the request
    "unlisted_strange",
    "unlisted_none",  # the request has no unlisted words
)

Alike = dict[tuple[str, str], float]
"""What was compared already for one request: names come again with every candidate."""


def unlisted(rare: Iterable[tuple[str, float]]) -> tuple[str, ...]:
    """Of a text's rare words, rarest first (router.scorer_reading.Text.rare), those that the vocabulary does not list.

    Without numbers, which are not misspelt into each other, and no more than a dozen.
    """
    found: list[str] = []
    for word, excess in rare:
        if excess < 1.0 or len(found) == _MOST:
            break
        if not word.isdigit():
            found.append(word)
    return tuple(found)


def compared(asked: tuple[str, ...], theirs: tuple[str, ...], alike: Alike) -> tuple[float, ...]:
    """Values of NAMES for the unlisted words of a request and of an example's question; each 0..1."""
    if asked == theirs:
        return (1.0, 0.0, 1.0, 0.0, not asked)
    if len(asked) == 1 and len(theirs) == 1:
        # By far the commonest case: one name against one name.
        value = _dice(asked[0], theirs[0])
        return (value, 1.0 - value, value, 1.0 - value, False)
    covered, missed = _covered(asked, theirs, alike, False)
    covers, strange = _covered(theirs, asked, alike, True)
    return covered, missed, covers, strange, not asked


_MOST = 12


def _covered(
    words: tuple[str, ...], others: tuple[str, ...], alike: Alike, turned: bool
) -> tuple[float, float]:
    if not words:
        return 1.0, 0.0
    if not others:
        return 0.0, 1.0
    total, least = 0.0, 1.0
    for word in words:
        best = 0.0
        if word in others:
            best = 1.0
        else:
            for other in others:
                pair = (other, word) if turned else (word, other)
                value = alike.get(pair)
                if value is None:
                    value = alike[pair] = _dice(*pair)
                if value > best:
                    best = value
        total += best
        if best < least:
            least = best
    return total / len(words), 1.0 - least


def _dice(a: str, b: str) -> float:
    if not (a.isalpha() and b.isalpha()):
        # A slip of the finger is likely in a name; an identifier with another letter or digit is another thing.
        return float(a == b)
    one, other = _letter_pairs(a), _letter_pairs(b)
    return 2.0 * len(one & other) / (len(one) + len(other))


@lru_cache(20_000)
def _letter_pairs(word: str) -> frozenset[str]:
    """With its beginning and end, which tell names apart more than what is between."""
    padded = f"^{word}$"
    return frozenset(padded[i : i + 2] for i in range(len(padded) - 1))
