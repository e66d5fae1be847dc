"""Noisy counts of the words that a tenant's contributors use together: all that a private bank learns of their requests.

Each contributor counts once per (scope, cell, word), and for a bounded number of them; cells are drawn in the space of
embeddings before anybody asked anything. Counts get noise; those below a threshold are not released, nor that they exist.
"""

from __future__ import annotations

import random
import re
import secrets
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from learning.private.discrete_gaussian import Below, discrete_gaussian
from store.records import Vector

_WORD = re.compile(r"[^\W\d_][\w'-]{2,29}")
Bin = tuple[str, int, str]
"""(scope, cell, word)."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """The most that one contributor may add to the counts, over all of their requests."""

    cells: int = 3
    """The most (scope, cell)."""
    words: int = 8
    """In each."""

    @property
    def bins(self) -> int:
        """Counts that one contributor changes at most, each by one."""
        return self.cells * self.words


class Cells:
    """The sides of random planes through the origin on which a vector lies (Charikar 2002): drawn from a seed alone."""

    def __init__(self, dimensions: int, planes: int, seed: int = 0) -> None:
        """`planes`: 2^planes cells. Nothing that anybody asked takes part in where they lie."""
        self._planes = np.random.default_rng(seed).standard_normal((planes, dimensions)).astype(np.float32)

    def of(self, vector: Vector) -> int:
        """The cell of a vector, 0 to 2^planes - 1."""
        return int("0" + "".join("1" if side > 0 else "0" for side in self._planes @ vector), 2)


def words_of(question: str, is_common: Callable[[str], bool]) -> set[str]:
    """Return the words of a question in lower case, without numbers and without what `is_common` in any text."""
    found = {word.casefold().strip("'-") for word in _WORD.findall(question)}
    return {word for word in found if len(word) > 2 and not is_common(word)}


def bounded(said: Iterable[tuple[str, int, set[str]]], bounds: Bounds, rng: random.Random) -> set[Bin]:
    """Draw the bins that count of one contributor's (scope, cell, words): at most `bounds.bins`, at random."""
    by_place: dict[tuple[str, int], set[str]] = {}
    for scope, cell, words in said:
        if words:
            by_place.setdefault((scope, cell), set()).update(words)
    places = rng.sample(sorted(by_place), min(bounds.cells, len(by_place)))
    return {
        (*place, word)
        for place in places
        for word in rng.sample(sorted(by_place[place]), min(bounds.words, len(by_place[place])))
    }


def counted(by_contributor: Iterable[set[Bin]]) -> dict[Bin, int]:
    """Count the contributors of each bin."""
    counts: dict[Bin, int] = {}
    for bins in by_contributor:
        for each in bins:
            counts[each] = counts.get(each, 0) + 1
    return counts


def released(
    counts: Mapping[Bin, int], variance: Fraction, threshold: int, below: Below = secrets.randbelow
) -> dict[Bin, int]:
    """The counts with noise, those that reach the threshold, in an order that tells nothing.

    The privacy of it: learning.private.budget. What is done with the result costs nothing more.
    """
    noisy = {each: count + discrete_gaussian(variance, below) for each, count in sorted(counts.items())}
    return {each: count for each, count in noisy.items() if count >= threshold}


def topics(told: Mapping[Bin, int], least_words: int) -> list[tuple[str, int, list[str]]]:
    """(scope, cell, words, the most counted first) of the cells that have enough words to ask about."""
    by_place: dict[tuple[str, int], list[tuple[int, str]]] = {}
    for (scope, cell, word), count in told.items():
        by_place.setdefault((scope, cell), []).append((-count, word))
    return [
        (scope, cell, [word for _, word in sorted(words)])
        for (scope, cell), words in sorted(by_place.items())
        if len(words) >= least_words
    ]


def bins_of(
    questions: Sequence[tuple[str, int, str]],
    is_common: Callable[[str], bool],
    bounds: Bounds,
    rng: random.Random,
) -> set[Bin]:
    """One contributor's bins, from (scope, cell, question) of each of theirs."""
    return bounded(
        ((scope, cell, words_of(question, is_common)) for scope, cell, question in questions), bounds, rng
    )
