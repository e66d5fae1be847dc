"""Shows how an import or export goes: a bar on a terminal, a line now and then elsewhere. Always on standard error."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from types import TracebackType
from typing import Any

import click

_EVERY_S = 5.0
_SHOWN_REFUSALS = 100
_MIB = 2**20


class Progress:
    """A learning.bank.importing.importer.Listener. Without `rich` (extra `demo` or `load`) a terminal gets lines too."""

    def __init__(self, files: Sequence[str]) -> None:
        self._files = len(files)
        self._bar: Any = None
        self._task: Any = None
        self._path = ""
        self._next_s = time.monotonic() + _EVERY_S
        self._refusals = 0
        if sys.stderr.isatty():
            try:
                from rich.console import Console
                from rich.progress import Progress as Bar
            except ImportError:
                return
            self._bar = Bar(console=Console(stderr=True), transient=True)

    def __enter__(self) -> Progress:
        if self._bar is not None:
            self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()
        if self._refusals > _SHOWN_REFUSALS:
            self._say(f"{self._refusals - _SHOWN_REFUSALS} more lines were refused")

    def begin(self, path: str) -> None:
        """The next file."""
        self._path = path
        if self._bar is not None:
            self._task = self._bar.add_task(path, total=None)

    def advanced(self, read_bytes: int, size_bytes: int) -> None:
        """So much of the file is read, and committed. A size of 0 is unknown."""
        if self._bar is not None:
            self._bar.update(self._task, completed=read_bytes, total=size_bytes or None)
        elif time.monotonic() >= self._next_s:
            self._next_s = time.monotonic() + _EVERY_S
            share = f" ({100 * read_bytes // size_bytes} %)" if size_bytes else ""
            self._say(f"{self._path}: {read_bytes / _MIB:.1f} MiB read{share}")

    def refused(self, path: str, line: int, reason: str) -> None:
        """A line was not taken. The first hundred are shown."""
        self._refusals += 1
        if self._refusals <= _SHOWN_REFUSALS:
            self._say(f"{path}:{line}: {reason}")

    def _say(self, text: str) -> None:
        if self._bar is not None:
            self._bar.console.print(text, markup=False, highlight=False, soft_wrap=True)
        else:
            click.echo(text, err=True)
