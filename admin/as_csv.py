"""Rows of a summary as CSV (RFC 4180), which a spreadsheet opens without running anything that somebody wrote."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import orjson

from admin.invisible import escaped

_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")
"""What a cell begins with that a spreadsheet would calculate; full-width forms, too."""


def as_csv(rows: Iterable[Mapping[str, Any]]) -> bytes:
    """A file of the rows with all their names, in UTF-8. The rows are revealed already.

    A byte order mark comes first, without which Excel reads another encoding.
    """
    listed = list(rows)
    names = list(dict.fromkeys(name for row in listed for name in row))
    return b"\xef\xbb\xbf" + csv_text(listed, names).encode("utf-8", "replace")


def csv_text(rows: Iterable[Mapping[str, Any]], names: Sequence[str]) -> str:
    """A line of names, and what each row has of them; what is no plain value is written as JSON.

    Texts that begin like a formula get a leading apostrophe.
    """
    written = io.StringIO()
    writer = csv.writer(written)
    writer.writerow([_cell(name) for name in names])
    writer.writerows([_cell(row.get(name)) for name in names] for row in rows)
    return written.getvalue()


def _cell(value: Any) -> Any:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return value
    text = value if isinstance(value, str) else orjson.dumps(value, option=orjson.OPT_NON_STR_KEYS).decode()
    text = escaped(text)
    return f"'{text}" if text.lstrip(" ").startswith(_FORMULA) else text
