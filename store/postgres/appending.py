"""Rows that the jobs of a batch insert, sent many to a statement: as JSON, which is one parameter.

A row then costs a small part of what a statement of its own does, here and in the server.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from typing import Any, NamedTuple

import orjson
import psycopg

from store.errors import NO_INTEGER, ValueRefused
from store.inserting import Insert
from store.postgres.errors import translating

_MOST_BYTES = 4 << 20
"""Of a statement's rows, beyond which there is another statement."""
_EXACT = 2.0**53
"""Up to which every integer is a float."""


class ManyRows(NamedTuple):
    """The statement of an Insert for any number of rows."""

    of_many: bytes
    """Its one parameter: the rows, a list in JSON."""
    columns: tuple[str, ...]
    key: tuple[int, ...]
    """Places of the columns that tell one row from another. With DO NOTHING those of new rows are given back."""

    def row(self, values: Iterable[Any]) -> bytes:
        """A row in JSON. Raises UnicodeEncodeError for a text without UTF-8, ValueRefused for an integer beyond 64 bits."""
        found = dict(zip(self.columns, [_as_json(value) for value in values], strict=True))
        try:
            return orjson.dumps(found, lambda bytea: f"\\x{bytea.hex()}", orjson.OPT_SERIALIZE_NUMPY)
        except orjson.JSONEncodeError as error:
            "".join(value for value in found.values() if isinstance(value, str)).encode()
            raise ValueRefused(NO_INTEGER) from error

    def send(
        self,
        connection: psycopg.Connection[Any],
        rows: Iterable[bytes],
        noted: Callable[[psycopg.Cursor[Any]], None],
    ) -> list[psycopg.Cursor[Any]]:
        """Send them without waiting; `noted` is called with each cursor before it is used."""
        parts: list[list[bytes]] = [[]]
        size = 0
        for row in rows:
            size += len(row)
            if size > _MOST_BYTES and parts[-1]:
                parts.append([])
                size = len(row)
            parts[-1].append(row)
        cursors: list[psycopg.Cursor[Any]] = []
        for part in parts:
            cursors.append(psycopg.RawCursor(connection))
            cursors[-1].format = psycopg.pq.Format.BINARY
            noted(cursors[-1])
            with translating():
                cursors[-1].execute(self.of_many, (b"[" + b",".join(part) + b"]",))
        return cursors


@cache
def many_rows(insert: Insert) -> ManyRows:
    """Of an Insert, which is a constant."""
    of_many = (
        f"{insert.into} SELECT {insert.columns} FROM json_populate_recordset(NULL::{insert.table},"  # noqa: S608
        f" convert_from($1, 'UTF8')::json){insert.on_conflict}"
    )
    if insert.where_there == "NOTHING":
        of_many += f" RETURNING {insert.key}"
    key = tuple(insert.names.index(name) for name in insert.key.split(", "))
    return ManyRows(of_many.encode(), insert.names, key)


class NoRows:
    """What a statement gave that gives no rows."""

    __slots__ = ()

    def fetchone(self) -> Any:
        return None

    def fetchall(self) -> list[Any]:
        return []

    def __iter__(self) -> Iterator[Any]:
        return iter(())


class Appended(NoRows):
    """What became of one row: known once its statement has been done."""

    __slots__ = ("_key", "_table", "_taken")

    def __init__(self, table: _Table, key: tuple[Any, ...]) -> None:
        self._table = table
        self._key = key
        self._taken: int | None = None

    @property
    def rowcount(self) -> int:
        """1 where the row was new, else 0; of two equal ones in a batch the first that is asked for is."""
        if self._taken is None:
            self._taken = self._table.take(self._key)
        return self._taken


class _Table:
    """The rows for one table that are not sent yet, and the keys that came back of those that were."""

    def __init__(self, insert: ManyRows) -> None:
        self.insert = insert
        self.rows: list[bytes] = []
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
    """The rows of a batch, by their statements."""

    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        self._connection = connection
        self._tables: dict[Insert, _Table] = {}

    def add(self, insert: Insert, row: Sequence[Any]) -> Appended:
        """Remember a row. Raises what ManyRows.row raises."""
        table = self._tables.get(insert)
        if table is None:
            table = self._tables[insert] = _Table(many_rows(insert))
        table.rows.append(table.insert.row(row))
        return Appended(table, tuple(_as_json(row[place]) for place in table.insert.key))

    def send(self, noted: Callable[[psycopg.Cursor[Any]], None]) -> None:
        """Send all that is remembered, without waiting; `noted` is called with each cursor before it is used."""
        for table in self._tables.values():
            if table.rows:
                rows, table.rows = table.rows, []
                table.cursors += table.insert.send(self._connection, rows, noted)


def _as_json(value: Any) -> Any:
    """A value as JSON has it for PostgreSQL, with what `cleaned` does: see store.postgres.adapting."""
    kind = type(value)
    if kind is str:
        return value.replace("\0", "\ufffd") if "\0" in value else value
    if kind is float:
        if value.is_integer() and abs(value) <= _EXACT:
            # A column of integers takes no 1.0.
            return int(value)
        if value - value == 0.0:
            return value
        return None if value != value else str(value)
    if kind is bool:
        return int(value)
    return value
