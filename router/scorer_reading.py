"""What the scorer needs to know of a text by itself: its words with their rarity, its numbers, its names.

Reading costs some 40 microseconds, so what was read of examples is kept, also packed into numbers: laid side by
side, the words of all candidates are looked up at once.
"""

from __future__ import annotations

import math
import re
import threading
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from router.lexical_gates import LONGEST, traits
from router.lexical_words import FUNCTION_WORDS
from router.rarity import Rarity
from store.records import Example

if TYPE_CHECKING:
    import numpy.typing as npt

_EARLIER = "\n(Earlier: "
"""Where router.digest.question begins to tell of earlier turns."""
_IDENTIFIER = re.compile(r"(?<![\w-])(?:[^\W\d]|-)*+\d[\w-]*")
"""QX-410, A97X, 258-CS: as one word beside its parts."""

_RUN = re.compile(r"[^\s,;:!?\"\u201c\u201d()]+")
_LETTERS = re.compile(r"[^\W\d_]+")
_LEAST_SPELLED, _WHOLLY_SPELLED = 3, 8
"""Letters in a row that a question and a code in its answer must share to be more than chance; and those that are enough."""
_LONGEST_CODE = 40

RARE_FROM = 0.6
"""Rarity from which a word begins to count as one that tells things apart; below are some four hundred words."""


@dataclass(frozen=True, slots=True)
class Text:
    """A text, read. Weights are rarities; `rare` are what of them exceeds RARE_FROM, scaled to 0..1."""

    length: int
    words: frozenset[str]
    """All but function words."""
    weights: dict[str, float]
    """Each of `words` with its rarity."""
    weight: float
    """Their sum."""
    common_weight: float
    """The part of it that falls to words that are not rare."""
    rare: dict[str, float]
    """The rare ones with their excess, rarest first."""
    rare_weight: float
    turn: dict[str, float]
    """Of `rare` (or it itself), what the last turn says; the rest is of earlier turns (router.digest.question)."""
    turn_weight: float
    turn_words: frozenset[str]
    every_word: frozenset[str]
    numbers: tuple[str, ...]
    machine: tuple[str, ...]
    """Sorted."""
    names: frozenset[str]
    asks: frozenset[str]


def read(text: str, rarity: Rarity) -> Text:
    """Linear in the text, of which router.lexical_gates.LONGEST characters are looked at."""
    found = traits(text)
    every_word = frozenset(found.words)
    turn, earlier, _ = text[:LONGEST].partition(_EARLIER)
    words = every_word - FUNCTION_WORDS
    if found.numbers:
        # Without a digit there is none to be found, and looking takes a while.
        runs = _IDENTIFIER.findall(text, 0, LONGEST)
        words = words.union([run.casefold() for run in runs if not run.isdigit()]) - FUNCTION_WORDS
    # Sorted, and by word where equally rare: the same text reads the same in every process.
    weights = {word: rarity(word) for word in sorted(words)}
    below = sorted([(-_excess(weight), word) for word, weight in weights.items() if weight > RARE_FROM])
    rare = {word: -excess for excess, word in below}
    said, of_turn = words, rare
    if earlier:
        folded = turn.casefold().replace("'", "").replace("\u2019", "")
        said = frozenset(word for word in words if word in folded)
        of_turn = {word: over for word, over in rare.items() if word in said}
    return Text(
        length=found.length,
        words=words,
        weights=weights,
        weight=sum(weights.values()),
        common_weight=sum([weight for weight in weights.values() if weight <= RARE_FROM]),
        rare=rare,
        rare_weight=sum(rare.values()),
        turn=of_turn,
        turn_weight=sum(of_turn.values()),
        turn_words=said,
        every_word=every_word,
        numbers=found.numbers,
        machine=tuple(sorted(found.machine)),
        names=frozenset(found.names) - FUNCTION_WORDS,
        asks=found.asks,
    )


def _excess(weight: float) -> float:
    return (weight - RARE_FROM) / (1 - RARE_FROM)


ROWS = ("key", "weight", "excess", "turn_excess", "common_weight", "answer_excess")
"""Rows of `Pair.packed`. key: the bits of `word_keys`. weight to common_weight: of the question's words, turn_excess only of
those that its last turn says. answer_excess: of the answer's words. Each is 0 for a word that it does not apply to."""


@dataclass(frozen=True, slots=True)
class Pair:
    """An example's two texts, read. Of the answer only its words are compared."""

    question: Text
    rare: tuple[tuple[str, float], ...]
    """The question's, as pairs: the rarest first."""
    question_length: float
    """A logarithm of characters."""
    answer_length: float
    spelled: float
    """`spelled_from` of the two texts."""
    packed: npt.NDArray[np.float64] = field(compare=False, repr=False)
    """Every word of either, [ROWS, words + 1]: laid side by side, all candidates' words are looked up at once. The last
    column is of no word, so that no pair is without any."""


def word_keys(words: Iterable[str]) -> npt.NDArray[np.int64]:
    """Numbers that stand for words within this process: two words share one in 1 of 2**61 cases."""
    return np.array([hash(word) for word in words], np.int64)


def _packed(question: Text, answer: Mapping[str, float]) -> npt.NDArray[np.float64]:
    """`answer`: its words with their rarity."""
    columns = {
        word: [weight, question.rare.get(word, 0.0), question.turn.get(word, 0.0), 0.0, 0.0]
        for word, weight in question.weights.items()
    }
    for word, column in columns.items():
        if word not in question.rare:
            column[3] = column[0]
    for word, weight in answer.items():
        if weight > RARE_FROM:
            columns.setdefault(word, [0.0] * 5)[4] = _excess(weight)
    packed = np.zeros((len(ROWS), len(columns) + 1))
    packed[0, :-1] = word_keys(columns).view(np.float64)
    packed[1:, :-1] = np.array(list(columns.values())).reshape(len(columns), len(ROWS) - 1).T
    return packed


def spelled_from(question: str, answer: str) -> float:
    """How far a code in the answer is made of letters of the question, 0..1: a user name from a name, say.

    Such an example shows a rule, and so may help with questions about other names. A code is a run that holds more than
    letters and does not stand in the question as it is.
    """
    asked = question[:LONGEST].casefold()
    codes = {run.strip(".'-").casefold() for run in _RUN.findall(answer, 0, LONGEST)}
    codes = {c for c in codes if 4 <= len(c) <= _LONGEST_CODE and not c.isalpha() and c not in asked}
    if not codes:
        return 0.0
    parts = [part for code in codes for part in _LETTERS.findall(code) if len(part) >= _LEAST_SPELLED]
    words = {word for word in _LETTERS.findall(asked) if len(word) >= _LEAST_SPELLED}
    longest = max((_run_in_common(part, word) for part in parts for word in words), default=0)
    return min(1.0, longest / _WHOLLY_SPELLED) if longest >= _LEAST_SPELLED else 0.0


def _run_in_common(a: str, b: str) -> int:
    """Length of the longest run of letters that both hold."""
    longest = 0
    for start in range(len(a)):
        while start + longest < len(a) and a[start : start + longest + 1] in b:
            longest += 1
    return longest


class Readings:
    """Examples read lately, the least recently needed forgotten first. Any thread may ask.

    An example whose texts were replaced (store.twins) keeps its id: the texts' hash is part of the key.
    """

    def __init__(self, rarity: Rarity, entries: int) -> None:
        """`entries`: examples kept, some five kilobytes each; 0 keeps none."""
        self.rarity = rarity
        self._entries = entries
        # Not cachetools.LRUCache: looking twenty examples up in it took a tenth of what scoring them may take.
        self._kept: OrderedDict[tuple[int, int, int], Pair] = OrderedDict()
        self._lock = threading.Lock()

    def of(self, examples: Sequence[Example]) -> list[Pair]:
        """Each example's reading, in order."""
        keys = [(e.id, hash(e.question), hash(e.answer)) for e in examples]
        kept = self._kept
        with self._lock:
            found = [kept.get(key) for key in keys]
            unread = [place for place, pair in enumerate(found) if pair is None]
            for place, key in enumerate(keys):
                if found[place] is not None:
                    kept.move_to_end(key)
        read_now = [
            self._read(example) if pair is None else pair
            for example, pair in zip(examples, found, strict=True)
        ]
        if unread:
            self._keep([(keys[place], read_now[place]) for place in unread])
        return read_now

    def _keep(self, read_now: Iterable[tuple[tuple[int, int, int], Pair]]) -> None:
        with self._lock:
            self._kept.update(read_now)
            while len(self._kept) > self._entries:
                self._kept.popitem(last=False)

    def _read(self, example: Example) -> Pair:
        answer = traits(example.answer)
        question = read(example.question, self.rarity)
        spelled = spelled_from(example.question, example.answer)
        return Pair(
            question,
            tuple(question.rare.items()),
            math.log1p(question.length),
            math.log1p(answer.length),
            spelled,
            _packed(question, {word: self.rarity(word) for word in answer.words}),
        )
