"""Where tokens begin and end, as an embedder without a tokenizer here is likely to read a text.

Words, and signs of their own; a long word counts as several tokens. An estimate: hosted models tell nobody their tokenizer.
"""

from __future__ import annotations

import re

_PIECE_CHARACTERS = 6
"""English words of most vocabularies are one token up to about so many characters."""
_LONGEST_CHARACTERS = 48
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


def cut_long(found: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """The same, but what is longer than any word counts as several: some tokenizers take a long string for one token."""
    if all(end - begin <= _LONGEST_CHARACTERS for begin, end in found):
        return found
    cut = []
    for begin, end in found:
        step = _PIECE_CHARACTERS if end - begin > _LONGEST_CHARACTERS else end - begin
        cut += [(at, min(end, at + step)) for at in range(begin, end, max(1, step))]
    return cut
