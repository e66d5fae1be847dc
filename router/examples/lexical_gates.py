"""Words that make near neighbours different questions: "with 3 eggs" is not "with 2 eggs", "can I" is not "can't I".

An encoder puts such pairs closer together than most true paraphrases, so no similarity separates them; these gates do,
by comparing closed classes of tokens. A gate only ever blocks: blocking costs one call to the model, letting through
costs a wrong answer. Linear in the texts. Refuses to know what a similarity or a tenant is, and does not understand
language: a paraphrase that no list knows passes, and the error bound has to catch it.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from router.examples.lexical_things import APOSTROPHES, LONGEST, TOKEN, Things, names_differ, number, things
from router.examples.lexical_words import (
    AUXILIARIES,
    BESIDE_NUMBERS,
    CALENDAR,
    NEGATION_CHARACTERS,
    NEGATION_ENDINGS,
    NEGATIONS,
    NEGATIVE_PREFIXES,
    OPPOSITES,
    UNIT_NAMES,
    UNITS,
)

_QUOTED = re.compile(r"`([^`]+)`|\"([^\"]+)\"|“([^”]+)”|«([^»]+)»|「([^」]+)」")
_OR_NOT = re.compile(r"\b(?:or|and) (?:why not|if not|not)\b")


@dataclass(frozen=True, slots=True)
class Traits(Things):
    """What of a text must not change. Kept with an entry, it spares reading the stored question again."""

    negations: int
    units: tuple[str, ...]
    dates: tuple[str, ...]
    quoted: tuple[str, ...]


def blocked(asked: str, remembered: str) -> str | None:
    """The first reason why `remembered`'s answer must not be given to `asked`, or None.

    Reasons: long, negation, number, unit, date, question, quoted, symbol, name, opposite, order. Symmetric.
    """
    return blocked_by_traits(traits(asked), traits(remembered))


def traits(text: str) -> Traits:
    """Reads a text once. Only its first `LONGEST` characters are looked at: a longer one blocks anyway."""
    named = things(text)
    words = named.words
    text = unicodedata.normalize("NFKC", text[:LONGEST])
    return Traits(
        named.length,
        words,
        named.numbers,
        named.machine,
        named.names,
        named.asks,
        _negations(text, words),
        _units(words),
        tuple([word for word in words if word in CALENDAR]),
        tuple("".join(groups).strip().casefold() for groups in _QUOTED.findall(text)),
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
    if names_differ(a, b):
        return "name"
    if _opposite(set(a.words), set(b.words)):
        return "opposite"
    if Counter(a.words) == Counter(b.words):
        return "order"
    return _swapped(a, b)


def _negations(text: str, words: Sequence[str]) -> int:
    if "not" in words:
        # "Is it safe, or not?" asks what "Is it safe?" asks.
        words = _OR_NOT.sub(" ", " ".join(words)).split()
    count = sum([word in NEGATIONS or (word.endswith("nt") and word[:-2] in AUXILIARIES) for word in words])
    if not text.isascii():
        count += sum(character in NEGATION_CHARACTERS for character in text)
        count += sum(text.count(ending) for ending in NEGATION_ENDINGS)
    return count


def _units(words: Sequence[str]) -> tuple[str, ...]:
    """Units in order, under one name each. Words that only sometimes measure must stand beside a number."""
    found = []
    for place, word in enumerate(words):
        if word not in UNITS:
            continue
        if word not in BESIDE_NUMBERS or (place and number(words[place - 1]) is not None):
            found.append(UNIT_NAMES.get(word, word))
    return tuple(found)


def _said(quoted: tuple[str, ...], words: tuple[str, ...]) -> bool:
    known = set(words)
    return all(token.translate(APOSTROPHES) in known for text in quoted for token in TOKEN.findall(text))


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
