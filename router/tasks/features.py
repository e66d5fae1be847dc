"""Hashes the words and the runs of characters of an input, which a student sees beside its embedding, into fixed columns.

Nothing is fitted: the same text has the same columns in every process and version, so students of different ages can be
compared. Runs of characters are hashed by numpy at once, since a loop over them would take longer than the student itself.
"""

from __future__ import annotations

import re
import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

    Floats = npt.NDArray[np.float32]
    Ints = npt.NDArray[np.int32]

VERSION = "1"
"""Changes whenever columns or values would: students of another version are not opened."""
_HALF = 2**14
COLUMNS = 2 * _HALF
"""Words and pairs of words are hashed into one half, runs of characters into the other. Four times as many columns
were no better on RT-Polarity, the only file they were tried on."""
TRIGRAMS = 2**18
"""Places in which it is noted which runs of three characters were met."""

_RUNS = (3, 4, 5)
_MOST_CHARACTERS = 2000
"""The characters of a longer input that are read, at both ends."""
_WORD = re.compile(r"\w+|[^\w\s]")
_TO_HALF, _TO_TRIGRAMS = np.uint32(32 - 14), np.uint32(32 - 18)
_MULTIPLIER, _MIX = np.uint32(0x9E3779B1), np.uint32(0x85EBCA6B)


@dataclass(frozen=True, slots=True)
class Hashed:
    """One input's columns; `columns` and `values` are (columns that are not 0,)."""

    columns: Ints
    """Distinct, ascending, below COLUMNS; there is always one."""
    values: Floats
    """Words and characters have length 0.7 each, whatever the length of the text."""
    trigrams: Ints
    """Places of its runs of three characters, below TRIGRAMS, in their order."""


def hashed(text: str) -> Hashed:
    """Words, pairs of words, and runs of 3 to 5 characters of `text`, without regard to case. Takes some 60 microseconds."""
    read = _ends(text)
    # Half a surrogate pair comes in by JSON, and has no UTF-8.
    words = [word.encode("utf-8", "surrogatepass") for word in _WORD.findall(read)]
    checksums = list(map(zlib.crc32, words))
    checksums += map(zlib.crc32, words[1:], checksums)
    # Three spaces at least, so that nothing is without a column.
    padded = f"  {' '.join(read.split())} ".encode("utf-32-le", "surrogatepass")
    runs = _runs(np.frombuffer(padded, np.uint32))
    mixed = _mixed(np.concatenate([np.array(checksums, np.uint32), *runs]))
    of_words = len(checksums)
    columns = np.right_shift(mixed, _TO_HALF)
    columns[of_words:] += np.uint32(_HALF)
    columns.sort()
    edge = np.ones(len(columns) + 1, np.bool_)
    np.not_equal(columns[1:], columns[:-1], out=edge[1:-1])
    edges = edge.nonzero()[0]
    starts = edges[:-1]
    found = columns[starts].view(np.int32)
    # Square roots of counts have the root of the sum of the counts as their length.
    values = np.sqrt(edges[1:] - starts, dtype=np.float32)
    half = int(found.searchsorted(_HALF))
    values[:half] *= 0.7 / max(1, of_words) ** 0.5
    values[half:] *= 0.7 / (len(mixed) - of_words) ** 0.5
    trigrams = (mixed[of_words : of_words + len(runs[0])] >> _TO_TRIGRAMS).view(np.int32)
    return Hashed(found, values, trigrams)


def _ends(text: str) -> str:
    half = _MOST_CHARACTERS // 2
    return (text if len(text) <= _MOST_CHARACTERS else f"{text[:half]} {text[-half:]}").casefold()


def _runs(characters: npt.NDArray[np.uint32]) -> list[npt.NDArray[np.uint32]]:
    """A hash of every run of each length: a polynomial in its characters, modulo 2**32, from that of the run it extends."""
    found, value = [], np.zeros(len(characters), np.uint32)
    for length in range(1, _RUNS[-1] + 1):
        if length > len(characters):
            break
        value = value[: len(characters) - length + 1] * _MULTIPLIER + characters[length - 1 :]
        if length in _RUNS:
            found.append(value + np.uint32(length))
    return found


def _mixed(values: npt.NDArray[np.uint32]) -> npt.NDArray[np.uint32]:
    """Values whose upper bits depend on all bits (Knuth, TAOCP 6.4)."""
    return (values ^ (values >> np.uint32(15))) * _MIX
