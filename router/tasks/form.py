"""Reads the form of a teacher's labels: what stands before and after, and whether it is a JSON string. Read strictly.

An answer that explains, refuses or says more than a label is no label. Nothing here knows where answers come from.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import orjson

_MOST_CHARACTERS, _MOST_WORDS = 64, 5
"""The most of a label that was not declared: what is longer is a sentence."""
_FENCE = r"(?:```(?:json)?)?"
_JSON = re.compile(
    rf'(\s*{_FENCE}\s*\{{\s*"(?:[^"\\]|\\.)*"\s*:\s*)("(?:[^"\\]|\\.)*"|-?\d+|true|false)(\s*\}}\s*{_FENCE}\s*)'
)
"""An object with one key whose value is a scalar; a fence of Markdown may stand around it."""
_LEAD = re.compile(r"\s*[*_`\"'(\[]*\s*(?:[^\W\d_][\w ]{0,30}[*_]*\s*[:=][*_]*\s*)?[*_`\"'(\[]*")
"""The text that may stand before a label: marks, and a name with a colon."""
_REFUSAL = re.compile(
    r"(?i)\W*(?:i(?:['’]?m| am) (?:sorry|not able|unable)|i (?:can(?:not|['’]?t| not)|won['’]?t)|sorry\b|as an ai)"
)


def normalised(label: str) -> str:
    """Reduce a label to what two ways to write it share: letters without case, single spaces for `_`, no marks around it."""
    plain = unicodedata.normalize("NFKC", label).casefold().replace("_", " ")
    return " ".join(plain.split()).strip("\"'`*").rstrip(".!").strip("\"'`* ")


def overlapping(labels: Sequence[str]) -> tuple[str, str] | None:
    """Two labels that are the same after normalisation, or one that is empty (twice); None if all differ."""
    met: dict[str, str] = {}
    for label in labels:
        plain = normalised(label)
        if not plain:
            return label, label
        if plain in met:
            return met[plain], label
        met[plain] = label
    return None


@dataclass(frozen=True, slots=True)
class Form:
    """The text around a label, as it came."""

    before: str = ""
    after: str = ""
    quoted: bool = False
    """True if the label is a JSON string, with its escapes."""

    def write(self, label: str) -> str:
        """An answer with that label."""
        said = orjson.dumps(label).decode() if self.quoted else label
        return f"{self.before}{said}{self.after}"

    def read(self, answer: str, labels: Sequence[str] = ()) -> str | None:
        """The label of an answer in just this form; None if it is in another, or no label."""
        found = read(answer, labels)
        return found[0] if found is not None and found[1] == self else None

    def encoded(self) -> str:
        """As text, for the store and for metadata."""
        return orjson.dumps([self.before, self.after, self.quoted]).decode()

    @classmethod
    def decoded(cls, text: str) -> Form:
        """Read what `encoded` returned. Raises ValueError."""
        before, after, quoted = orjson.loads(text)
        return cls(str(before), str(after), bool(quoted))


def read(answer: str, labels: Sequence[str] = ()) -> tuple[str, Form] | None:
    """The label of a teacher's answer, as it is written there, and its form; None if the answer is no label.

    `labels`: those that were declared; without any, a short text that reads like a label is one.
    """
    declared = {normalised(label) for label in labels}
    in_json = _JSON.fullmatch(answer)
    if in_json is not None:
        return _read_json(in_json, declared)
    if answer.lstrip().startswith(("{", "[")):
        return None
    if declared:
        return _read_declared(answer, declared)
    return _read_short(answer)


def usual(forms: Iterable[Form]) -> Form:
    """The commonest form; of several, the first that was met. The bare label if there is none."""
    counted = Counter(forms).most_common(1)
    return counted[0][0] if counted else Form()


def _read_json(found: re.Match[str], declared: set[str]) -> tuple[str, Form] | None:
    before, value, after = found.groups()
    if ("```" in before) != ("```" in after):
        return None
    quoted = value.startswith('"')
    try:
        label = str(orjson.loads(value)) if quoted else value
    except orjson.JSONDecodeError:
        return None
    if normalised(label) not in declared if declared else not _short(label):
        return None
    return label, Form(before, after, quoted)


def _read_declared(answer: str, declared: set[str]) -> tuple[str, Form] | None:
    """Without what may stand around a label first, then with it: marks may belong to the label."""
    lead, blank = _LEAD.match(answer), len(answer) - len(answer.lstrip())
    for start in dict.fromkeys((lead.end() if lead else 0, blank)):
        for label in (_without_trail(answer[start:]), answer[start:].rstrip()):
            if normalised(label) in declared:
                return label, Form(answer[:start], answer[start + len(label) :])
    return None


def _read_short(answer: str) -> tuple[str, Form] | None:
    lead = _LEAD.match(answer)
    start = lead.end() if lead else 0
    label = _without_trail(answer[start:])
    return (label, Form(answer[:start], answer[start + len(label) :])) if _short(label) else None


def _short(label: str) -> bool:
    return (
        bool(normalised(label))
        and len(label) <= _MOST_CHARACTERS
        and len(label.split()) <= _MOST_WORDS
        and "\n" not in label
        and not re.search(r"[.!?;:,]\s", label)
        and not _REFUSAL.match(label)
    )


def _without_trail(text: str) -> str:
    """Without the marks and blanks at its end."""
    return text.rstrip().rstrip("*_`\"')].!").rstrip()
