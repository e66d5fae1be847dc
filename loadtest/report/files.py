"""Writes a report's files: JSON, one CSV row per request as they end, one HTML page."""

from __future__ import annotations

import csv
from pathlib import Path
from types import TracebackType
from typing import Any

import orjson

from loadtest.records import AT, COLUMNS
from loadtest.rows import Rows

_NAMED = ("outcome", "engine", "cache", "model")


def write_whole(path: Path, data: bytes) -> None:
    """Writes a file atomically: it has either the old content or the new one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(f".{path.name}.unfinished")
    unfinished.write_bytes(data)
    unfinished.replace(path)


def write_json(report: dict[str, Any], path: Path) -> None:
    """Writes the report as JSON."""
    write_whole(path, orjson.dumps(report, option=orjson.OPT_INDENT_2 | orjson.OPT_SERIALIZE_NUMPY))


def write_html(report: dict[str, Any], path: Path) -> None:
    """Writes the report as one page that needs no network."""
    from loadtest.report.html import page

    write_whole(path, page(report).encode())


class RequestLog:
    """A CSV file with one line per request, written as requests end. A context manager."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = path.open("w", newline="", encoding="utf-8")
        self._writer = csv.writer(self._file)
        self._writer.writerow(COLUMNS)

    def __enter__(self) -> RequestLog:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()

    def add(self, rows: Rows, names: list[str]) -> None:
        """Appends requests; times in s, empty if there is no value."""
        named = [AT[name] for name in _NAMED]
        for row in rows.tolist():
            cells = ["" if value != value else f"{value:.6f}".rstrip("0").rstrip(".") for value in row]
            for place in named:
                cells[place] = names[int(row[place])]
            self._writer.writerow(cells)
