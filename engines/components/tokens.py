"""Where tokens begin and end, as an embedder without a tokenizer here is likely to read a text.

Words, and signs of their own; a long word counts as several tokens. An estimate: hosted models tell nobody their tokenizer.
"""

from __future__ import annotations

import re

_PIECE_CHARACTERS = 6
"""English words of most vocabularies are one token up to about so many characters."""
_PIECES = re.compile(r"\w+|[^\w\s]")
_WIDE_FROM = "\u2e80"
"""From here on a character is a word, or most of one."""


def offsets(text: str) -> list[tuple[int, int]]:
    """Begin and end of each, in characters. What is between them is white space."""
    found = []
    for piece in _PIECES.finditer(text):
        begin, end = piece.span()
        while begin < end:
            length = 1 if text[begin] >= _WIDE_FROM else _PIECE_CHARACTERS
            found.append((begin, min(end, begin + length)))
            begin += length
    return found
