"""Replaces what is private in the texts of a JSON value. What stands beside a conversation is redacted, never refused:
a tool's description or an identifier must not cost a request its texts.
"""

from __future__ import annotations

import hashlib
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
_REMEMBERED = 64
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
        self._same: LRUCache[bytes, tuple[dict[str, str], tuple[str, ...]]] = LRUCache(_REMEMBERED)

    def of(
        self, value: Any, known: Mapping[str, str] | None = None, *, often: bool = False
    ) -> tuple[Any, tuple[str, ...]]:
        """The value, and kinds of what was replaced. `known`: texts that were screened. `often`: many requests have it."""
        known = known or {}
        labelled = {text: label for label, text in _texts(value, "") if text not in known}
        said = _BETWEEN.join(f"{label}: {text}" if label else text for text, label in labelled.items())
        name = hashlib.blake2b(said.encode("utf-8", "replace"), digest_size=16).digest() if often else b""
        found = self._same.get(name) if often else None
        if found is None:
            found = self._screened(labelled, said)
            if often:
                self._same[name] = found
        shown, kinds = found
        return _replaced(value, {**known, **shown}), kinds

    def _screened(self, labelled: Mapping[str, str], said: str) -> tuple[dict[str, str], tuple[str, ...]]:
        if not labelled:
            return {}, ()
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
