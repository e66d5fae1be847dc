"""What is copied between two databases: every table of SQLite's schema, read from its catalogue."""

from __future__ import annotations

import re
import sqlite3
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

from store.sqlite.schema import COPYING

OF_SQLITE = re.compile(
    r"_sqlite_migrations|sqlite_sequence|example_words\w*|example_vocabulary|request_words\w*"
)
"""What SQLite alone has: its bookkeeping and its indexes of words."""
BY_ROWID = frozenset({"variables"})
"""Tables whose rows are listed by SQLite's own number of a row, where there is no other."""
WORDS_TRIGGERS = re.compile(r"(example|request)_words_\w+")
_SUMS = frozenset({"exact_size", "request_texts_size"})
"""Totals that triggers keep: in SQLite one row, in PostgreSQL several. Their sum is copied."""
_SEEDED = frozenset({"generations", "sums_progress"})
_LEFT_OUT = frozenset({COPYING, "leases", "blobs", "worker_loads"})
"""Who does what at the moment; and files, which the folder `artifacts` has where there is one."""

Key: TypeAlias = tuple[Any, ...]
Row: TypeAlias = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Table:
    """One table, as both databases have it."""

    name: str
    columns: tuple[str, ...]
    types: tuple[str, ...]
    """INTEGER, REAL, TEXT or BLOB, of each column."""
    key: tuple[str, ...]
    """The columns that tell rows apart; rows are copied in this order."""
    counts: bool
    """Whether ids of deleted rows are never given again (AUTOINCREMENT)."""

    def key_of(self, row: Row) -> Key:
        """A row's key."""
        return tuple(row[self.columns.index(column)] for column in self.key)

    @property
    def is_sum(self) -> bool:
        """Whether it is a total of other rows."""
        return self.name in _SUMS

    @property
    def is_seeded(self) -> bool:
        """Whether a new database has rows in it."""
        return self.is_sum or "only_row" in self.columns or self.name in _SEEDED

    @property
    def identity(self) -> str | None:
        """The column that numbers the rows, where there is one."""
        if self.name in BY_ROWID:
            return "rowid"
        first = self.key[0]
        numbers = len(self.key) == 1 and self.types[self.columns.index(first)] == "INTEGER"
        return first if numbers and first != "only_row" else None

    @property
    def selected(self) -> str:
        """SQL of the rows that are copied, to be gone on with by AND: a database's check of its secret is its own."""
        which = "name <> 'secret_check'" if self.name == "generations" else "1 = 1"
        return f"SELECT {self.column_list} FROM {self.name} WHERE {which}"  # noqa: S608 - names from the catalogue

    @property
    def column_list(self) -> str:
        """For SQL."""
        return ", ".join(f'"{column}"' for column in self.columns)

    @property
    def key_list(self) -> str:
        """For SQL."""
        return ", ".join(f'"{column}"' for column in self.key)


class Page(NamedTuple):
    """Some rows in the order of their keys."""

    rows: list[Row]
    end: Key | None
    """All rows up to this key are in it; None: all to the table's end."""

    def up_to(self, table: Table, end: Key | None) -> Page:
        """Without the rows beyond a key."""
        if end is None or self.end == end:
            return self
        return Page([row for row in self.rows if table.key_of(row) <= end], end)


def tables(connection: sqlite3.Connection) -> list[Table]:
    """All that are copied, by name. SQLite's own and its indexes of words are not."""
    found = connection.execute(
        "SELECT name, sql FROM sqlite_master WHERE type = 'table' AND sql IS NOT NULL ORDER BY name"
    ).fetchall()
    return [_table(connection, name, sql) for name, sql in found if not _is_left_out(name)]


def _is_left_out(name: str) -> bool:
    return name in _LEFT_OUT or OF_SQLITE.fullmatch(name) is not None


def _table(connection: sqlite3.Connection, name: str, sql: str) -> Table:
    columns = connection.execute(f"PRAGMA table_info({name})").fetchall()
    key = [column for _, column, _, _, _, place in sorted(columns, key=lambda one: one[5]) if place]
    hidden = [("rowid", "INTEGER")] if name in BY_ROWID else []
    all_columns = [*hidden, *((column[1], column[2]) for column in columns)]
    return Table(
        name,
        tuple(name for name, _ in all_columns),
        tuple(type_ for _, type_ in all_columns),
        tuple(key or _unique(connection, name)),
        "AUTOINCREMENT" in sql,
    )


def _unique(connection: sqlite3.Connection, table: str) -> list[str]:
    """The columns of a table's first rule of uniqueness."""
    index: str = next(
        name for _, name, unique, *_ in connection.execute(f"PRAGMA index_list({table})") if unique
    )
    return [column for _, _, column in connection.execute(f"PRAGMA index_info({index})")]
