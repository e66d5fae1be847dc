"""Rows that the jobs of a batch append to tables, sent many to a statement.

A row then costs a small part of what a statement of its own does, here and in the server.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import psycopg

from store.postgres.adapting import cleaned
from store.postgres.errors import translating

_SIZES = (64, 8, 1)
"""Rows of a statement. Few sizes, so that few statements are known; a statement takes 65,535 parameters at most."""
_INSERT = re.compile(
    r"(?P<into>INSERT INTO \w+ \((?P<columns>[^()]+)\) VALUES) \(\?(?:, \?)*\)"
    r"(?P<rest> ON CONFLICT \((?P<key>[^()]+)\) DO NOTHING)"
)


class _Insert(NamedTuple):
    """A statement, taken apart."""

    into: str
    columns: int
    rest: str
    key: tuple[int, ...]
    """Places of the columns that tell one row from another."""


class Appended:
    """What became of one row: known once its statement has been done."""

    __slots__ = ("_key", "_sent", "_taken")

    def __init__(self, sent: _Sent, key: tuple[Any, ...]) -> None:
        self._sent = sent
        self._key = key
        self._taken: int | None = None

    @property
    def rowcount(self) -> int:
        """1 where the row was new, else 0; of two equal ones in a batch the first that is asked for is."""
        if self._taken is None:
            self._taken = self._sent.take(self._key)
        return self._taken

    def fetchone(self) -> Any:
        return None

    def fetchall(self) -> list[Any]:
        return []

    def __iter__(self) -> Iterator[Any]:
        return iter(())


class _Sent:
    """The keys that statements for the same table gave back."""

    def __init__(self) -> None:
        self.cursors: list[psycopg.Cursor[Any]] = []
        self._new: Counter[tuple[Any, ...]] = Counter()

    def take(self, key: tuple[Any, ...]) -> int:
        with translating():
            for cursor in self.cursors:
                self._new.update(cursor.fetchall())
        self.cursors.clear()
        if not self._new[key]:
            return 0
        self._new[key] -= 1
        return 1


class Appending:
    """The rows of a batch that are not sent yet, by their statements."""

    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        self._connection = connection
        self._rows: dict[str, list[list[Any]]] = {}
        self._sent: dict[str, _Sent] = {}

    def __bool__(self) -> bool:
        return bool(self._rows)

    def add(self, sql: str, row: Sequence[Any]) -> Appended:
        """Remember a row. Raises ValueError for a statement of another form."""
        values = cleaned(row)
        self._rows.setdefault(sql, []).append(values)
        sent = self._sent.setdefault(sql, _Sent())
        return Appended(sent, tuple(values[place] for place in _taken_apart(sql).key))

    def send(self, noted: Callable[[psycopg.Cursor[Any]], None]) -> None:
        """Send all that is remembered, without waiting; `noted` is called with each cursor before it is used."""
        waiting, self._rows = self._rows, {}
        for sql, rows in waiting.items():
            at = 0
            while at < len(rows):
                size = next(size for size in _SIZES if size <= len(rows) - at)
                cursor = psycopg.RawCursor(self._connection)
                cursor.format = psycopg.pq.Format.BINARY
                noted(cursor)
                values = [value for row in rows[at : at + size] for value in row]
                with translating():
                    cursor.execute(_of_many(sql, size), values)
                self._sent[sql].cursors.append(cursor)
                at += size


@lru_cache(maxsize=64)
def _taken_apart(sql: str) -> _Insert:
    found = _INSERT.fullmatch(sql)
    if found is None:
        raise ValueError(f"{sql[:60]!r} is no INSERT of one row with ON CONFLICT (key) DO NOTHING")
    columns = [name.strip() for name in found["columns"].split(",")]
    key = tuple(columns.index(name.strip()) for name in found["key"].split(","))
    return _Insert(found["into"], len(columns), f"{found['rest']} RETURNING {found['key']}", key)


@lru_cache(maxsize=64)
def _of_many(sql: str, rows: int) -> bytes:
    """The statement for so many rows, with PostgreSQL's own placeholders: $1, $2, …"""
    into, columns, rest, _ = _taken_apart(sql)
    groups = (
        "(" + ", ".join(f"${row * columns + column + 1}" for column in range(columns)) + ")"
        for row in range(rows)
    )
    return f"{into} {', '.join(groups)}{rest}".encode()
