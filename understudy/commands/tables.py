"""Prints figures for people: rows as a table, and a summary as lines. The names of figures say their units."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any


def table(rows: Iterable[Mapping[str, Any]], columns: Sequence[str]) -> Iterator[str]:
    """These columns of the rows, with a line of names above them."""
    cells = [[_heading(name) for name in columns]]
    cells += [[cell(name, row.get(name)) for name in columns] for row in rows]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    for row in cells:
        yield "  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip()


def lines(summary: Mapping[str, Any], tables: Mapping[str, Sequence[str]]) -> Iterator[str]:
    """Every plain value that is not empty on a line of its own, then the lists among `tables` with their columns."""
    for name, value in summary.items():
        if isinstance(value, Mapping):
            yield from (f"{name}.{below}: {cell(below, one)}" for below, one in value.items())
        elif _is_plain(value) and value not in (None, ""):
            yield f"{name}: {cell(name, value)}"
    for name, columns in tables.items():
        if summary[name]:
            yield f"\n{name}"
            yield from table(summary[name], columns)


def cell(name: str, value: Any) -> str:
    """A value in words, by the unit that its name ends with."""
    if value is None or value == "":
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list | tuple):
        return ", ".join(cell("", one) for one in value)
    if isinstance(value, Mapping):
        return " ".join(f"{key} {cell(key, one)}" for key, one in value.items())
    if name.endswith("_at_s") and isinstance(value, int | float):
        return datetime.fromtimestamp(value, UTC).strftime("%Y-%m-%d %H:%M:%SZ")
    if name.endswith("usd") and isinstance(value, int | float):
        return f"{'-' if value < 0 else ''}${abs(value):.6f}"
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _heading(name: str) -> str:
    return name.removesuffix("_at_s").removesuffix("_name").replace("_", " ").upper()


def _is_plain(value: Any) -> bool:
    return not isinstance(value, Mapping | list | tuple)
