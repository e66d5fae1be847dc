"""Words that make near neighbours different questions: "with 3 eggs" is not "with 2 eggs", "can I" is not "can't I".

An encoder puts such pairs closer together than most true paraphrases, so no similarity separates them; these gates do,
by comparing closed classes of tokens. A gate only ever blocks: blocking costs one call to the model, letting through
costs a wrong answer. Linear in the texts. Refuses to know what a similarity or a tenant is, and does not understand
language: a paraphrase that no list knows passes, and the error bound has to catch it.
"""

from __future__ import annotations

import itertools
import re
import unicodedata
from collections import Counter
from dataclasses import dataclass

from router.lexical_words import (
    AUXILIARIES,
    BESIDE_NUMBERS,
    CALENDAR,
    FUNCTION_WORDS,
    HOW_KINDS,
    NEGATION_CHARACTERS,
    NEGATION_ENDINGS,
    NEGATIONS,
    NEGATIVE_PREFIXES,
    NUMBER_WORDS,
    OPPOSITES,
    QUESTION_WORDS,
    UNIT_NAMES,
    UNITS,
)

LONGEST = 800
"""Characters. Longer texts are cut by the encoder (so what differs at the end is invisible) and hide small changes."""

_NUMBER = re.compile(r"\d+(?:[.,:/\u2019']\d+)*")
_TOKEN = re.compile(r"[^\W\d_]+(?:['\u2019][^\W\d_]+)*|\d+(?:[.,:/\u2019']\d+)*|[$€£¥₹%‰]")
_QUOTED = re.compile(r"`([^`]+)`|\"([^\"]+)\"|“([^”]+)”|«([^»]+)»|「([^」]+)」")
_MACHINE = re.compile(r"[\\@_=<>^|~{}\[\]*]|\w[#+]|#\w|\w\.\w|--|^-\d|\d[^\W\d_]|[^\W\d_]\d|^[-+/%]$")
_SENTENCE_START = re.compile(r"(?:^|[.!?。！？:\n]\s*)[\"'(\[“«]*(\w+)")
_OR_NOT = re.compile(r"\b(?:or|and) (?:why not|if not|not)\b")
_LETTERS = re.compile(r"[^\W\d_]+")
_ASCII_WITH_CAPITALS = re.compile(r"(?<![A-Za-z])[a-z]*[A-Z][A-Za-z]*")
"""The runs of letters in ASCII text that hold a capital: most hold none, and are passed over in half the time."""
_POSSESSIVE = re.compile("['\u2019]s$")
_APOSTROPHES = str.maketrans("", "", "'\u2019")


@dataclass(frozen=True, slots=True)
class Traits:
    """What of a text must not change. Kept with an entry, it spares reading the stored question again."""

    length: int
    negations: int
    numbers: tuple[str, ...]
    units: tuple[str, ...]
    dates: tuple[str, ...]
    asks: frozenset[str]
    quoted: tuple[str, ...]
    machine: tuple[str, ...]
    names: tuple[str, ...]
    words: tuple[str, ...]


def blocked(asked: str, remembered: str) -> str | None:
    """The first reason why `remembered`'s answer must not be given to `asked`, or None.

    Reasons: long, negation, number, unit, date, question, quoted, symbol, name, opposite, order. Symmetric.
    """
    return blocked_by_traits(traits(asked), traits(remembered))


def traits(text: str) -> Traits:
    """Reads a text once. Only its first `LONGEST` characters are looked at: a longer one blocks anyway."""
    length = len(text)
    text = unicodedata.normalize("NFKC", text[:LONGEST])
    tokens = _TOKEN.findall(text)
    words = [token.casefold() for token in tokens]
    if "'" in text or "\u2019" in text:
        # "Verdania's" names Verdania: with the s at its end it would be a name that nobody else says.
        words = [_POSSESSIVE.sub("", word).translate(_APOSTROPHES) for word in words]
    return Traits(
        length,
        _negations(text, words),
        tuple(
            [
                value
                for word in words
                # Asked here first: most words are no number, and a call takes longer than the answer.
                if (word in NUMBER_WORDS or not word.isalpha()) and (value := _number(word)) is not None
            ]
        ),
        _units(words),
        tuple([word for word in words if word in CALENDAR]),
        _asks(text, words),
        tuple("".join(groups).strip().casefold() for groups in _QUOTED.findall(text)),
        _machine(text),
        _names(text),
        tuple(words),
    )


def blocked_by_traits(a: Traits, b: Traits) -> str | None:
    """As `blocked`, for texts already read."""
    if max(a.length, b.length) > LONGEST:
        return "long"
    if a.words == b.words and a.machine == b.machine:
        return None
    if a.negations != b.negations:
        return "negation"
    # In order: "from 5 to 7" and "from 7 to 5" ask for different things.
    if a.numbers != b.numbers:
        return "number"
    if a.units != b.units:
        return "unit"
    if sorted(a.dates) != sorted(b.dates):
        return "date"
    if a.asks != b.asks:
        return "question"
    if not (_said(a.quoted, b.words) and _said(b.quoted, a.words)):
        return "quoted"
    if sorted(a.machine) != sorted(b.machine):
        return "symbol"
    if _names_differ(a, b):
        return "name"
    if _opposite(set(a.words), set(b.words)):
        return "opposite"
    if Counter(a.words) == Counter(b.words):
        return "order"
    return _swapped(a, b)


def about_other_things(a: Traits, b: Traits) -> bool:
    """Whether one text names what the other does not: a name, a number, a machine's word.

    Weaker than `blocked`: two questions may differ in what they ask of the same thing. Symmetric.
    """
    return a.numbers != b.numbers or sorted(a.machine) != sorted(b.machine) or _names_differ(a, b)


def _negations(text: str, words: list[str]) -> int:
    if "not" in words:
        # "Is it safe, or not?" asks what "Is it safe?" asks.
        words = _OR_NOT.sub(" ", " ".join(words)).split()
    count = sum([word in NEGATIONS or (word.endswith("nt") and word[:-2] in AUXILIARIES) for word in words])
    if not text.isascii():
        count += sum(character in NEGATION_CHARACTERS for character in text)
        count += sum(text.count(ending) for ending in NEGATION_ENDINGS)
    return count


def _number(word: str) -> str | None:
    if not word[:1].isdecimal():
        return NUMBER_WORDS.get(word)
    if not _NUMBER.fullmatch(word):
        return None
    # "1,000" and "1000" are one number; "3.0" and "3" are not assumed to be (versions).
    return re.sub(r"(?<=\d)[,\u2019'](?=\d{3}(?!\d))", "", word)


def _units(words: list[str]) -> tuple[str, ...]:
    """Units in order, under one name each. Words that only sometimes measure must stand beside a number."""
    found = []
    for place, word in enumerate(words):
        if word not in UNITS:
            continue
        if word not in BESIDE_NUMBERS or (place and _number(words[place - 1]) is not None):
            found.append(UNIT_NAMES.get(word, word))
    return tuple(found)


def _said(quoted: tuple[str, ...], words: tuple[str, ...]) -> bool:
    known = set(words)
    return all(token.translate(_APOSTROPHES) in known for text in quoted for token in _TOKEN.findall(text))


def _asks(text: str, words: list[str]) -> frozenset[str]:
    asks = {QUESTION_WORDS[word] for word in words if word in QUESTION_WORDS}
    asks |= {HOW_KINDS[then] for how, then in itertools.pairwise(words) if how == "how" and then in HOW_KINDS}
    if not text.isascii():
        asks |= {
            kind
            for word, kind in QUESTION_WORDS.items()
            if not word.isascii() and len(word) < 4 and word in text
        }
    return frozenset(asks)


def _machine(text: str) -> tuple[str, ...]:
    """What is written for machines, whole: code, paths, addresses, versions, operators. Case is folded, no more."""
    # Most pieces are plain words, which no mark can be in: the expression takes ten times as long to say so.
    pieces = [piece for word in text.split() if not (piece := word.strip(".,;:!?()\"'")).isalpha()]
    return tuple(
        [
            piece.casefold()
            for piece in pieces
            if _MACHINE.search(piece) or piece.count("/") > 1 or (len(piece) > 1 and piece[0] == "/")
        ]
    )


def _names(text: str) -> tuple[str, ...]:
    """Capitalised or mixed-case words that are not so merely for opening a sentence, in order."""
    if text.islower():
        return ()
    starts: set[int] | None = None
    found = []
    for match in (_ASCII_WITH_CAPITALS if text.isascii() else _LETTERS).finditer(text):
        word = match[0]
        # "I" is no name, and a lone capital opens lists.
        if len(word) == 1 or word.islower():
            continue
        if not any(map(str.isupper, word[1:])):
            if starts is None:
                starts = {opening.start(1) for opening in _SENTENCE_START.finditer(text)}
            if not word[0].isupper() or match.start() in starts:
                continue
        found.append(word.casefold())
    return tuple(found)


def _names_differ(a: Traits, b: Traits) -> bool:
    """A name of one that the other has in no spelling. Text in capitals throughout, or in none, still compares fairly."""
    words_a, words_b = set(a.words), set(b.words)
    return any(name not in words_b and name not in FUNCTION_WORDS for name in a.names) or any(
        name not in words_a and name not in FUNCTION_WORDS for name in b.names
    )


def _opposite(a: set[str], b: set[str]) -> bool:
    """Whether a word of one meets its opposite in the other: from the list, or the same stem under a negative prefix."""
    only_a, only_b = a - b, b - a
    if not (only_a and only_b):
        return False
    for x in only_a:
        for y in only_b:
            if frozenset((x, y)) in OPPOSITES:
                return True
            short, long = (x, y) if len(x) < len(y) else (y, x)
            if len(short) >= 4 and long.endswith(short) and long[: -len(short)] in NEGATIVE_PREFIXES:
                return True
    return False


def _swapped(a: Traits, b: Traits) -> str | None:
    """ "order" if what both texts name stands in another order: "rupees to dollars" and "dollars to rupees"."""
    shared = set(a.names) & set(b.names)
    if len(shared) < 2:
        return None
    return "order" if _firsts(a.names, shared) != _firsts(b.names, shared) else None


def _firsts(names: tuple[str, ...], shared: set[str]) -> list[str]:
    return list(dict.fromkeys(name for name in names if name in shared))
