"""A database file comes to this version's schema whole or not at all, and says why where it cannot."""

from __future__ import annotations

import hashlib
import re
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from store.database import Connection
from store.errors import DatabaseTooNew, SchemaError, StoreFailed
from store.sqlite.database import Database
from store.sqlite.schema import MIGRATIONS_FOLDER, number_of, numbered_files, schema_number, statements
from store.workflows.records import Claim
from store.workflows.runs import WorkflowRuns


def folder_with(tmp_path: Path, **scripts: str) -> Path:
    folder = tmp_path / "migrations"
    folder.mkdir(exist_ok=True)
    for name, script in scripts.items():
        (folder / f"{name.removeprefix('m')}.sql").write_text(script)
    for file in MIGRATIONS_FOLDER.glob("*.sql"):
        (folder / file.name).write_text(file.read_text())
    return folder


FIRST = {
    "sqlite": "799eaab391b8a9040fd4f5830079191bfdf1b761a52c80fcda7173be8a7989bc",
    "postgres": "a1c05728455997a742c4a45d9a015a6e13cd48d000ca19225a8b13ba2cddb76a",
}
"""Of the schema that databases with the first file's number have, without comments and spaces."""


@pytest.mark.parametrize("database", FIRST)
def test_the_schema_of_a_number_never_changes(database: str) -> None:
    """What databases of that number hold is as it is: a change is a file with the next number, in both folders."""
    folder = MIGRATIONS_FOLDER.parent.parent / database / "migrations"
    text = re.sub(r"--.*|\s", "", numbered_files(folder)[0].read_text(encoding="utf-8"))
    assert hashlib.sha256(text.encode()).hexdigest() == FIRST[database]


def first_of(tmp_path: Path) -> Path:
    """A folder with nothing but the first file."""
    folder = tmp_path / "first"
    folder.mkdir(exist_ok=True)
    first = numbered_files(MIGRATIONS_FOLDER)[0]
    (folder / first.name).write_text(first.read_text())
    return folder


def former(path: Path, *names: str) -> None:
    """A database of a version that listed its migrations by name."""
    Database.open(path, migrations=first_of(path.parent)).close()
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA application_id = 0")
        connection.execute("PRAGMA user_version = 0")
        connection.execute("CREATE TABLE _sqlite_migrations (migration_set TEXT, name TEXT)")
        rows = [("understudy", name) for name in names]
        connection.executemany("INSERT INTO _sqlite_migrations VALUES (?, ?)", rows)


def test_a_file_that_listed_its_migrations_is_taken_along(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    former(path, "0001_start", "0112_worker_capacity")
    with closing(sqlite3.connect(path)) as connection:
        assert schema_number(connection) == 112
        before = connection.execute("SELECT database_id FROM installation").fetchone()
    Database.open(path).close()
    with closing(sqlite3.connect(path)) as connection:
        assert schema_number(connection) == number_of(numbered_files(MIGRATIONS_FOLDER)[-1].name)
        assert connection.execute("SELECT database_id FROM installation").fetchone() == before
    assert "_sqlite_migrations" not in tables(path)


def test_an_older_file_is_refused_with_the_way_along(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    former(path, "0001_start", "0097_cache_page")
    for _ in range(2):
        with pytest.raises(
            SchemaError, match=r"schema 97.*reads 112.*0\.1\.0 with schema 112.*understudy export"
        ):
            Database.open(path)


def tables(path: Path) -> set[str]:
    connection = sqlite3.connect(path)
    try:
        return {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    finally:
        connection.close()


def test_a_failed_migration_leaves_nothing_of_itself_and_names_itself(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    Database.open(path).close()
    before = tables(path)
    folder = folder_with(
        tmp_path,
        m9002_more="CREATE TABLE extra (a);\nINSERT INTO extra VALUES (1);\nINSERT INTO missing VALUES (1);\n",
    )

    with pytest.raises(
        SchemaError, match=r"9002_more failed at 'INSERT INTO missing.*no such table: missing"
    ):
        Database.open(path, migrations=folder)

    assert tables(path) == before
    (folder / "9002_more.sql").write_text("CREATE TABLE extra (a);")
    Database.open(path, migrations=folder).close()
    assert tables(path) == before | {"extra"}


def test_a_first_opening_that_fails_leaves_no_half_a_schema(tmp_path: Path) -> None:
    folder = folder_with(tmp_path, m9002_bad="CREATE TABLE broken (;")

    with pytest.raises(SchemaError):
        Database.open(tmp_path / "a.db", migrations=folder)

    assert not {"examples", "requests"} & tables(tmp_path / "a.db")


def test_a_database_from_a_later_version_is_refused_and_not_touched(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    Database.open(path, migrations=folder_with(tmp_path, m9002_later="CREATE TABLE later (a);")).close()

    with pytest.raises(DatabaseTooNew, match=r"schema 9002.*later version"):
        Database.open(path)

    assert "later" in tables(path)


def test_a_file_that_is_no_database_is_not_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    path.write_bytes(b"somebody's letters" * 100)

    with pytest.raises(StoreFailed, match="not a database"):
        Database.open(path)

    assert path.read_bytes() == b"somebody's letters" * 100


@pytest.mark.slow
def test_processes_that_start_at_once_migrate_once(tmp_path: Path) -> None:
    opening = (
        "import sys; from pathlib import Path; from store.sqlite.database import Database;"
        "db = Database.open(Path(sys.argv[1])); print(db.database_id()); db.close()"
    )
    path = tmp_path / "a.db"
    children = [
        subprocess.Popen([sys.executable, "-c", opening, str(path)], stdout=subprocess.PIPE, text=True)
        for _ in range(4)
    ]
    said = [child.communicate(timeout=180)[0].strip() for child in children]

    assert [child.returncode for child in children] == [0, 0, 0, 0]
    assert len(set(said)) == 1


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("m0112_again", "'0112_again.sql' and '0112_schema.sql' have the same number"),
        ("m3_third", "'3_third.sql' should be called NNNN_"),
    ],
)
def test_a_migration_without_a_number_of_its_own_is_not_passed_over(
    tmp_path: Path, name: str, problem: str
) -> None:
    folder = folder_with(tmp_path, **{name: "SELECT 1;"})

    with pytest.raises(SchemaError, match=problem):
        numbered_files(folder)


def test_a_trigger_is_one_statement_and_half_a_statement_is_an_error() -> None:
    trigger = (
        "CREATE TRIGGER t AFTER INSERT ON a BEGIN\n  UPDATE b SET c = 1;\n  UPDATE b SET d = ';';\nEND;\n"
    )

    assert list(statements(f"-- why; because\n\n{trigger}SELECT 1;")) == [trigger, "SELECT 1;"]
    with pytest.raises(SchemaError, match="unfinished statement"):
        list(statements("CREATE TABLE a (b)"))


def test_runs_from_before_the_five_tables_lose_no_body_no_contributor_and_no_size(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    db = Database.open(path, migrations=first_of(tmp_path))

    def insert(connection: Connection) -> None:
        connection.execute(
            "INSERT INTO workflow_runs (id, tenant, key_id, contributor, app, state, no_store, background, gets,"
            " keep_values_s, idempotency_key, idempotency_hash, created_at_s) VALUES"
            " ('run_1', 'a1', 'k', 'k/u', '', 'running', 0, 0, '{}', 60, '', x'', 1000)"
        )
        connection.execute(
            "INSERT INTO workflow_steps (run_id, step, position, name, model, primitive, component, effects, reads,"
            " writes, waits, state, attempts, rank, task_group, depth, engine, replica, request_id, prompt_tokens,"
            " cached_tokens, completion_tokens, cost_usd, items, batch, claimed_until_s) VALUES"
            " ('run_1', 's0', 0, 'plan', 'm', 'chat', '', 0, '{}', '{}', '[]', 'running', 1, '', '', 0, '', '', '',"
            " 0, 0, 0, 0, 0, '', 0)"
        )
        for step, text in (("", b'{"a": 1}'), ("s0", b"body")):
            connection.execute("INSERT INTO workflow_texts VALUES ('run_1', ?, 'a1', 8, ?)", (step, text))
        for contributor in ("k/u", "k/v"):
            connection.execute("INSERT INTO workflow_contributors VALUES ('a1', ?, 'run_1')", (contributor,))
        connection.execute(
            "INSERT INTO collections (tenant, name, generation, created_at_s) VALUES ('a1', 'c', 'g', 1)"
        )
        connection.execute(
            "INSERT INTO collection_texts (tenant, collection, contributor, digest, created_at_s, size_bytes, identity,"
            " vector, text) VALUES ('a1', 'c', '', x'00', 1, 7, 'e', x'00', x'61')"
        )

    db.write(insert).result(30)
    db.close()
    db = Database.open(path)
    runs = WorkflowRuns(db)
    whole = runs.run("run_1", "a1")
    assert whole is not None and whole.run.context == {"a": 1}
    assert [step.plan.body for step in whole.steps] == [b"body"]
    assert [each.text for each in runs.assets.texts("a1", "c")] == ["a"]
    assert runs.use("a1").total_bytes == 2 * 8 + 7
    assert runs.claim(Claim("w2", 60.0)).result(30) == ("run_1",), "what was under way is due at once"
    assert runs.forget_contributor("a1", "k/v").result(30) == 1, "who asked for a step of it"
    assert runs.use("a1").total_bytes == 7
    db.close()
