"""Regular expressions that cannot be made slow: RE2 runs in time linear in the text, whatever the text, and without the GIL.

Beside `workflows/transform.py` the only module that imports re2. RE2 has no lookaround: what stands before and after a match
is looked at in Python.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol

import re2  # type: ignore[import-untyped, unused-ignore]


class Match(Protocol):
    """What is used of a match."""

    def group(self, *groups: int | str) -> Any: ...

    def start(self, group: int | str = 0) -> int: ...

    def end(self, group: int | str = 0) -> int: ...


class Pattern:
    """One compiled expression. Immutable, for any number of threads."""

    __slots__ = ("_compiled", "_needs")

    def __init__(self, expression: str, *, needs: str = "", any_case: bool = False) -> None:
        """`needs`: skip the search where the text has none of these characters. Raises re2.error for a bad expression."""
        options = re2.Options()
        options.case_sensitive = not any_case
        # The default prints to standard error when a pattern grows past its memory; it is still linear then.
        options.log_errors = False
        self._compiled = re2.compile(expression, options)
        self._needs = needs

    def all(self, text: str) -> Iterator[Match]:
        """Every match from left to right, none overlapping."""
        if self._needs and not any(c in text for c in self._needs):
            return iter(())
        found: Iterator[Match] = self._compiled.finditer(text)
        return found

    def first(self, text: str) -> Match | None:
        """The leftmost match."""
        return next(self.all(text), None)

    def without(self, text: str) -> str:
        """The text with every match left out."""
        pieces, at = [], 0
        for match in self.all(text):
            pieces.append(text[at : match.start()])
            at = match.end()
        return "".join([*pieces, text[at:]])

    def within(self, text: str) -> bool:
        """Whether there is a match."""
        return self.first(text) is not None


def before(text: str, start: int, characters: int) -> str:
    """What stands before `start`, in lower case."""
    return text[max(0, start - characters) : start].lower()


def touches_word(text: str, start: int, end: int, also: str = "") -> bool:
    """Whether the match is only a piece of a longer word or number: its neighbours are letters, digits or in `also`."""
    left, right = text[start - 1 : start], text[end : end + 1]
    return (left.isalnum() or (left != "" and left in also)) or (
        right.isalnum() or (right != "" and right in also)
    )
