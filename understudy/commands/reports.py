"""Reports of commands that take long: lines on the way, a file for machines, and one that the admin pages show."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import click

from understudy.commands.giving_up import give_up

_EVERY_S = 5.0


def now_and_then(every_s: float = _EVERY_S) -> Callable[[str], None]:
    """Prints a line on standard error, unless one was printed within `every_s`."""
    next_s = time.monotonic() + every_s

    def say(text: str) -> None:
        nonlocal next_s
        if time.monotonic() >= next_s:
            next_s = time.monotonic() + every_s
            click.echo(text, err=True)

    return say


def write_report(result: Mapping[str, Any], json_file: Path | None) -> None:
    """Writes every figure to a file, if one was named."""
    try:
        if json_file is not None:
            json_file.write_text(json.dumps(result, indent=1, allow_nan=False) + "\n", encoding="utf-8")
    except (OSError, ValueError) as error:
        give_up(str(error))


def keep_report(result: Mapping[str, Any], folder: Path | None, name: str) -> None:
    """Writes a report into a data folder, if there is one, whose admin pages show it. It holds no words of anybody."""
    if folder is None:
        return
    target = folder / name
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        target.touch(mode=0o600)
        target.write_text(json.dumps(result, allow_nan=False) + "\n", encoding="utf-8")
    except (OSError, ValueError) as error:
        give_up(str(error))
    click.echo(f"\nthe admin pages of {folder} show this report", err=True)
