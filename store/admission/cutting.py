"""Cuts a text to what is embedded of it."""

from __future__ import annotations

EMBEDDED_CHARACTERS = 1500
"""To how much of a text an embedding is made of: the embedding model reads little more."""


def cut(text: str, characters: int) -> str:
    """`text`, at most that long: its beginning and its end, since a long prompt often asks its question last."""
    if len(text) <= characters:
        return text
    head = characters * 2 // 3
    return text[:head] + text[head - characters :]
