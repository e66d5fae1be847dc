"""How rare a word is, without counting anybody's texts: read off the order of a tokenizer's vocabulary.

Vocabularies list whole words by falling frequency in the texts they were made from, so a word's rank stands for its
frequency. By Zipf's law (Zipf 1949: frequency falls as 1 / rank) the inverse document frequency of a word is the
logarithm of its rank, up to constants that cancel when it is brought to 0..1. Words that are not listed, numbers and
identifiers are the rarest: it is they that tell one name from another. Knows nothing of any corpus or tenant, so it is
the same for everybody from the start.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from functools import cached_property
from pathlib import Path
from typing import Any

from router.examples.slips import Slips
from router.examples.word_parts import WordParts

FEWEST_WORDS = 1000
"""A vocabulary with fewer whole words says nothing about frequency: then length stands for rarity."""
_COMMON_LENGTH, _RARE_LENGTH = 3, 12
MADE_OF_LISTED = 0.9
"""Rarity of a word that is not listed, but made of words that are: rare, and no name."""
_WORD_STARTS = ("\u2581", "\u0120")
"""What marks a word's first piece: SentencePiece's underline, and the space of byte-level vocabularies."""


class Rarity:
    """From a word to its rarity, 0 (everywhere) to 1 (nowhere but here). Immutable, so any thread may ask."""

    def __init__(self, words: Iterable[str] = ()) -> None:
        """`words`: whole words, commonest first. With too few of them, rarity goes by a word's length."""
        ranked = list(dict.fromkeys(words))
        self.by_length: bool = len(ranked) < FEWEST_WORDS
        """Whether there was no usable vocabulary."""
        scale = math.log1p(len(ranked))
        self._by_word = (
            {} if self.by_length else {word: math.log1p(rank) / scale for rank, word in enumerate(ranked)}
        )

    @classmethod
    def read(cls, tokenizer: Path) -> Rarity:
        """From a `tokenizer.json` (WordPiece, BPE or Unigram); some 30 ms. By length if it holds no such vocabulary."""
        try:
            pieces = _pieces(json.loads(tokenizer.read_bytes()))
        except (OSError, ValueError, TypeError, KeyError, AttributeError):
            return cls()
        return cls(_whole_words(pieces))

    def __call__(self, word: str) -> float:
        """Rarity of a word in lower case, apostrophes gone, as router.examples.lexical_things.Things.words are."""
        if len(word) == 1 and word.isascii() and word.isalpha():
            return 0.0
        if self.by_length:
            span = _RARE_LENGTH - _COMMON_LENGTH
            return 1.0 if not word.isalpha() else min(1.0, max(0.0, (len(word) - _COMMON_LENGTH) / span))
        known = self._by_word.get(word)
        if known is None and word.endswith("s"):
            # Plurals and "whats" are no rarer than what they are made of.
            known = self._by_word.get(word[:-1])
        if known is None:
            return MADE_OF_LISTED if self.parts.made_of_listed(word) else 1.0
        return known

    @cached_property
    def parts(self) -> WordParts:
        """Of the vocabulary's words; takes some milliseconds at first."""
        return WordParts(self._by_word)

    @cached_property
    def slips(self) -> Slips:
        """Of the vocabulary's words; takes a tenth of a second at first."""
        return Slips(list(self._by_word))

    def of(self, words: Iterable[str]) -> dict[str, float]:
        """Each word with its rarity, in order; a call for each of them would take most of the time."""
        by_word = self._by_word
        found: dict[str, float] = {}
        for word in words:
            known = by_word.get(word)
            found[word] = self(word) if known is None or len(word) == 1 else known
        return found


def _pieces(tokenizer: Any) -> list[str]:
    """Every piece of the vocabulary in its own order, special ones left out."""
    vocabulary = tokenizer["model"]["vocab"]
    special = {added["content"] for added in tokenizer.get("added_tokens") or ()}
    if isinstance(vocabulary, dict):
        ordered = sorted(vocabulary, key=vocabulary.__getitem__)
    else:
        ordered = [piece for piece, _ in vocabulary]
    return [piece for piece in ordered if piece not in special]


def _whole_words(pieces: list[str]) -> Iterable[str]:
    """Pieces that are words by themselves, in lower case. In vocabularies that mark a word's start, only marked ones."""
    for mark in _WORD_STARTS:
        marked = [piece[1:] for piece in pieces if piece.startswith(mark)]
        if len(marked) >= FEWEST_WORDS:
            pieces = marked
            break
    # Single characters come first as an alphabet, not for being frequent.
    return [piece.casefold() for piece in pieces if len(piece) > 1 and piece.isalpha()]
