"""Cuts a JSON value to what may be kept of it, and says how much was left out. Pure."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from typing import Any

_DEEPEST = 30
_MOST_VALUES = 5_000
_LONGEST_KEY = 200
_DATA_SHOWN = 60
_DATA = re.compile(r"data:[\w.+/-]*[;,]|[A-Za-z0-9+/=_-]{2000}")
"""How pictures, sounds and files begin that stand in JSON."""
_WORD = 200
"""A cut is made between words where one ends so near before it: half a secret is none that can be recognised."""
_LARGEST_INTEGER = 2**63 - 1


class Clip:
    """A budget of characters, spent by `of` value by value."""

    def __init__(self, max_characters: int) -> None:
        self.left = max_characters
        self.left_out = 0
        """Characters that were left out so far."""
        self._values = _MOST_VALUES

    def of(self, value: Any, depth: int = 0) -> Any:
        """The value, as much of it as there is room for; of what cannot be written as JSON a text."""
        self._values -= 1
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, (dict, list, tuple)) and (depth >= _DEEPEST or self._values <= 0):
            self.left_out += _characters(value)
            return None
        if isinstance(value, dict):
            return {
                _whole(str(key)[:_LONGEST_KEY]): self.of(value[key], depth + 1) for key in self._some(value)
            }
        if isinstance(value, (list, tuple)):
            return [self.of(one, depth + 1) for one in self._some(value)]
        if isinstance(value, int) and not -_LARGEST_INTEGER <= value <= _LARGEST_INTEGER:
            return str(value)[:_LONGEST_KEY]
        return value if value is None or isinstance(value, (bool, int, float)) else str(value)[:_LONGEST_KEY]

    def _some(self, values: Collection[Any]) -> Iterator[Any]:
        """As many as may still be looked at; of each of the others one character counts as left out."""
        for place, one in enumerate(values):
            if self._values <= 0:
                self.left_out += len(values) - place
                return
            yield one

    def text(self, text: str) -> str:
        """The same of a text; of a picture or a file its beginning."""
        length = len(text)
        kept = text[:_DATA_SHOWN] if length > _DATA_SHOWN and _DATA.match(text) else text
        if len(kept) > self.left:
            kept = kept[: max(0, self.left)]
            space = kept.rfind(" ", max(0, len(kept) - _WORD))
            kept = kept[: max(space, 0)] if space >= 0 else kept
        self.left -= len(kept)
        self.left_out += length - len(kept)
        return _whole(kept)


def _whole(text: str) -> str:
    """As databases take it: half a surrogate pair and NUL are no text to them."""
    if text.isascii() and "\0" not in text:
        return text
    return text.encode("utf-8", "replace").decode().replace("\0", "\ufffd")


def _characters(value: Any) -> int:
    """Count the characters of its texts, as far as that takes a moment."""
    found, waiting = 0, [value]
    for _ in range(_MOST_VALUES):
        if not waiting:
            break
        one = waiting.pop()
        if isinstance(one, str):
            found += len(one)
        elif isinstance(one, dict):
            waiting.extend(one.values())
        elif isinstance(one, (list, tuple)):
            waiting.extend(one)
    return max(1, found)
