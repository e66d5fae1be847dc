"""Refuses to treat two near questions as one where they differ in a number, a name, a question word or a negation.

An encoder puts "with 3 eggs" and "with 2 eggs" closer together than most true paraphrases, so no similarity separates
them. A gate only ever blocks: blocking costs one call to the model. What passes wrongly is bounded by the proof behind it
(learning.reuse.decision), so gates stay few: lists of units, dates, opposites and word order blocked more and made no error
rarer (docs/experiments/semantic-reuse.md).
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence

from router.wording.lexical_things import LONGEST, about_other_things, things
from router.wording.lexical_words import (
    AUXILIARIES,
    NEGATION_CHARACTERS,
    NEGATION_ENDINGS,
    NEGATIONS,
)

_OR_NOT = re.compile(r"\b(?:or|and) (?:why not|if not|not)\b")


def blocked(asked: str, remembered: str) -> str | None:
    """The first reason why `remembered`'s answer must not be given to `asked`, or None. Symmetric; linear in the texts.

    Reasons: `long` (a text beyond `LONGEST` characters is embedded cut), `negation`, `question` (another question word),
    `thing` (a name, a number or something written for machines that only one of them has).
    """
    a, b = things(asked), things(remembered)
    if max(a.length, b.length) > LONGEST:
        return "long"
    if _negations(asked, a.words) != _negations(remembered, b.words):
        return "negation"
    if a.asks != b.asks:
        return "question"
    return "thing" if about_other_things(a, b) else None


def _negations(text: str, words: Sequence[str]) -> int:
    text = unicodedata.normalize("NFKC", text)
    if "not" in words:
        # "Is it safe, or not?" asks what "Is it safe?" asks.
        words = _OR_NOT.sub(" ", " ".join(words)).split()
    count = sum([word in NEGATIONS or (word.endswith("nt") and word[:-2] in AUXILIARIES) for word in words])
    if not text.isascii():
        count += sum(character in NEGATION_CHARACTERS for character in text)
        count += sum(text.count(ending) for ending in NEGATION_ENDINGS)
    return count
