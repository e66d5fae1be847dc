"""What a person typed into a search, as words: the same for every database. Knows no syntax of any."""

from __future__ import annotations

import re
from dataclasses import dataclass

_MAX_WORDS = 12
_WORD = re.compile(r"\w+", re.UNICODE)


@dataclass(frozen=True, slots=True)
class Typed:
    """All of `parts` are looked for; of a part with blanks, its words one after the other."""

    parts: tuple[str, ...]
    beginning: bool
    """Whether the last part is the beginning of what may be longer."""


def typed(text: str) -> Typed:
    """All words, the last one also as a beginning; a "quoted" part as it stands. No parts when there is no word in it."""
    parts: list[str] = []
    for place, piece in enumerate(text.split('"')):
        words = _WORD.findall(piece)[:_MAX_WORDS]
        if not words:
            continue
        quoted = place % 2 == 1
        parts += [" ".join(words)] if quoted else words
    typing = bool(text) and not text.rstrip().endswith('"') and not text.endswith(" ")
    return Typed(tuple(parts[:_MAX_WORDS]), typing)
