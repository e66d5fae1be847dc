"""Texts as every database keeps them."""

from __future__ import annotations


def plain(text: str) -> str:
    """A text for a log, with U+FFFD in the place of U+0000, which PostgreSQL keeps in no text."""
    return text.replace("\0", "\ufffd") if "\0" in text else text
