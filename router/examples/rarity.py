"""Estimates how rare a word is from the order of a tokenizer's vocabulary, without counting anybody's texts.

Vocabularies list whole words by falling frequency, so a word's rank stands for its frequency. By Zipf's law (Zipf 1949:
frequency falls as 1 / rank) the inverse document frequency of a word is the logarithm of its rank, up to constants that
cancel when it is scaled to 0..1. Words that are not listed, numbers and identifiers are the rarest: they tell one name
from another. The estimate uses no corpus and no tenant's data, so it is the same for everybody from the start.
"""

from __future__ import annotations

import json
import math
import re
import unicodedata
from collections.abc import Iterable
from pathlib import Path
from typing import Any

FEWEST_WORDS = 1000
"""A vocabulary with fewer whole words says nothing about frequency; length then stands for rarity."""
_COMMON_LENGTH, _RARE_LENGTH = 3, 12
_TELLING_FROM, _MOST_TELLING, _LONGEST = 0.35, 8, 2000
_WORD = re.compile(r"[^\W_]+")
_WORD_STARTS = ("\u2581", "\u0120")
"""The mark of a word's first piece: SentencePiece's underline, and the space of byte-level vocabularies."""


class Rarity:
    """Maps a word to its rarity, 0 (everywhere) to 1 (almost nowhere). Immutable and thread-safe."""

    def __init__(self, words: Iterable[str] = ()) -> None:
        """`words`: whole words, most frequent first. With too few of them, rarity goes by a word's length."""
        ranked = list(dict.fromkeys(words))
        self.by_length: bool = len(ranked) < FEWEST_WORDS
        """True if there was no usable vocabulary."""
        scale = math.log1p(len(ranked))
        self._by_word = (
            {} if self.by_length else {word: math.log1p(rank) / scale for rank, word in enumerate(ranked)}
        )

    @classmethod
    def read(cls, tokenizer: Path) -> Rarity:
        """From a `tokenizer.json` (WordPiece, BPE or Unigram); takes some 30 ms. By length without a usable vocabulary."""
        try:
            pieces = _pieces(json.loads(tokenizer.read_bytes()))
        except (OSError, ValueError, TypeError, KeyError, AttributeError):
            return cls()
        return cls(_whole_words(pieces))

    def __call__(self, word: str) -> float:
        """Rarity of a lower-case word."""
        if len(word) == 1 and word.isascii() and word.isalpha():
            return 0.0
        if self.by_length:
            span = _RARE_LENGTH - _COMMON_LENGTH
            return 1.0 if not word.isalpha() else min(1.0, max(0.0, (len(word) - _COMMON_LENGTH) / span))
        known = self._by_word.get(word)
        if known is None and word.endswith("s"):
            # Plurals and "whats" are no rarer than the word they are made from.
            known = self._by_word.get(word[:-1])
        return 1.0 if known is None else known

    def of(self, words: Iterable[str]) -> dict[str, float]:
        """The rarity of each word, in order; calling this object for each would take most of the time."""
        by_word = self._by_word
        found: dict[str, float] = {}
        for word in words:
            known = by_word.get(word)
            found[word] = self(word) if known is None or len(word) == 1 else known
        return found

    def telling(self, text: str) -> list[str]:
        """The rarest words of a text, without accents, by which others that are about the same are found."""
        plain = "".join(
            c for c in unicodedata.normalize("NFD", text[:_LONGEST]) if not unicodedata.combining(c)
        )
        rarities = self.of(_WORD.findall(plain.lower()))
        rare = [word for word, rarity in rarities.items() if rarity > _TELLING_FROM]
        return sorted(rare, key=lambda word: -rarities[word])[:_MOST_TELLING]


def _pieces(tokenizer: Any) -> list[str]:
    """Every piece of the vocabulary in its own order, special ones excluded."""
    vocabulary = tokenizer["model"]["vocab"]
    special = {added["content"] for added in tokenizer.get("added_tokens") or ()}
    if isinstance(vocabulary, dict):
        ordered = sorted(vocabulary, key=vocabulary.__getitem__)
    else:
        ordered = [piece for piece, _ in vocabulary]
    return [piece for piece in ordered if piece not in special]


def _whole_words(pieces: list[str]) -> Iterable[str]:
    """Pieces that are whole words, in lower case. Where the vocabulary marks a word's start, only marked ones."""
    for mark in _WORD_STARTS:
        marked = [piece[1:] for piece in pieces if piece.startswith(mark)]
        if len(marked) >= FEWEST_WORDS:
            pieces = marked
            break
        # Single characters come first as an alphabet, not because they are frequent.
    return [piece.casefold() for piece in pieces if len(piece) > 1 and piece.isalpha()]
