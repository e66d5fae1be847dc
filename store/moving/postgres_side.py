"""A PostgreSQL database as what is copied from, or into. Its tables' owner copies: no superuser is needed."""

# ruff: noqa: S608 - names of tables and columns are our schema's
from __future__ import annotations

import json
import struct
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from psycopg import errors

from store.errors import SchemaError, StoreFailed
from store.moving.side import State
from store.moving.tables import Key, Page, Row, Table
from store.postgres.connecting import connect
from store.postgres.errors import translating
from store.postgres.schema import MIGRATIONS_FOLDER, applied, check, refuse_other, refuse_unsuitable
from store.sqlite.schema import COPYING, numbered_files

_TYPES = {"INTEGER": "int8", "REAL": "float8", "TEXT": "text", "BLOB": "bytea"}
_HELD_TIMEOUT_MS = 5_000
_FOREIGN_KEYS = (
    "SELECT conrelid::regclass::text, conname, pg_get_constraintdef(oid) FROM pg_constraint"
    " WHERE contype = 'f' AND connamespace = current_schema()::regnamespace ORDER BY 1, 2"
)
_TRIGGERED = (
    "SELECT DISTINCT tgrelid::regclass::text FROM pg_trigger JOIN pg_class ON pg_class.oid = tgrelid"
    " WHERE NOT tgisinternal AND relnamespace = current_schema()::regnamespace ORDER BY 1"
)


class PostgresSide:
    """One database, on one connection. Close it with `close`."""

    def __init__(self, url: str, *, into: bool) -> None:
        """Connect. `into`: half a copy is what may be there, and the role must own the tables.

        Raises SchemaError (DatabaseTooNew among them), and StoreFailed where there is no connection.
        """
        with translating():
            self._connection = connect(url, statement_timeout_ms=0)
            self._connection.execute("SET idle_in_transaction_session_timeout = 0")
        info = self._connection.info
        self.name = f"postgresql://{info.host}:{info.port}/{info.dbname}"
        try:
            with translating():
                refuse_unsuitable(self._connection)
                if not into or self.state() is None:
                    check(self._connection)
                else:
                    refuse_other(applied(self._connection) or [], numbered_files(MIGRATIONS_FOLDER))
                self._columns = self._read_columns()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    def _read_columns(self) -> dict[str, set[str]]:
        found: dict[str, set[str]] = {}
        for table, column in self._connection.execute(
            "SELECT table_name, column_name FROM information_schema.columns WHERE table_schema = current_schema()"
        ):
            found.setdefault(table, set()).add(column)
        return found

    def database_id(self) -> str:
        """32 hex characters drawn when the database was made."""
        return str(self._one("SELECT database_id FROM installation"))

    def count(self, table: Table) -> int:
        """How many rows a table has."""
        return int(self._one(f"SELECT count(*) FROM {table.name}"))

    def page(self, table: Table, after: Key | None, rows: int) -> Page:
        """Up to `rows` rows beyond a key, or from the beginning."""
        where = f"AND ({table.key_list}) > ({', '.join(['%s'] * len(table.key))})" if after else ""
        query = f"{table.selected} {where} ORDER BY {table.key_list} LIMIT %s"
        with translating(), self._connection.cursor(binary=True) as cursor:
            cursor.execute(query.encode(), (*(after or ()), rows))
            found = cursor.fetchall()
        return Page(found, table.key_of(found[-1]) if len(found) == rows else None)

    def total(self, table: Table) -> int:
        """The sum that triggers keep, in however many rows."""
        return int(self._one(f"SELECT coalesce(sum(total_bytes), 0) FROM {table.name}"))

    def last_ids(self, tables: Sequence[Table]) -> dict[str, int]:
        """The last numbers given; where SQLite gives them again, the highest there is."""
        found: dict[str, int] = {}
        for table in tables:
            if table.identity is None:
                continue
            highest = int(self._one(f"SELECT coalesce(max({table.identity}), 0) FROM {table.name}"))
            if table.counts:
                given = self._one(
                    "SELECT coalesce(pg_sequence_last_value(pg_get_serial_sequence(%s, %s)::regclass), 0)",
                    (table.name, table.identity),
                )
                highest = max(highest, int(given))
            found[table.name] = highest
        return found

    @contextmanager
    def held(self) -> Iterator[None]:
        """Nobody else writes meanwhile: their writes wait. All that is read is of one moment."""
        with translating(), self._connection.transaction():
            self._connection.execute(f"SET LOCAL lock_timeout = {_HELD_TIMEOUT_MS}")
            tables = [
                name
                for (name,) in self._connection.execute(
                    "SELECT format('%I', tablename) FROM pg_tables WHERE schemaname = current_schema()"
                ).fetchall()
            ]
            self._connection.execute(f"LOCK TABLE {', '.join(tables)} IN SHARE MODE".encode())
            yield

    @contextmanager
    def looked_at(self) -> Iterator[None]:
        """All that is read meanwhile is of one moment."""
        with translating(), self._connection.transaction():
            self._connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
            yield

    def lacks(self, table: Table) -> bool:
        """Whether a column of a table is not here. Columns beside SQLite's are made by the database."""
        return not set(table.columns) <= self._columns.get(table.name, set())

    def state(self) -> State | None:
        """What was noted last."""
        if self._one("SELECT to_regclass(format('%%I.%%I', current_schema(), %s::text))", (COPYING,)) is None:
            return None
        state: State = json.loads(self._one(f"SELECT said FROM {COPYING} WHERE name = 'state'"))
        return state

    def begin(self, tables: Sequence[Table], state: State) -> None:
        """Note that copying begins, and put triggers and references away."""
        with translating(), self._connection.transaction():
            self._connection.execute(
                f"CREATE TABLE {COPYING} (name TEXT PRIMARY KEY, said TEXT NOT NULL)".encode()
            )
            full = [table.name for table in tables if not table.is_seeded and self.count(table)]
            if full:
                raise SchemaError(f"{self.name} already holds {full[0]}: copy into an empty database")
            references = self._connection.execute(_FOREIGN_KEYS).fetchall()
            for table, name, _ in references:
                self._connection.execute(f'ALTER TABLE {table} DROP CONSTRAINT "{name}"'.encode())
            for (table,) in self._connection.execute(_TRIGGERED).fetchall():
                self._connection.execute(f"ALTER TABLE {table} DISABLE TRIGGER USER".encode())
            for name, said in (("state", state), ("references", references)):
                self._connection.execute(
                    f"INSERT INTO {COPYING} VALUES (%s, %s)".encode(), (name, json.dumps(said))
                )

    def change(
        self, table: Table, gone: Sequence[Key], rows: Sequence[Row], before: State, state: State
    ) -> None:
        """Delete, insert, and note: all or nothing."""
        with translating(), self._connection.transaction():
            if gone:
                self._delete(table, table.key, gone)
            if rows:
                try:
                    with self._connection.transaction():
                        self._insert(table, rows)
                except errors.UniqueViolation:
                    self._clear(table, rows)
                    self._insert(table, rows)
            noted = self._connection.execute(
                f"UPDATE {COPYING} SET said = %s WHERE name = 'state' AND said = %s".encode(),
                (json.dumps(state), json.dumps(before)),
            ).rowcount
            if noted != 1:
                raise StoreFailed("another copy into the same target is running")

    def _insert(self, table: Table, rows: Sequence[Row]) -> None:
        into = f"COPY {table.name} ({table.column_list}) FROM STDIN (FORMAT BINARY)".encode()
        with self._connection.cursor() as cursor:
            try:
                with cursor.copy(into) as copy:
                    copy.set_types([_TYPES[kind] for kind in table.types])
                    for row in rows:
                        copy.write_row(row)
            except (TypeError, ValueError, OverflowError, AttributeError, struct.error) as error:
                raise StoreFailed("a value has another type than its column") from error

    def _delete(self, table: Table, columns: Sequence[str], keys: Sequence[Key]) -> None:
        where = " AND ".join(f'"{column}" = %s' for column in columns)
        with self._connection.cursor() as cursor:
            cursor.executemany(f"DELETE FROM {table.name} WHERE {where}".encode(), keys)

    def _clear(self, table: Table, rows: Sequence[Row]) -> None:
        """Delete what stands in the way of rows: rows with another key that the source has changed since."""
        for (names,) in self._connection.execute(
            "SELECT array_agg(attname::text) FROM pg_index"
            " JOIN pg_attribute ON attrelid = indrelid AND attnum = ANY (indkey)"
            " WHERE indisunique AND indrelid = %s::regclass GROUP BY indexrelid",
            (table.name,),
        ).fetchall():
            places = [table.columns.index(column) for column in names]
            self._delete(table, names, [tuple(row[place] for place in places) for row in rows])

    def finish(self, tables: Sequence[Table], last_ids: Mapping[str, int], totals: Mapping[str, int]) -> None:
        """Put references and triggers back, set the numbers, forget the note."""
        with translating(), self._connection.transaction():
            for name, total in totals.items():
                self._connection.execute(f"DELETE FROM {name}".encode())
                self._connection.execute(f"INSERT INTO {name} VALUES (1, %s)".encode(), (total,))
            for table in tables:
                if table.name in last_ids:
                    last = last_ids[table.name]
                    self._connection.execute(
                        "SELECT setval(pg_get_serial_sequence(%s, %s)::regclass, %s, %s > 0)",
                        (table.name, table.identity, max(1, last), last),
                    )
            references = json.loads(self._one(f"SELECT said FROM {COPYING} WHERE name = 'references'"))
            for name, constraint, said in references:
                self._connection.execute(f'ALTER TABLE {name} ADD CONSTRAINT "{constraint}" {said}'.encode())
            for (name,) in self._connection.execute(_TRIGGERED).fetchall():
                self._connection.execute(f"ALTER TABLE {name} ENABLE TRIGGER USER".encode())
            self._connection.execute(f"DROP TABLE {COPYING}".encode())
        with translating():
            self._connection.execute("ANALYZE")

    def _one(self, query: str, parameters: tuple[Any, ...] = ()) -> Any:
        with translating():
            row = self._connection.execute(query.encode(), parameters or None).fetchone()
        assert row is not None
        return row[0]
