"""SQLite's errors as the store's own, with the cause kept: nothing outside this folder catches sqlite3.Error."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from store.errors import NO_INTEGER, StoreClosed, StoreError, StoreFailed, ValueRefused

_WORDS = {
    sqlite3.SQLITE_FULL: "disk full",
    sqlite3.SQLITE_BUSY: "locked by another process",
    sqlite3.SQLITE_CANTOPEN: "the database file cannot be opened",
}
_DAMAGED = "the file is damaged, or not a database: restore it from a copy of the data folder, or move it away to begin anew"


def in_words(error: sqlite3.Error) -> str:
    """What went wrong, for people. No value of anybody's is in it."""
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
        return _DAMAGED
    return _WORDS.get(code, str(error))


def translated(error: sqlite3.Error) -> StoreError:
    """The store's error for one of SQLite's, which is its cause."""
    found: StoreError
    if isinstance(error, sqlite3.IntegrityError):
        found = ValueRefused(str(error))
    elif isinstance(error, sqlite3.ProgrammingError) and "closed" in str(error):
        found = StoreClosed("the store is closed: nothing more can be read")
    else:
        found = StoreFailed(in_words(error))
    found.__cause__ = error
    return found


@contextmanager
def translating() -> Iterator[None]:
    """Raise the store's errors where the block raises SQLite's."""
    try:
        yield
    except sqlite3.Error as error:
        raise translated(error) from error


class ReadingConnection(sqlite3.Connection):
    """A connection whose statements raise the store's errors, both when they are executed and when rows are fetched."""

    def execute(self, sql: str, parameters: Any = (), /) -> sqlite3.Cursor:
        """As sqlite3's; raises StoreFailed, or StoreClosed on a closed connection."""
        found: sqlite3.Cursor = self.cursor().execute(sql, parameters)
        return found

    def cursor(self, factory: Any = None) -> Any:
        """A cursor whose errors are the store's."""
        try:
            return super().cursor(factory or _ReadingCursor)
        except sqlite3.Error as error:
            raise translated(error) from error

    def __del__(self) -> None:
        # A thread's connection ends with the thread. From Python 3.13 on one that is not closed before is warned of.
        # One that could not be opened cannot be closed.
        with suppress(sqlite3.ProgrammingError):
            self.close()


class _ReadingCursor(sqlite3.Cursor):
    def execute(self, sql: str, parameters: Any = (), /) -> _ReadingCursor:
        try:
            super().execute(sql, parameters)
        except sqlite3.Error as error:
            raise translated(error) from error
        except OverflowError as error:
            raise ValueRefused(NO_INTEGER) from error
        return self

    def fetchone(self) -> Any:
        try:
            return super().fetchone()
        except sqlite3.Error as error:
            raise translated(error) from error

    def fetchall(self) -> list[Any]:
        try:
            return super().fetchall()
        except sqlite3.Error as error:
            raise translated(error) from error

    def __next__(self) -> Any:
        try:
            return super().__next__()
        except sqlite3.Error as error:
            raise translated(error) from error
