"""Items of a list that a model is still writing: each is told when its end is seen.

The same parser makes the final list, so what was told early is always a beginning of it.
"""

from __future__ import annotations

import math
import re
from typing import Protocol

from workflows.definition import Splits
from workflows.transform import Transform, TransformFailed, apply, found_in


class Items:
    """Reads an answer piece by piece. Time is linear in the text, however it is cut into pieces.

    `json`: the first JSON array, from the first `[` on; whatever stands before and after it (a fence, a sentence) is passed
    over. A text's item is the text, anything else its JSON. `lines`: the lines that are not blank, without white space
    around them. `regex`: RE2 sees one line at a time; of each match in it group 1, else the match, unless that is empty.
    """

    def __init__(self, splits: Splits, max_items: int | None = None) -> None:
        """With more than `max_items` the list fails."""
        most = math.inf if max_items is None else max_items
        self._reader: _Reader = _Array(most) if splits.how == "json" else _Lines(splits, most)
        self._max_items = max_items
        self._items: list[str] = []
        self._failure: TransformFailed | None = None

    def feed(self, text: str) -> list[str]:
        """The items whose end was seen with this piece. Nothing more is told once the list cannot be right any more."""
        return self._take(text, last=False)

    def close(self) -> list[str]:
        """All items, at the answer's end. Raises TransformFailed: no list, a list that breaks off, too many items."""
        self._take("", last=True)
        if self._failure is not None:
            raise self._failure
        return self._items

    def _take(self, text: str, *, last: bool) -> list[str]:
        if self._failure is not None:
            return []
        told = len(self._items)
        try:
            self._reader.read(text, self._items, last=last)
        except TransformFailed as failure:
            self._failure = failure
        if self._max_items is not None and len(self._items) > self._max_items:
            self._failure = TransformFailed(f"the list has more than {self._max_items} items.")
            del self._items[self._max_items :]
        return self._items[told:]


def split(splits: Splits, text: str, max_items: int | None = None) -> list[str]:
    """The list of a whole answer. Raises TransformFailed."""
    items = Items(splits, max_items)
    items.feed(text)
    return items.close()


class _Reader(Protocol):
    def read(self, text: str, items: list[str], *, last: bool) -> None:
        """Adds the items that end within a further piece of text, and reads no further if there are too many.

        Raises TransformFailed; at the end, for what misses."""
        ...


_WITHIN = re.compile(r'["\[\]{},]')
_WITHIN_TEXT = re.compile(r'["\\]')
_DEEPEST = 100
"""The depth of Python's own parser hangs on who calls it: items that are told early must be those of the whole."""
_ROOT = Transform("json", "")


class _Array:
    """Finds where each element of an array ends; json.loads says whether it is one."""

    def __init__(self, most: float) -> None:
        self._most = most
        self._pieces: list[str] = []
        """The pieces of the element that is being read."""
        self._depth = 0
        """Brackets that are open; 0 before the array, -1 after it."""
        self._in_text = self._escaped = False
        self._comma = False
        """True if the last element was followed by a comma."""

    def read(self, text: str, items: list[str], *, last: bool) -> None:
        at = 0
        if self._depth == 0:
            at = text.find("[") + 1
            self._depth = 1 if at else 0
        while self._depth > 0 and at < len(text) and len(items) <= self._most:
            at = self._step(text, at, items)
        if last and self._depth >= 0:
            raise TransformFailed("the list breaks off." if self._depth else "the answer has no JSON list.")

    def _step(self, text: str, at: int, items: list[str]) -> int:
        """Reads up to the next character that says something, and it; gives the place behind."""
        if self._escaped:
            self._escaped = False
            return self._keep(text, at, at + 1)
        mark = (_WITHIN_TEXT if self._in_text else _WITHIN).search(text, at)
        if mark is None:
            return self._keep(text, at, len(text))
        sign, end = mark[0], mark.end()
        if self._in_text:
            self._in_text, self._escaped = sign != '"', sign == "\\"
        elif sign == '"':
            self._in_text = True
        elif sign in "[{":
            self._depth += 1
            if self._depth > _DEEPEST:
                raise TransformFailed(f"the list is nested deeper than {_DEEPEST}.")
        elif self._depth == 1:
            self._keep(text, at, end - 1)
            self._ended(sign, items)
            return end
        elif sign in "]}":
            self._depth -= 1
        return self._keep(text, at, end)

    def _keep(self, text: str, at: int, end: int) -> int:
        if end > at:
            self._pieces.append(text[at:end])
        return end

    def _ended(self, sign: str, items: list[str]) -> None:
        """An element is over with `,` or `]`."""
        raw = "".join(self._pieces).strip()
        self._pieces = []
        empty = sign == "]" and not raw and not items and not self._comma
        self._comma = sign == ","
        if sign == "}":
            raise TransformFailed("the list is no JSON.")
        if not empty:
            items.append(_element(raw))
        if sign == "]":
            self._depth = -1


def _element(raw: str) -> str:
    try:
        # As the transform `json` reads an item of an array.
        found = apply([_ROOT], f"[{raw}]")
    except TransformFailed:
        raise TransformFailed("the list is no JSON.") from None
    if len(found) != 1 or isinstance(found, str):
        raise TransformFailed("the list is no JSON.")
    return found[0]


class _Lines:
    def __init__(self, splits: Splits, most: float) -> None:
        self._most = most
        self._pattern = splits.pattern if splits.how == "regex" else None
        self._pieces: list[str] = []

    def read(self, text: str, items: list[str], *, last: bool) -> None:
        *whole, rest = text.split("\n")
        for line in whole:
            self._pieces.append(line)
            self._line(items)
            if len(items) > self._most:
                return
        self._pieces.append(rest)
        if last:
            self._line(items)
            if not items:
                found = "no line" if self._pattern is None else "nothing that the expression matches"
                raise TransformFailed(f"the answer has {found}.")

    def _line(self, items: list[str]) -> None:
        line, self._pieces = "".join(self._pieces).strip(), []
        if line:
            items.extend([line] if self._pattern is None else found_in(self._pattern, line))
