"""Reads what a text names: its words, numbers and names, what is written for machines, and the kind of thing it asks for.

Read for every request, so whatever most texts do not have is looked for once, in the whole text, before it is looked for in
each word. Pure functions; linear in the text.
"""

from __future__ import annotations

import itertools
import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

from router.wording.lexical_words import FUNCTION_WORDS, HOW_KINDS, NUMBER_WORDS, QUESTION_WORDS

LONGEST = 800
"""Characters. Longer texts are cut by the encoder (so what differs at the end is invisible) and hide small changes."""

TOKEN = re.compile(r"[^\W\d_]+(?:['\u2019][^\W\d_]+)*|\d+(?:[.,:/\u2019']\d+)*|[$€£¥₹%‰]")
APOSTROPHES = str.maketrans("", "", "'\u2019")
_POSSESSIVE = re.compile("['\u2019]s$")
_IN_ASCII_TOKENS = frozenset(".,:/'$%")
_ASCII_PIECES = {
    code: character.lower() if character.isalnum() or character in _IN_ASCII_TOKENS else " "
    for code, character in enumerate(map(chr, range(128)))
}
"""Lower case, and spaces for what no token has in it."""

_NUMBER = re.compile(r"\d+(?:[.,:/\u2019']\d+)*")
_NUMBER_WORDS, _QUESTION_WORDS = frozenset(NUMBER_WORDS), frozenset(QUESTION_WORDS)
_MACHINE = re.compile(r"[\\@_=<>^|~{}\[\]*]|\w[#+]|#\w|\w\.\w|--|^-\d|\d[^\W\d_]|[^\W\d_]\d|^[-+/%]$")
_MACHINE_MARK = re.compile(r"[\\@_=<>^|~{}\[\]*#+/%-]")
_INNER_POINT = re.compile(r"\.(?=\w)")
_DIGIT_AT_LETTER = re.compile(r"\d(?:(?<=[^\W\d_]\d)|(?=[^\W\d_]))")
"""A text without any of the three holds nothing that _MACHINE finds."""
_LETTERS = re.compile(r"[^\W\d_]+")
_FROM_CAPITAL = re.compile(r"[A-Z][A-Za-z]*")
_OPENING, _ENDS_SENTENCE = frozenset("\"'([“«"), frozenset(".!?。！？:")


@dataclass(frozen=True, slots=True)
class Things:
    """The things that a text names, in the order it is said."""

    length: int
    words: tuple[str, ...]
    """In lower case, apostrophes gone."""
    numbers: tuple[str, ...]
    machine: tuple[str, ...]
    names: tuple[str, ...]
    asks: frozenset[str]


def things(text: str) -> Things:
    """Reads a text once; only its first `LONGEST` characters are looked at."""
    length = len(text)
    text = _folded(text)
    words = _words(text)
    return Things(length, tuple(words), _numbers(words), _machine(text), _names(text), _asks(text, words))


def words_of(text: str) -> list[str]:
    """`Things.words`, without the rest."""
    return _words(_folded(text))


def about_other_things(a: Things, b: Things) -> bool:
    """Tell if one text names what the other does not: a name, a number, a machine's word.

    Weaker than router.wording.lexical_gates.blocked: two questions may differ in what they ask of the same thing.
    Symmetric.
    """
    return a.numbers != b.numbers or sorted(a.machine) != sorted(b.machine) or names_differ(a, b)


def names_differ(a: Things, b: Things) -> bool:
    """A name of one that the other has in no spelling. Text in capitals throughout, or in none, still compares fairly."""
    # A name is read otherwise than a word where an apostrophe stands in it.
    words_a, words_b = {*a.words, *a.names}, {*b.words, *b.names}
    return any(name not in words_b and name not in FUNCTION_WORDS for name in a.names) or any(
        name not in words_a and name not in FUNCTION_WORDS for name in b.names
    )


def number(word: str) -> str | None:
    """The number that a word of Things.words is, in one spelling; None for any other word."""
    if word.isdecimal():
        return word
    if not word[:1].isdecimal():
        return NUMBER_WORDS.get(word)
    if not _NUMBER.fullmatch(word):
        return None
    # "1,000" and "1000" are one number; "3.0" and "3" are not assumed to be (versions).
    return re.sub(r"(?<=\d)[,\u2019'](?=\d{3}(?!\d))", "", word)


def _folded(text: str) -> str:
    return unicodedata.normalize("NFKC", text[:LONGEST])


def _words(text: str) -> list[str]:
    if text.isascii():
        words: list[str] = []
        for piece in text.translate(_ASCII_PIECES).split():
            if piece.isalpha():
                words.append(piece)
            else:
                words += TOKEN.findall(piece)
    else:
        words = [token.casefold() for token in TOKEN.findall(text)]
    if "'" in text or "\u2019" in text:
        # "Verdania's" names Verdania: with the s at its end it would be a name that nobody else says.
        words = [_POSSESSIVE.sub("", word).translate(APOSTROPHES) for word in words]
    return words


def _numbers(words: Sequence[str]) -> tuple[str, ...]:
    # Asked before `number` is: most words are no number, and a call takes longer than the answer.
    if _NUMBER_WORDS.isdisjoint(words):
        may_be = [word for word in words if not word.isalpha()]
    else:
        may_be = [word for word in words if word in NUMBER_WORDS or not word.isalpha()]
    return tuple([value for word in may_be if (value := number(word)) is not None])


def _asks(text: str, words: Sequence[str]) -> frozenset[str]:
    asks: set[str] = set()
    if not _QUESTION_WORDS.isdisjoint(words):
        asks = {QUESTION_WORDS[word] for word in words if word in QUESTION_WORDS}
    if "how" in words:
        asks |= {
            HOW_KINDS[then] for how, then in itertools.pairwise(words) if how == "how" and then in HOW_KINDS
        }
    if not text.isascii():
        asks |= {
            kind
            for word, kind in QUESTION_WORDS.items()
            if not word.isascii() and len(word) < 4 and word in text
        }
    return frozenset(asks)


def _machine(text: str) -> tuple[str, ...]:
    """Find what is written for machines, whole: code, paths, addresses, versions, operators. Case is folded, no more."""
    if not (_MACHINE_MARK.search(text) or _INNER_POINT.search(text) or _DIGIT_AT_LETTER.search(text)):
        return ()
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
    ascii_only = text.isascii()
    found = []
    for match in (_FROM_CAPITAL if ascii_only else _LETTERS).finditer(text):
        start, word = match.start(), match[0]
        if ascii_only:
            # "iPhone" begins before its capital.
            while start and "a" <= text[start - 1] <= "z":
                start -= 1
            word = text[start : match.end()]
        # "I" is no name, and a lone capital opens lists.
        if len(word) == 1 or word.islower():
            continue
        one_capital = (rest := word[1:]).islower() or not any(map(str.isupper, rest))
        if one_capital and (not word[0].isupper() or _opens_sentence(text, start)):
            continue
        found.append(word.casefold())
    return tuple(found)


def _opens_sentence(text: str, start: int) -> bool:
    """Tell if the word at `start` opens the text, or stands behind the end of a sentence or of a line."""
    while start and text[start - 1] in _OPENING:
        start -= 1
    if not start:
        return True
    while start and text[start - 1].isspace():
        if text[start - 1] == "\n":
            return True
        start -= 1
    return start > 0 and text[start - 1] in _ENDS_SENTENCE
