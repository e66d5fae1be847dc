"""Replaces what is private in the texts of a JSON value. What stands beside a conversation is redacted, never refused:
a tool's description or an identifier must not cost a request its texts.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from cachetools import LRUCache

from store.admission import Admission

_MARK = "\x1e"
_BETWEEN = f"\n{_MARK}\n"
"""A password ends at the end of its line."""
_PLAIN_KEY = re.compile(r"[A-Za-z_$][A-Za-z_.$-]{0,60}")
_CONTENT_KEYS = frozenset({"content", "text", "role", "type", "input", "arguments", "thinking", "refusal"})
"""What they hold is looked at by itself; all else as `key: value`, since a password is told by its name."""
_SHORTEST_NUMBER = 1_000_000
_ENGINES_ID = re.compile(r"(?:chatcmpl|cmpl|call|toolu|msg|resp|rs|fc|gen|req)[-_][A-Za-z0-9_-]{1,64}")
"""Ids that engines draw: they look as random as a secret."""
_SAME = 64
_CLEAN, _CLEAN_CHARACTERS = 4096, 64
WITHHELD = "[withheld]"
"""Stands for a text that could not be screened."""


class Screen:
    """Screens by an operator's rules of admission. For one thread."""

    def __init__(self, admission: Admission) -> None:
        rules = admission.settings
        self._admission = Admission(
            replace(
                rules,
                secrets="off" if rules.secrets == "off" else "redact",
                private_data="off" if rules.private_data == "off" else "redact",
            )
        )
        self.same: LRUCache[bytes, tuple[dict[str, Any], int, tuple[str, ...]]] = LRUCache(_SAME)
        """What many requests have, screened and cut: see gateway.keepers.details."""
        self._clean: LRUCache[tuple[str, str], bool] = LRUCache(_CLEAN)
        """Short texts in which nothing was found: names and values that every request has."""

    def of(self, value: Any, known: Mapping[str, str] | None = None) -> tuple[Any, tuple[str, ...]]:
        """The value, and kinds of what was replaced. `known`: texts that were screened."""
        shown = dict(known or {})
        labelled: dict[str, str] = {}
        for label, text in _texts(value, ""):
            if text in shown:
                continue
            if (label, text) in self._clean or _ENGINES_ID.fullmatch(text):
                shown[text] = text
            else:
                labelled[text] = label
        found, kinds = self._screened(labelled)
        for text, label in labelled.items():
            if found[text] == text and len(text) <= _CLEAN_CHARACTERS:
                self._clean[label, text] = True
        return _replaced(value, shown | found), kinds

    def _screened(self, labelled: Mapping[str, str]) -> tuple[dict[str, str], tuple[str, ...]]:
        if not labelled:
            return {}, ()
        said = _BETWEEN.join(f"{label}: {text}" if label else text for text, label in labelled.items())
        verdict = self._admission.screened(said, "")
        parts = verdict.question.split(_BETWEEN)
        if not verdict.admitted or len(parts) != len(labelled):
            return dict.fromkeys(labelled, WITHHELD), verdict.redacted
        shown = {
            text: part.removeprefix(f"{label}: ") if label else part
            for (text, label), part in zip(labelled.items(), parts, strict=True)
        }
        return shown, verdict.redacted


def _texts(value: Any, label: str) -> Iterator[tuple[str, str]]:
    """(what it is called, text) of all in it that could be private."""
    if isinstance(value, str):
        if value:
            yield label, value.replace(_MARK, " ")
    elif isinstance(value, dict):
        for key, one in value.items():
            if not _PLAIN_KEY.fullmatch(key):
                yield "", key.replace(_MARK, " ")
            yield from _texts(one, "" if key in _CONTENT_KEYS else key.replace(_MARK, " "))
    elif isinstance(value, list):
        for one in value:
            yield from _texts(one, label)
    elif isinstance(value, int) and not isinstance(value, bool) and abs(value) >= _SHORTEST_NUMBER:
        yield label, str(value)


def _replaced(value: Any, shown: Mapping[str, str]) -> Any:
    if isinstance(value, str):
        plain = value.replace(_MARK, " ")
        return shown.get(plain, WITHHELD) if value else value
    if isinstance(value, dict):
        return {_key(key, shown): _replaced(one, shown) for key, one in value.items()}
    if isinstance(value, list):
        return [_replaced(one, shown) for one in value]
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) >= _SHORTEST_NUMBER:
        return value if shown.get(str(value)) == str(value) else shown.get(str(value), WITHHELD)
    return value


def _key(key: str, shown: Mapping[str, str]) -> str:
    return key if _PLAIN_KEY.fullmatch(key) else shown.get(key.replace(_MARK, " "), WITHHELD)
