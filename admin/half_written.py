"""What somebody had typed into a form whose page cannot be shown, such as that of a thing that is gone: to be copied.

What was sent does not say which fields are typed; our templates do. Knows neither pages nor why a form was refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path

from admin.refused_forms import CONTROL, NEVER_FILLED, attributes_of

_FOLDER = Path(__file__).parent / "templates"
_CHOSEN = ("hidden", "password", "file", "checkbox", "radio")
_FILTER = re.compile(r'<form\b[^>]*\bmethod="get".*?</form>', re.DOTALL)
_BUTTON = re.compile(r"parts\.button\([^{}]*(\{[^{}]*\})")
_KEY = re.compile(r'"(\w+)":')


def half_written(sent: Mapping[str, tuple[str, ...]]) -> list[tuple[str, str]]:
    """Names and texts of the fields that were typed, without empty ones and passwords."""
    left_out = _never_typed()
    return [
        (name.replace("_", " "), text)
        for name, texts in sent.items()
        if name not in left_out and not any(part in name for part in NEVER_FILLED)
        for text in texts
        if text.strip()
    ]


@cache
def _never_typed() -> frozenset[str]:
    return never_typed(file.read_text() for file in _FOLDER.glob("*.html"))


def never_typed(templates: Iterable[str]) -> frozenset[str]:
    """Names of fields that are hidden or chosen wherever they stand."""
    typed: set[str] = set()
    chosen: set[str] = set()
    for text in templates:
        for found in CONTROL.finditer(_FILTER.sub("", text)):
            field = attributes_of(found["input"] or found["textarea"] or found["select"] or "")
            by_choice = found["select"] is not None or field.get("type") in _CHOSEN
            (chosen if by_choice else typed).add(field.get("name", ""))
        for fields in _BUTTON.findall(text):
            chosen.update(_KEY.findall(fields))
    return frozenset(chosen - typed)
