from __future__ import annotations

import math
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from store.decisions.requests import RequestLog
from store.errors import DatabaseTooNew, SchemaError, StoreFailed
from store.examples.accounting import worth
from store.examples.bank import ExampleBank
from store.jobs.operator_asks import OperatorAsks
from store.sqlite.database import Database
from store.sqlite.schema import MIGRATIONS_FOLDER, numbered_files, statements
from store.workflows.records import Claim
from store.workflows.runs import WorkflowRuns
from tests.store.rows import request_record


def folder_with(tmp_path: Path, **scripts: str) -> Path:
    folder = tmp_path / "migrations"
    folder.mkdir(exist_ok=True)
    for name, script in scripts.items():
        (folder / f"{name.removeprefix('m')}.sql").write_text(script)
    for file in MIGRATIONS_FOLDER.glob("*.sql"):
        (folder / file.name).write_text(file.read_text())
    return folder


def before(number: str, tmp_path: Path) -> Path:
    """The migrations that there were before that one."""
    folder = tmp_path / "old"
    folder.mkdir()
    for file in numbered_files(MIGRATIONS_FOLDER):
        if file.name < number:
            (folder / file.name).write_text(file.read_text())
    return folder


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

    with pytest.raises(DatabaseTooNew, match=r"9002_later.*later version"):
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
        ("m0001_again", "'0001_again.sql' and '0001_start.sql' have the same number"),
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


def test_examples_from_before_the_accounts_lose_no_text_no_use_and_no_place(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    db = Database.open(path, migrations=before("0002", tmp_path))
    row = (1, "a1", "s", "large", "req-1", 1000.0, 3, 4, 5, 2000.0, "v1", b"\0" * 16, "qué", "a", "e")

    def insert(connection: sqlite3.Connection) -> None:
        connection.execute(
            "INSERT INTO examples (seq, tenant, scope, source_engine, request_id, created_at_s, prompt_tokens,"
            " completion_tokens, uses, last_used_at_s, embedding_version, vector, question, answer, embedded_text)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            row,
        )
        connection.execute("INSERT INTO removed_examples VALUES (2, 99, 'a1')")
        connection.execute("UPDATE example_sequence SET last_seq = 2")

    db.write(insert).result(30)
    db.close()

    db = Database.open(path)
    bank = ExampleBank(db)
    found = bank.get("a1", 1)
    assert found is not None
    assert (found.question, found.answer, found.uses, found.last_used_at_s) == ("qué", "a", 5, 2000.0)
    assert (found.kind, found.contributor, found.size_bytes) == ("observed", "", 1024 + 16 + 4 + 1 + 1)
    assert bank.totals("a1").size_bytes == found.size_bytes
    value, per_byte = db.read().execute("SELECT worth, worth_per_byte FROM example_accounts").fetchone()
    assert value == pytest.approx(worth(5.0, 2000.0, 2000.0), abs=1e-9)
    assert per_byte == pytest.approx(value - math.log(found.size_bytes))
    assert [change.removed for change in bank.tail(0)] == [False, True]
    db.close()


def test_runs_from_before_the_workflows_lose_no_step_and_no_value(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    db = Database.open(path, migrations=before("0087", tmp_path))

    def insert(connection: sqlite3.Connection) -> None:
        connection.execute(
            "INSERT INTO workflow_runs (id, tenant, key_id, contributor, app, state, owner, lease_until_s, no_store,"
            " background, gets, keep_values_s, idempotency_key, idempotency_hash, created_at_s) VALUES"
            " ('run_1', 'a1', 'k', 'k/u', '', 'running', 'w1', 9, 0, 0, '{}', 60, '', x'', 1000)"
        )
        connection.execute(
            "INSERT INTO workflow_steps VALUES ('run_1', 's0', 0, 'plan', 'm', '{\"x\": \"var_b\"}', '{}', 'running', 1,"
            " 'latency', '', 2, 'lead', 'r1', 'req', 1, 2, 3, NULL, NULL, 7, 6, 5, 0.5, NULL)"
        )
        for step, text in (("", b'{"a": 1}'), ("s0", b"body")):
            connection.execute("INSERT INTO workflow_texts VALUES ('run_1', ?, 'a1', 8, ?)", (step, text))
        for contributor in ("k/u", "k/v"):
            connection.execute("INSERT INTO workflow_contributors VALUES ('a1', ?, 'run_1')", (contributor,))
        for id, state, value in (("var_b", "ready", b"text"), ("var_a", "streaming", None)):
            connection.execute(
                "INSERT INTO variables (id, tenant, contributor, app, name, run_id, step, state, size_bytes, created_at_s,"
                " value) VALUES (?, 'a1', 'k/u', '', 'x', 'run_1', '', ?, ?, 1000, ?)",
                (id, state, len(value or b""), value),
            )
        connection.execute("INSERT INTO variable_pieces VALUES ('var_a', 0, x'7069656365')")
        connection.execute("INSERT INTO variable_readers VALUES ('var_b', 'run_1')")

    db.write(insert).result(30)
    db.close()

    db = Database.open(path)
    runs = WorkflowRuns(db)
    whole = runs.run("run_1", "a1")
    assert whole is not None
    assert [(v.id, v.state, v.value) for v in whole.variables] == [
        ("var_b", "ready", "text"),
        ("var_a", "streaming", None),
    ]
    (step,) = whole.steps
    assert (step.plan.primitive, step.plan.reads, step.progress.depth) == ("chat", {"x": "var_b"}, 2)
    assert (step.progress.cost_usd, step.progress.items, step.progress.started_at_s) == (0.5, 0, 3)
    assert (step.plan.body, whole.run.context) == (b"body", {"a": 1})
    assert runs.use("a1").total_bytes == 4 + 2 * 8
    assert runs.claim(Claim("w2", 60.0)).result(30) == ("run_1",), "what was under way is due at once"
    found = runs.variable("a1", "var_a", now_s=1000.0)
    assert found is not None and (found.state, found.attempt) == ("pending", 1)
    assert runs.forget_contributor("a1", "k/v").result(30) == 1, "who asked for a step of it"
    assert runs.use("a1").total_bytes == 0
    db.close()


def test_a_cache_hit_of_an_earlier_release_has_the_reason_that_pages_know(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    db = Database.open(path, migrations=before("0107", tmp_path))
    log = RequestLog(db)
    for number, reason in enumerate(("exact_repeat", "bandit")):
        log.record(request_record(number, reason=reason)).result(30)
    db.close()

    db = Database.open(path)
    assert {record.reason for record in RequestLog(db).recent(9)} == {"cache_hit", "bandit"}
    db.close()


def test_what_manual_queries_of_an_earlier_release_cost_is_still_counted(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    db = Database.open(path, migrations=before("0108", tmp_path))
    kept = (
        "INSERT INTO kept_costs (tenant, start_s, line, engine, purpose, requests, prompt_tokens, completion_tokens,"
        " cost_usd) VALUES ('a1', 0, 'by_hand', 'large', '', 1, 1, 1, 0.5)"
    )
    db.write(lambda connection: connection.execute(kept)).result(30)
    db.close()

    db = Database.open(path)
    assert OperatorAsks(db).spent_usd(0.0) == 0.5
    db.close()
