"""Reads a text for the scorer: its words with their rarity, its numbers, its names.

Reading takes some 30 microseconds, so what was read of examples is cached.
"""

from __future__ import annotations

import itertools
import math
import re
import sys
import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from router.examples.lexical_things import LONGEST, things, words_of
from router.examples.lexical_words import CALENDAR, CHAT_WORDS, CONTRACTIONS, FUNCTION_WORDS, QUESTION_WORDS
from router.examples.rarity import Rarity
from router.examples.slips import Slips, near_forms
from router.examples.spelled_codes import codes, forms, spelled_from
from router.examples.unlisted_words import Spelling, unlisted
from store.records import Example

_EARLIER = "\n(Earlier: "
"""How router.digest.question introduces earlier turns."""
_BETWEEN_TURNS = " / "
"""What router.digest.question puts between earlier turns."""
_FROM_DIGIT = re.compile(r"\d(?:[\w-]|\.(?=\w))*")
_OF_MODEL = re.compile(r"\d+(?:[.,]\d+)*(?=[^\W\d_](?![\w-]))")
"""The number in "BQ-660S" and "398.8S", which differs from 660 and 398.8."""
_DIGIT_IN_RUN = re.compile(r"\d(?:(?=\.?[^\W\d]|-)|(?<=[^\W\d]\d)|(?<=-\d))")
"""Most texts with a number have no digit beside a letter or a hyphen, and so no identifier."""

_ALONE = re.compile(r"\d+(?:[.,]\d+)*(?!\w|[.,]\d)")
_BETWEEN_SENTENCES = re.compile(r"(?<=[.!?\u3002\uff01\uff1f])\s+")
_MOST_SENTENCES = 6
"""In longer texts, what is named at the end is no more what is asked about than what is named before."""

_SAID_ANYWAY = FUNCTION_WORDS | CONTRACTIONS
_NO_NAMES = FUNCTION_WORDS | CHAT_WORDS | QUESTION_WORDS.keys()
"""Function and chat words are no names, also where they are written with a capital: "Hello, Who wrote it"."""
_JOINING = frozenset(("and", "both", "also"))

MAY_BE_NAMED = 0.7
"""Excess rarity a little below that of words that are made of listed ones (router.examples.rarity.MADE_OF_LISTED):
"Flatbread"."""
RARE_FROM = 0.6
"""Rarity above which a word tells things apart; some four hundred words are below."""


@dataclass(frozen=True, slots=True)
class Text:
    """A text, read. Weights are rarities; `rare` are what of them exceeds RARE_FROM, scaled to 0..1.

    Its *question* is the sentences of its last turn that ask something (`_asking`), all of the turn for want of such.
    """

    length: int
    words: frozenset[str]
    """All words but function words."""
    weights: dict[str, float]
    """Each of `words` with its rarity."""
    weight: float
    """Their sum."""
    asking: dict[str, float]
    """The part of `weights` for words of the question that say what is asked, not about whom or what: neither `telling` nor
    CHAT_WORDS. For a follow-up without any, those of the questions before."""
    asking_weight: float
    rare: dict[str, float]
    """The rare ones with their excess, rarest first."""
    rare_weight: float
    turn: dict[str, float]
    """The part of `rare` that the question says; the rest belongs to the story around it, or to earlier turns
    (router.digest.question). `rare` itself where the question says all of it."""
    turn_weight: float
    turn_words: frozenset[str]
    every_word: frozenset[str]
    unlisted: tuple[Spelling, ...]
    """Spellings of the unlisted words (router.examples.unlisted_words.unlisted)."""
    numbers: tuple[str, ...]
    machine: tuple[str, ...]
    """Sorted."""
    names: frozenset[str]
    asks: frozenset[str]
    slips: Mapping[str, str]
    """Words that no vocabulary lists but that may be typing slips, with the listed word that was meant."""
    telling: tuple[str, ...]
    """Names and identifiers: words that no vocabulary lists or with a digit; the question's, if it names anything."""
    joins: bool
    """Whether the question joins things: "and", "both", "also"; of a follow-up "both" only."""
    meant: tuple[str, ...] = ()
    """Words that replaced slips."""


_NO_SLIPS: Mapping[str, str] = {}


def read(text: str, rarity: Rarity, meant: Mapping[str, str] = _NO_SLIPS) -> Text:
    """Reads a text; linear in its length, of which router.examples.lexical_things.LONGEST characters are read.

    `meant`: words to be replaced (some of `Text.slips` of an earlier reading).
    """
    turn, earlier, before = text[:LONGEST].partition(_EARLIER)
    # The mark's own word is not part of the question.
    found = things(f"{turn}\n({before}" if earlier else text)
    every_word, names = frozenset(found.words), frozenset(found.names) - _NO_NAMES
    if meant:
        every_word = frozenset([meant.get(word, word) for word in every_word])
        names -= meant.keys()
    words = every_word - _SAID_ANYWAY
    if found.numbers:
        runs = identifiers(text)
        if runs:
            words = (words | (runs - FUNCTION_WORDS)) - _of_models(text)
    # Sorted, and by word where equally rare: the same text reads the same in every process.
    # Interned: texts share their words, and a word is then known by its place, without looking at its letters.
    weights = rarity.of(sorted(map(sys.intern, words)))
    below = sorted([(-_excess(weight), word) for word, weight in weights.items() if weight > RARE_FROM])
    rare = {word: -excess for excess, word in below}
    telling = [word for word, excess in rare.items() if excess >= 1.0 or not word.isalpha()]
    if found.numbers:
        telling += [word for word in weights if word not in rare and not word.isalpha()]
    said, of_turn, joins = words, rare, every_word
    asks = _asking(turn, telling, names, meant)
    asking = {
        word: weight
        for word, weight in weights.items()
        if weight > 0.0 and word not in telling and word not in CHAT_WORDS
    }
    if earlier:
        said_now = _said_in(asks, meant)
        said = words & said_now
        of_turn = {word: over for word, over in rare.items() if word in said}
        # What the last turn names is what is asked about; where it names nothing, that is what was asked about before.
        of_last = [word for word in weights if word in said and (word in telling or word in names)]
        asked_before = _said_in(_questions(before), meant)
        names &= said_now | asked_before
        telling = of_last or [
            word for word in weights if word in asked_before and (word in telling or word in names)
        ]
        own = said.difference(of_last, _before_names(asks, of_last))
        asking = {word: weight for word, weight in asking.items() if word in own} or {
            word: weight for word, weight in asking.items() if word in asked_before and word not in of_last
        }
        # "And" begins many a follow-up.
        joins = said_now & {"both"}
    elif asks is not turn:
        joins = _said_in(asks, meant)
        said = words & joins
        of_turn = {word: over for word, over in rare.items() if word in said}
        names &= joins
        telling = [word for word in telling if word in said]
        asking = {word: weight for word, weight in asking.items() if word in said}
    return Text(
        length=len(text),
        words=words,
        weights=weights,
        weight=sum(weights.values()),
        asking=asking,
        asking_weight=sum(asking.values()),
        rare=rare,
        rare_weight=sum(rare.values()),
        turn=of_turn,
        turn_weight=sum(of_turn.values()),
        turn_words=said,
        every_word=every_word,
        unlisted=unlisted((word, rare[word]) for word in telling if word in rare),
        numbers=found.numbers,
        machine=tuple(sorted(found.machine)),
        names=names,
        asks=found.asks,
        slips=_slips(rare, rarity.slips),
        telling=tuple(telling),
        joins=not _JOINING.isdisjoint(joins),
        meant=tuple([word for word in meant.values() if word in weights]),
    )


def _asking(turn: str, telling: Iterable[str], names: frozenset[str], meant: Mapping[str, str]) -> str:
    """The sentences of a text's last turn that ask something, without the story around them; `turn` itself where all do.

    Of the sentences that name anything: those from the first question on, or the last one, where none is a question. All,
    where none names anything.
    """
    sentences = _BETWEEN_SENTENCES.split(turn.strip())
    if not 1 < len(sentences) <= _MOST_SENTENCES:
        return turn
    said = [_said_in(sentence, meant) for sentence in sentences]
    marks = (names - CALENDAR).union(telling)
    naming = [n for n, words in enumerate(said) if not words.isdisjoint(marks)]
    if not naming:
        return turn
    first = next((n for n in naming if sentences[n].endswith("?")), naming[-1])
    return " ".join([sentences[n] for n in naming if n >= first])


def _before_names(text: str, names: Sequence[str]) -> set[str]:
    """Words that stand right before a name, as "striped" does in "the striped qorbax": where somebody asks on about another,
    they belong to it."""
    found = set(names)
    for then, word in itertools.pairwise(reversed(words_of(text))):
        if then in found and word not in _NO_NAMES:
            found.add(word)
    return found


def _said_in(text: str, meant: Mapping[str, str]) -> frozenset[str]:
    """The words of a part of a text, read as `read` reads the whole."""
    found = {*words_of(text), *identifiers(text)}
    return frozenset([meant.get(word, word) for word in found])


def _questions(earlier: str) -> str:
    """The questions in the digest of earlier turns; all of it, where there is but one turn.

    The digest ends with an answer, and its beginning may be cut off.
    """
    turns = earlier.removesuffix(")").split(_BETWEEN_TURNS)
    return " ".join(turns[-2::-2] or turns)


def _slips(rare: Mapping[str, float], slips: Slips) -> Mapping[str, str]:
    found = {}
    for word, excess in rare.items():
        if excess < 1.0:
            break
        if (meant := slips.meant(word)) is not None:
            found[word] = meant
    return found or _NO_SLIPS


def identifiers(text: str) -> frozenset[str]:
    """Runs of letters, digits, lines and hyphens with a digit among them (QX-410, A97X, 258-CS, 398.8S), each as one word
    beside its parts; mere numbers left out."""
    if not _DIGIT_IN_RUN.search(text, 0, LONGEST):
        return frozenset()
    found = set()
    for match in _FROM_DIGIT.finditer(text, 0, LONGEST):
        start = match.start()
        while start and (text[start - 1].isalnum() or text[start - 1] in "_-"):
            start -= 1
        run = text[start : match.end()]
        if not run.replace(".", "").isdigit():
            found.add(run.casefold())
    return frozenset(found)


def _of_models(text: str) -> set[str]:
    """Numbers that a text says only as part of longer names."""
    found = set(_OF_MODEL.findall(text, 0, LONGEST))
    return found - set(_ALONE.findall(text, 0, LONGEST)) if found else found


def _excess(weight: float) -> float:
    return (weight - RARE_FROM) / (1 - RARE_FROM)


QUESTION, ANSWER = 1, 2
"""Which of an example's texts says a word; both: 3."""


@dataclass(frozen=True, slots=True)
class Pair:
    """What is compared of an example's two texts. Small, since it is seldom in the processor's caches."""

    said: dict[str, int]
    """The question's words, and those of the answer that are rare, each with who says it. Not two sets: a dictionary says
    that a word is not in it from one place in memory."""
    rare: tuple[tuple[str, float], ...]
    """The question's, as Text.rare."""
    turn: tuple[tuple[str, float], ...] | None
    """As Text.turn; None where it is all of `rare`."""
    unlisted: tuple[Spelling, ...]
    """As Text.unlisted of the question."""
    weight: float
    rare_weight: float
    turn_weight: float
    asking: dict[str, float]
    """As Text.asking of the question."""
    asking_weight: float
    """The question's, as in Text; so are the next four."""
    numbers: tuple[str, ...]
    machine: tuple[str, ...]
    names: frozenset[str]
    asks: frozenset[str]
    question_length: float
    """A logarithm of characters."""
    answer_length: float
    spelled: float
    """`spelled_from` of the two texts."""
    codes: tuple[str, ...]
    """`codes` of them, where they are spelled from the question."""
    forms: frozenset[str]
    """`forms` of them."""
    slips: Mapping[str, str]
    meant: tuple[str, ...]
    telling: tuple[str, ...]
    joins: bool
    """The question's, as in Text."""
    near: frozenset[int]
    """router.examples.slips.near_forms of its names and of words that may be parts of names."""


class Readings:
    """Caches what was read of recent examples. Thread-safe.

    An example whose texts were replaced (store.examples.twins) keeps its id, so the texts' hash is part of the key.
    """

    def __init__(self, rarity: Rarity, entries: int) -> None:
        """`entries`: number of examples cached, at most twice as many, of some three kilobytes each; 0: none."""
        self.rarity = rarity
        # Built now, so that no request waits for it.
        _ = rarity.slips, rarity.parts
        self._entries = entries
        # Two generations instead of an order of use: an entry that is used every time is not moved.
        # Two examples share a key in 1 of 2**61 cases.
        self._kept: dict[int, Pair] = {}
        self._older: dict[int, Pair] = {}
        self._lock = threading.Lock()

    def mended(self, example: Example, meant: Mapping[str, str]) -> Pair:
        """An example's reading with other words in place of its slips."""
        key = hash((example.id, example.question, example.answer, *meant.items()))
        pair = self._kept.get(key) or self._older.get(key)
        if pair is None:
            pair = self._read(example, meant)
            if self._entries:
                self._keep([(key, pair)])
        return pair

    def of(self, examples: Sequence[Example]) -> list[Pair]:
        """Each example's reading, in order."""
        kept = self._kept
        keys = [hash((e.id, e.question, e.answer)) for e in examples]
        found = [kept.get(key) for key in keys]
        if None not in found:
            return found  # type: ignore[return-value]
        older = self._older
        read_now = [
            pair or older.get(key) or self._read(example)
            for key, pair, example in zip(keys, found, examples, strict=True)
        ]
        if self._entries:
            self._keep([(key, pair) for key, pair in zip(keys, read_now, strict=True) if key not in kept])
        return read_now

    def _keep(self, read_now: Iterable[tuple[int, Pair]]) -> None:
        with self._lock:
            for key, pair in read_now:
                if len(self._kept) >= self._entries:
                    self._kept, self._older = {}, self._kept
                self._kept[key] = pair

    def _read(self, example: Example, meant: Mapping[str, str] = _NO_SLIPS) -> Pair:
        answer = things(example.answer)
        question = read(example.question, self.rarity, meant)
        said = dict.fromkeys(question.weights, QUESTION)
        for word, rarity in self.rarity.of(answer.words).items():
            if rarity > RARE_FROM:
                said[sys.intern(word)] = said.get(word, 0) | ANSWER
        rare = tuple(question.rare.items())
        spelled = spelled_from(example.question, example.answer)
        return Pair(
            said=said,
            rare=rare,
            turn=None if question.turn is question.rare else tuple(question.turn.items()),
            unlisted=question.unlisted,
            weight=question.weight,
            rare_weight=question.rare_weight,
            turn_weight=question.turn_weight,
            asking=question.asking,
            asking_weight=question.asking_weight,
            numbers=question.numbers,
            machine=question.machine,
            names=question.names,
            asks=question.asks,
            question_length=math.log1p(question.length),
            answer_length=math.log1p(answer.length),
            spelled=spelled,
            codes=codes(example.question, example.answer) if spelled else (),
            forms=forms(example.question, example.answer) if spelled else frozenset(),
            slips=question.slips,
            meant=question.meant,
            telling=question.telling,
            joins=question.joins,
            near=near_forms(
                {
                    *question.telling,
                    *question.names,
                    *[word for word, excess in rare if excess >= MAY_BE_NAMED],
                }
            ),
        )
