"""Whether a word that a vocabulary does not list is made of words that it does: "username", "maintainer", "login".

Vocabularies of encoders list some twenty thousand whole words and leave the rest to pieces, so that much of plain English is
missing from them: compounds, and what prefixes and endings make. Such a word is rare, but it is no name. Endings are
English; compounds are found in whatever language the vocabulary lists.
"""

from __future__ import annotations

import itertools
from bisect import bisect_left
from collections.abc import Iterable
from functools import lru_cache

from router.examples.lexical_words import WORD_ENDINGS, WORD_PREFIXES

MOST_WORDS, MOST_SHORT_WORDS = 20_000, 5_000
"""Of the vocabulary, commonest first, how many may be parts; and of those with three letters, which names are full of."""
SHORTEST = 5
"""Letters of a word that is looked at."""
_SHORT, _STEM = 3, 4
_BEGINNING = 6
"""Letters of what may be short for a longer word; shorter ones are as often names ("Marit", "maritime")."""
_LOOKED_AT = 8
_PREFIXES = tuple(sorted(WORD_PREFIXES))
_ENDING_LENGTHS = sorted({len(ending) for ending in WORD_ENDINGS})
_PARTICLES = ("in", "on", "up", "out", "off")
"""What makes nouns of verbs, of short ones most of all: login, popup, layoff."""


class WordParts:
    """Immutable, so any thread may ask."""

    def __init__(self, ranked: Iterable[str]) -> None:
        """`ranked`: whole words in lower case, commonest first."""
        words = [word for word in itertools.islice(ranked, MOST_WORDS) if word.isalpha()]
        self._verbs = frozenset(word for word in words if _SHORT <= len(word) <= _STEM)
        self._words = frozenset(
            word
            for rank, word in enumerate(words)
            if len(word) > _SHORT or (len(word) == _SHORT and rank < MOST_SHORT_WORDS)
        )
        self._sorted = sorted(self._words)
        self.made_of_listed = lru_cache(20_000)(self._made_of_listed)

    def _made_of_listed(self, word: str) -> bool:
        if len(word) < SHORTEST or not word.isalpha():
            return False
        return (
            self._compound(word)
            or self._with_ending(word)
            or self._with_prefix(word)
            or self._beginning(word)
        )

    def _compound(self, word: str) -> bool:
        words = self._words
        return any(
            word[:at] in words and word[at:] in words for at in range(_SHORT, len(word) - _SHORT + 1)
        ) or (
            word.endswith(_PARTICLES)
            and any(word.endswith(after) and word[: -len(after)] in self._verbs for after in _PARTICLES)
        )

    def _with_ending(self, word: str) -> bool:
        words = self._words
        for length in _ENDING_LENGTHS:
            stem = word[:-length]
            if word[-length:] not in WORD_ENDINGS or len(stem) < _STEM - 1:
                continue
            # "approver", "dosage" lose an e, "dialling" and "tonnage" double a letter, "policies" and "shelved" change one.
            if (stem in words and len(stem) >= _STEM) or stem + "e" in words:
                return True
            last, before = stem[-1], stem[:-1]
            if (
                (last == "i" and before + "y" in words)
                or (last == "v" and before + "f" in words)
                or (last == before[-1] and (before in words or before in self._verbs))
            ):
                return True
        return False

    def _beginning(self, word: str) -> bool:
        """Of a longer word, as "config" is of "configuration"."""
        if len(word) < _BEGINNING:
            return False
        at = bisect_left(self._sorted, word)
        return any(
            other.startswith(word) and len(other) >= len(word) + _SHORT
            for other in self._sorted[at : at + _LOOKED_AT]
        )

    def _with_prefix(self, word: str) -> bool:
        return word.startswith(_PREFIXES) and any(
            word.startswith(prefix)
            and len(word) - len(prefix) >= _STEM
            and word[len(prefix) :] in self._words
            for prefix in _PREFIXES
        )
