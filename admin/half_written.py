"""What somebody had typed into a form whose page cannot be shown, such as that of a thing that is gone: to be copied.

What was sent does not say which fields are typed; our templates do. Knows neither pages nor why a form was refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from admin.refused_forms import CONTROL, NEVER_FILLED, attributes_of

_FOLDER = Path(__file__).parent / "templates"
_CHOSEN = ("hidden", "password", "file", "checkbox", "radio")
_BUTTON = re.compile(r"parts\.button\([^{}]*(\{[^{}]*\})")
_KEY = re.compile(r'"(\w+)":')


def half_written(sent: Mapping[str, tuple[str, ...]]) -> list[tuple[str, str]]:
    """Names and texts of the fields that were typed, without empty ones and passwords."""
    return [
        (name.replace("_", " "), text)
        for name, texts in sent.items()
        if name not in _LEFT_OUT and not any(part in name for part in NEVER_FILLED)
        for text in texts
        if text.strip()
    ]


def chosen_in(templates: Iterable[str]) -> frozenset[str]:
    """Names of fields that are hidden or chosen somewhere."""
    names: set[str] = set()
    for text in templates:
        for found in CONTROL.finditer(text):
            field = attributes_of(found["input"] or found["select"] or "")
            if found["select"] is not None or field.get("type") in _CHOSEN:
                names.add(field.get("name", ""))
        for fields in _BUTTON.findall(text):
            names.update(_KEY.findall(fields))
    return frozenset(names)


_LEFT_OUT = chosen_in(file.read_text(encoding="utf-8") for file in _FOLDER.glob("*.html"))
"""Read at the start: no request waits for files."""
