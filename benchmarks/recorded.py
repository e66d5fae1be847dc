"""Recorded data: the folder where it is looked for, and the rows of a file."""

from __future__ import annotations

import gzip
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
DATA = ROOT.parent / "shared" / "data"


class NoData(Exception):
    """A recorded file is absent; the text names it."""


def some_fit(names: Sequence[object], data: Path) -> None:
    """Says so where no file of `data` fits the benchmark."""
    if not names:
        print(f"skipped: no file that fits is in {data} (say where with --data)")


def there(path: Path) -> Path:
    """The path itself. Raises NoData where there is no such file."""
    if not path.is_file():
        raise NoData(f"skipped: {path.name} is not in {path.parent} (say where with --data)")
    return path


def rows(path: Path) -> list[dict[str, Any]]:
    """Every line of a `.jsonl.gz` file. Raises NoData."""
    with gzip.open(there(path), "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]
