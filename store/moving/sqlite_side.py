"""A data folder's `understudy.db` as what is copied from, or into."""

# ruff: noqa: S608 - names of tables and columns are our schema's
from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from store.errors import SchemaError, StoreFailed
from store.moving.side import State
from store.moving.tables import WORDS_TRIGGERS, Key, Page, Row, Table
from store.sqlite.database import Database
from store.sqlite.schema import (
    COPYING,
    MIGRATIONS_FOLDER,
    number_of,
    numbered_files,
    refuse_foreign,
    schema_number,
)
from store.sqlite.translation import translating

_BUSY_TIMEOUT_MS = 30_000
_HELD_TIMEOUT_MS = 5_000


class SqliteSide:
    """One file. Close it with `close`."""

    def __init__(self, folder: Path, *, make: bool) -> None:
        """Open `understudy.db` in a folder; with `make` a new one where there is none.

        Raises FileNotFoundError, SchemaError for a file of another program or release, and StoreFailed.
        """
        path = folder / "understudy.db"
        if not path.is_file():
            if not make:
                raise FileNotFoundError(f"{folder} holds no understudy.db: it is no gateway's data folder")
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            Database.open(path).close()
        self.name = str(folder)
        with translating():
            self._connection = sqlite3.connect(path, isolation_level=None)
            self._connection.execute(f"PRAGMA busy_timeout = {_BUSY_TIMEOUT_MS}")
            if self.state() is None:
                refuse_foreign(self._connection)
            newest = number_of(numbered_files(MIGRATIONS_FOLDER)[-1].name)
            if schema_number(self._connection) != newest:
                raise SchemaError(
                    f"{folder} was written by another release: start this one's gateway on it first"
                )

    @property
    def connection(self) -> sqlite3.Connection:
        """For reading the catalogue."""
        return self._connection

    def close(self) -> None:
        """Close the file."""
        self._connection.close()

    def database_id(self) -> str:
        """32 hex characters drawn when the database was made."""
        row: tuple[str] = self._connection.execute("SELECT database_id FROM installation").fetchone()
        return row[0]

    def count(self, table: Table) -> int:
        """How many rows a table has."""
        row: tuple[int] = self._connection.execute(f"SELECT count(*) FROM {table.name}").fetchone()
        return row[0]

    def page(self, table: Table, after: Key | None, rows: int) -> Page:
        """Up to `rows` rows beyond a key. Texts are as PostgreSQL takes them: U+FFFD in place of NUL and of no UTF-8.

        Raises StoreFailed for a key with a NUL, which would not tell rows apart there.
        """
        where = f"AND ({table.key_list}) > ({', '.join('?' * len(table.key))})" if after else ""
        query = f"{table.selected} {where} ORDER BY {table.key_list} LIMIT ?"
        with translating():
            try:
                found: list[Row] = self._connection.execute(query, (*(after or ()), rows)).fetchall()
            except sqlite3.OperationalError as error:
                if "UTF-8" not in str(error):
                    raise
                self._connection.text_factory = lambda said: said.decode("utf-8", "replace")
                try:
                    found = self._connection.execute(query, (*(after or ()), rows)).fetchall()
                finally:
                    self._connection.text_factory = str
        end = table.key_of(found[-1]) if len(found) == rows else None
        texts = [place for place, kind in enumerate(table.types) if kind == "TEXT"]
        for number, row in enumerate(found):
            if any("\0" in (row[place] or "") for place in texts):
                if any("\0" in part for part in table.key_of(row) if isinstance(part, str)):
                    raise StoreFailed(
                        f"{table.name}: a key holds U+0000, which PostgreSQL refuses: delete that row first"
                    )
                found[number] = tuple(
                    value.replace("\0", "\ufffd") if isinstance(value, str) else value for value in row
                )
        return Page(found, end)

    def total(self, table: Table) -> int:
        """The sum that triggers keep."""
        row: tuple[int] = self._connection.execute(
            f"SELECT coalesce(sum(total_bytes), 0) FROM {table.name}"
        ).fetchone()
        return row[0]

    def last_ids(self, tables: Sequence[Table]) -> dict[str, int]:
        """The last numbers given; where SQLite gives them again, the highest there is."""
        kept = dict(self._connection.execute("SELECT name, seq FROM sqlite_sequence").fetchall())
        return {
            table.name: kept.get(table.name, 0)
            if table.counts
            else self._connection.execute(
                f"SELECT coalesce(max({table.identity}), 0) FROM {table.name}"
            ).fetchone()[0]
            for table in tables
            if table.identity is not None
        }

    @contextmanager
    def held(self) -> Iterator[None]:
        """Nobody else writes meanwhile: their writes wait, and fail after half a minute."""
        with translating():
            self._connection.execute(f"PRAGMA busy_timeout = {_HELD_TIMEOUT_MS}")
            self._connection.execute("BEGIN IMMEDIATE")
        try:
            yield
        finally:
            self._connection.execute("ROLLBACK")

    @contextmanager
    def looked_at(self) -> Iterator[None]:
        """All that is read meanwhile is of one moment."""
        self._connection.execute("BEGIN")
        try:
            yield
        finally:
            self._connection.execute("ROLLBACK")

    def state(self) -> State | None:
        """What was noted last."""
        with translating():
            if not self._connection.execute(
                "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?", (COPYING,)
            ).fetchone():
                return None
            (said,) = self._connection.execute(f"SELECT said FROM {COPYING} WHERE name = 'state'").fetchone()
        state: State = json.loads(said)
        return state

    def begin(self, tables: Sequence[Table], state: State) -> None:
        """Note that copying begins, and put the triggers away, but for those that index words."""
        with self._written():
            full = [table.name for table in tables if not table.is_seeded and self.count(table)]
            if full:
                raise SchemaError(f"{self.name} already holds {full[0]}: copy into a new folder")
            self._connection.execute(f"CREATE TABLE {COPYING} (name TEXT PRIMARY KEY, said TEXT NOT NULL)")
            triggers = [
                (name, sql)
                for name, sql in self._connection.execute(
                    "SELECT name, sql FROM sqlite_master WHERE type = 'trigger'"
                ).fetchall()
                if not WORDS_TRIGGERS.fullmatch(name)
            ]
            for name, _ in triggers:
                self._connection.execute(f"DROP TRIGGER {name}")
            notes = [("state", json.dumps(state)), ("triggers", json.dumps([sql for _, sql in triggers]))]
            self._connection.executemany(f"INSERT INTO {COPYING} VALUES (?, ?)", notes)

    def change(
        self, table: Table, gone: Sequence[Key], rows: Sequence[Row], before: State, state: State
    ) -> None:
        """Delete, insert, and note: all or nothing."""
        where = " AND ".join(f'"{column}" = ?' for column in table.key)
        delete = f"DELETE FROM {table.name} WHERE {where}"
        marks = ", ".join("?" * len(table.columns))
        insert = f"INSERT INTO {table.name} ({table.column_list}) VALUES ({marks})"
        with self._written():
            if gone:
                self._connection.executemany(delete, gone)
            self._connection.execute("SAVEPOINT page")
            try:
                self._connection.executemany(insert, rows)
            except sqlite3.IntegrityError:
                self._connection.execute("ROLLBACK TO page")
                self._clear(table, rows)
                self._connection.executemany(insert, rows)
            noted = self._connection.execute(
                f"UPDATE {COPYING} SET said = ? WHERE name = 'state' AND said = ?",
                (json.dumps(state), json.dumps(before)),
            ).rowcount
            if noted != 1:
                raise StoreFailed("another copy into the same target is running")

    def _clear(self, table: Table, rows: Sequence[Row]) -> None:
        """Delete what stands in the way of rows: rows with another key that the source has changed since."""
        indexes = self._connection.execute(f"PRAGMA index_list({table.name})").fetchall()
        for index in [index[1] for index in indexes if index[2]]:
            names = [column for _, _, column in self._connection.execute(f"PRAGMA index_info({index})")]
            where = " AND ".join(f'"{column}" = ?' for column in names)
            places = [table.columns.index(column) for column in names]
            self._connection.executemany(
                f"DELETE FROM {table.name} WHERE {where}",
                [tuple(row[place] for place in places) for row in rows],
            )

    def finish(self, tables: Sequence[Table], last_ids: Mapping[str, int], totals: Mapping[str, int]) -> None:
        """Check the references, put the triggers back, set the numbers, forget the note."""
        with self._written():
            broken = self._connection.execute("PRAGMA foreign_key_check").fetchone()
            if broken is not None:
                raise StoreFailed(f"a row of {broken[0]} refers to a row of {broken[2]} that is not there")
            for name, total in totals.items():
                self._connection.execute(f"UPDATE {name} SET total_bytes = ?", (total,))
            for table in tables:
                if table.counts and table.name in last_ids:
                    self._connection.execute("DELETE FROM sqlite_sequence WHERE name = ?", (table.name,))
                    if last_ids[table.name]:
                        self._connection.execute(
                            "INSERT INTO sqlite_sequence (name, seq) VALUES (?, ?)",
                            (table.name, last_ids[table.name]),
                        )
            (said,) = self._connection.execute(
                f"SELECT said FROM {COPYING} WHERE name = 'triggers'"
            ).fetchone()
            for sql in json.loads(said):
                self._connection.execute(sql)
            self._connection.execute(f"DROP TABLE {COPYING}")

    @contextmanager
    def _written(self) -> Iterator[None]:
        with translating():
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield
                self._connection.execute("COMMIT")
            except BaseException:
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
                raise
