"""Runs in a database of a temporary folder, for simulations in virtual time: a write has ended when its call returns."""

from __future__ import annotations

import shutil
import tempfile
import weakref
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from store.database import Connection
from store.sqlite.database import Database
from store.workflows.runs import WorkflowRuns

T = TypeVar("T")

_FILE = "understudy.db"


class OpenedRuns(WorkflowRuns):
    """A new database; its folder goes with this object."""

    def __init__(self) -> None:
        folder = Path(tempfile.mkdtemp(prefix="runs-"))
        for file in _migrated().iterdir():
            shutil.copy(file, folder / file.name)
        db = Database.open(folder / _FILE)
        weakref.finalize(self, _remove, db, folder)
        super().__init__(_AtOnce(db))


class _AtOnce:
    """A database whose writes have ended when `write` returns, so that virtual time does not pass meanwhile."""

    def __init__(self, db: Database) -> None:
        self._db = db

    def __getattr__(self, name: str) -> Any:
        return getattr(self._db, name)

    def write(self, job: Callable[[Connection], T], **options: Any) -> Future[T]:
        """See store.database.Database."""
        future: Future[T] = self._db.write(job, **options)
        with suppress(Exception):
            future.result()
        return future


@cache
def _migrated() -> Path:
    """An empty database of the current schema: to copy is faster than to make."""
    folder = Path(tempfile.mkdtemp(prefix="runs-"))
    Database.open(folder / _FILE).close()
    weakref.finalize(_AtOnce, shutil.rmtree, folder, True)
    return folder


def _remove(db: Database, folder: Path) -> None:
    db.close()
    shutil.rmtree(folder, ignore_errors=True)
