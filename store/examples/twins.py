"""Decides whether two pairs are the same question, and whether their answers say the same. Pure functions of texts.

Nearness in the index only proposes a twin; what decides is read from the texts, since "17 + 25" and "17 + 26" lie next
to each other. The reading is lexical and errs towards "different": keeping a duplicate costs a kilobyte.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from dataclasses import dataclass

_WORD = re.compile(r"[^\W_]+(?:['’][^\W_]+)*")
_NUMBER = re.compile(r"(?:(?<!\w)[-+−$€£¥])?\d+(?:[.,:/]\d+)*%?")
_CODE_MARKS = frozenset("_./\\:@#-+=<>|&$%^~")
_WRAPPING = ".,;:!?()[]{}\"'“”‘’`*-–—_#"
_OPENERS = ".!?:;\n\r\"'“”‘’([{*#>-"
"""A capital after one of these says nothing: it opens a sentence, a quotation or a list item."""
_NEGATIONS = frozenset(
    (
        *(
            "no",
            "not",
            "never",
            "none",
            "nothing",
            "nobody",
            "neither",
            "nor",
            "without",
            "cannot",
            "cant",
            "dont",
        ),
        *(
            "doesnt",
            "isnt",
            "arent",
            "wasnt",
            "werent",
            "wont",
            "didnt",
            "shouldnt",
            "wouldnt",
            "couldnt",
            "unable",
            "except",
        ),
    )
)


@dataclass(frozen=True, slots=True)
class TwinRule:
    """How close is close enough."""

    min_similarity: float = 0.95
    """Cosine of the two questions' embeddings. Of Quora pairs at 0.95 and alike in their particulars, people call 91 % the
    same question; of those at 0.9, 85 %."""
    min_overlap: float = 0.75
    """Share of the words that two agreeing answers have in common (multiset Jaccard)."""


def same_question(one: str, other: str, embedded_characters: int | None = None) -> bool:
    """Whether two questions whose vectors nearly agree also read as one: equal numbers, names, and negation.

    A text longer than what was embedded is compared whole: its vector says nothing of the rest. `embedded_characters`
    is the longer of the two embedded texts' lengths; None trusts the vectors.
    """
    if normalised(one) == normalised(other) and _figures(one) == _figures(other):
        return True
    if embedded_characters is not None and max(len(one), len(other)) > embedded_characters:
        return False
    return _particulars(one) == _particulars(other)


def agrees(one: str, other: str, rule: TwinRule | None = None) -> bool:
    """Whether two answers to one question say the same.

    Equal after normalisation (compatibility forms, case, punctuation, white space) and in their figures; or at least
    `min_overlap` of their words in common (multiset Jaccard) and exactly the same figures (numbers, code words,
    operators), names and count of negations.
    """
    first, second = normalised(one), normalised(other)
    if first == second:
        return _figures(one) == _figures(other)
    if not first or not second:
        return False
    return _overlap(first, second) >= (rule or TwinRule()).min_overlap and _particulars(one) == _particulars(
        other
    )


def normalised(text: str) -> str:
    """The words of a text, in lower case, one blank between; all of it when there are no words in it (say, "+")."""
    folded = unicodedata.normalize("NFKC", text).casefold()
    words = _WORD.findall(folded)
    return " ".join(words) if words else " ".join(folded.split())


def _overlap(first: str, second: str) -> float:
    one, other = Counter(first.split()), Counter(second.split())
    return (one & other).total() / (one | other).total()


def _figures(text: str) -> tuple[Counter[str], frozenset[str]]:
    """Numbers with their signs, code words and operators: what `normalised` loses and a text's meaning hangs on."""
    return Counter(_NUMBER.findall(text)), frozenset(_code_words(text))


def _particulars(text: str) -> tuple[tuple[Counter[str], frozenset[str]], frozenset[str], int]:
    """What changes a text's meaning while hardly moving its vector: figures, names, negations."""
    text = unicodedata.normalize("NFKC", text)
    words = [word.replace("'", "").replace("’", "").casefold() for word in _WORD.findall(text)]
    return _figures(text), frozenset(_names(text)), sum(word in _NEGATIONS for word in words)


def _code_words(text: str) -> list[str]:
    """Tokens with a mark inside, such as `user_id`, `a/b.txt` or `well-known`, and those that are marks only."""
    found = []
    for token in text.split():
        core = token.strip(_WRAPPING)
        if core and (not _CODE_MARKS.isdisjoint(core[1:-1]) or not any(c.isalnum() for c in core)):
            found.append(core)
    return found


def _names(text: str) -> list[str]:
    """Capitalised words that do not merely open a sentence, in lower case; a word that is all capitals always."""
    names = []
    for found in _WORD.finditer(text):
        word = found[0]
        if not word[0].isupper() or word == "I" or word.startswith(("I'", "I’")):
            continue
        before = found.start() - 1
        while before >= 0 and text[before] in " \t":
            before -= 1
        opens = before < 0 or text[before] in _OPENERS
        if not opens or (len(word) > 1 and word.isupper()):
            names.append(word.casefold())
    return names
