"""Everything goes from SQLite to PostgreSQL and back: every table, every kind of value, whoever writes meanwhile."""

from __future__ import annotations

import itertools
import os
import signal
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from benchmarks.postgres_server import PostgresServer
from store import Store
from store.errors import SchemaError, StoreFailed
from store.moving.move import Compared, Copied, compare, copy
from store.moving.opening import opened
from store.moving.postgres_side import PostgresSide
from store.moving.side import Target
from store.moving.sqlite_side import SqliteSide
from store.moving.tables import Table, tables
from store.postgres.connecting import connect
from store.records import Vector
from tests.store.rows import (
    answer,
    choice_record,
    new_example,
    outcome_record,
    request_record,
)

CHILD = Path(__file__).with_name("child_that_copies.py")


def silent(table: str, done: int, total: int) -> None:
    """Nobody is told."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A data folder with something in it."""
    with closing(Store.open(tmp_path / "data")) as store:
        fill(store)
    return tmp_path / "data"


def fill(store: Store, first: int = 1, last: int = 40) -> None:
    futures: list[Any] = []
    for number in range(first, last + 1):
        said = {1: "naïve 日本 🐙", 2: "quote ' \\ and\ttab\n", 3: "x" * 70_000}.get(number, f"said {number}")
        futures += [
            store.examples.add(new_example(number, tenant=f"t{number % 3}", question=said)),
            store.decisions.requests.record(request_record(number)),
            store.decisions.choices.record(choice_record(number)),
            store.outcomes.note(outcome_record(number)),
            store.answers.exact.put(bytes([number]) * 32, "a1", answer()),
        ]
    for future in futures:
        if future is not None:
            future.result(30)


def fill_the_rest(folder: Path) -> None:
    """A few rows in each table that is empty and refers to no other, and values that are hard to carry."""
    with closing(sqlite3.connect(folder / "understudy.db")) as connection:
        made = tables(connection)
        for table in made:
            (sql,) = connection.execute(
                "SELECT sql FROM sqlite_master WHERE name = ?", (table.name,)
            ).fetchone()
            (count,) = connection.execute(f"SELECT count(*) FROM {table.name}").fetchone()
            if count or "REFERENCES" in sql or "CHECK" in sql:
                continue
            marks = ", ".join("?" * len(table.columns))
            for number in range(1, 4):
                connection.execute(
                    f"INSERT INTO {table.name} ({table.column_list}) VALUES ({marks})", values(table, number)
                )
        connection.execute("UPDATE requests SET end_user = 'nul ' || char(0) WHERE row_id = 5")
        connection.execute("UPDATE requests SET prompt_tokens = 9223372036854775807 WHERE row_id = 6")
        connection.execute("UPDATE requests SET cost_usd = 1e-300, total_ms = 9e999 WHERE row_id = 7")
        connection.execute("UPDATE requests SET model = CAST(x'61ff62' AS TEXT) WHERE row_id = 8")
        connection.commit()


def values(table: Table, number: int) -> list[Any]:
    kinds = {"INTEGER": number * 10**12, "REAL": number / 3, "BLOB": bytes([0, 255, number])}
    return [kinds.get(kind, f"text {number}") for kind in table.types]


def moved(source: str, target: str, *, final: bool = True, page_rows: int = 16) -> Copied:
    with opened(source, target, into=True) as (read, written, made):
        return copy(read, written, made, final=final, told=silent, page_rows=page_rows)


def compared(source: str, target: str) -> list[Compared]:
    with opened(source, target, into=False) as (read, written, made):
        return list(compare(read, written, made, told=silent))


def test_there_and_back_again(folder: Path, postgres_url: str, tmp_path: Path) -> None:
    fill_the_rest(folder)
    moved(str(folder), postgres_url)
    checked = compared(str(folder), postgres_url)
    assert not [one for one in checked if not one.equal]
    assert sum(one.rows > 0 for one in checked) > 50, "most tables had something in them"
    with connect(postgres_url, statement_timeout_ms=0) as connection:
        kept = connection.execute(
            "SELECT row_id, end_user, prompt_tokens, model FROM requests WHERE row_id IN (5, 6, 8) ORDER BY 1"
        ).fetchall()
    assert kept[0][1] == "nul \ufffd" and kept[1][2] == 2**63 - 1 and kept[2][3] == "a\ufffdb"

    back = tmp_path / "back"
    moved(postgres_url, str(back))
    assert not [one for one in compared(postgres_url, str(back)) if not one.equal]
    with (
        closing(sqlite3.connect(folder / "understudy.db")) as before,
        closing(sqlite3.connect(back / "understudy.db")) as after,
    ):
        made = (
            "SELECT type, name, tbl_name, sql FROM sqlite_master WHERE name NOT LIKE '%words%' ORDER BY 1, 2"
        )
        assert before.execute(made).fetchall() == after.execute(made).fetchall()
        ids = "SELECT name, seq FROM sqlite_sequence WHERE seq > 0 ORDER BY 1"
        assert before.execute(ids).fetchall() == after.execute(ids).fetchall()


def test_either_gives_equal_answers_and_goes_on_where_the_other_was(
    folder: Path, postgres_url: str, tmp_path: Path
) -> None:
    moved(str(folder), postgres_url)
    (tmp_path / "replica").mkdir()
    (tmp_path / "replica" / "secret").write_bytes((folder / "secret").read_bytes())
    with (
        closing(Store.open(folder)) as one,
        closing(Store.open(tmp_path / "replica", database_url=postgres_url)) as other,
    ):
        assert one.examples.last_seq() == other.examples.last_seq() > 0
        assert told(one) == told(other)
        for store in (one, other):
            fill(store, 41, 45)
        assert told(one) == told(other)


def told(store: Store) -> dict[str, Any]:
    """What a caller gets, without when it was written."""
    found = [each for tenant in ("t0", "t1", "t2") for each in store.examples.newest(tenant, 100)]
    return {
        "changes": [
            (each.seq, each.id, each.removed, vector(each.vector)) for each in store.examples.tail(0)
        ],
        "examples": [(each.id, each.question, each.answer) for each in found],
        "requests": [store.decisions.requests.get(f"req-{number}") for number in range(1, 46)],
        "choices": [store.decisions.choices.get("a1", f"req-{number}") is None for number in range(1, 46)],
    }


def vector(found: Vector | None) -> list[float] | None:
    return None if found is None else found.tolist()


def test_what_is_written_changed_and_deleted_meanwhile_is_taken_by_the_final_run(
    folder: Path, postgres_url: str
) -> None:
    with closing(Store.open(folder)) as store:
        begun, told_once = threading.Event(), []

        def serve(table: str, done: int, total: int) -> None:
            """The source is written to in the middle of the copying."""
            if table == "requests" and not told_once:
                told_once.append(True)
                fill(store, 41, 60)
                store.examples.remove("t1", [1, 4]).result(30)
                store.decisions.requests.forget_key("a1", "").result(30)
                begun.set()

        with opened(str(folder), postgres_url, into=True) as (read, written, made):
            copy(read, written, made, final=False, told=serve, page_rows=16)
        assert begun.is_set()
        with pytest.raises(SchemaError, match="half a copy"):
            Store.open(folder, database_url=postgres_url)
        fill(store, 61, 62)
        store.examples.remove("t1", [61]).result(30)
    last = moved(str(folder), postgres_url)
    assert last.written > 0 and last.deleted > 0
    assert not [one for one in compared(str(folder), postgres_url) if not one.equal]


def test_rows_that_take_each_others_unique_values_are_copied(folder: Path, postgres_url: str) -> None:
    moved(str(folder), postgres_url, final=False)
    with closing(sqlite3.connect(folder / "understudy.db")) as connection:
        for number, id_ in ((3, "other"), (20, "req-3"), (3, "req-20")):
            connection.execute("UPDATE requests SET id = ? WHERE row_id = ?", (id_, number))
        connection.commit()
    moved(str(folder), postgres_url, page_rows=8)
    assert not [one for one in compared(str(folder), postgres_url) if not one.equal]


@pytest.mark.slow
def test_a_copy_that_is_killed_goes_on(folder: Path, postgres_url: str) -> None:
    with closing(sqlite3.connect(folder / "understudy.db")) as connection:
        connection.execute(
            "WITH RECURSIVE n (i) AS (SELECT 100 UNION ALL SELECT i + 1 FROM n WHERE i < 1700)"
            " INSERT INTO task_answers SELECT i, 't', 's', 'r' || i, i, 'c', '', 'in', NULL, '', 'out', NULL, '', NULL, 1.0,"
            " NULL, NULL, NULL, 0, 'e' FROM n"
        )
        connection.commit()
    seen = [killed_after(pages, str(folder), postgres_url) for pages in (35, 20, 10)]
    assert all(seen) and seen == sorted(seen), "each went on where the one before was killed"
    moved(str(folder), postgres_url, final=False)
    moved(str(folder), postgres_url)
    assert not [one for one in compared(str(folder), postgres_url) if not one.equal]


def killed_after(pages: int, source: str, target: str) -> tuple[str, int]:
    """Kill -9 a copy that was told of so many pages; gives where it was."""
    child = subprocess.Popen(
        [sys.executable, str(CHILD), source, target], stdout=subprocess.PIPE, text=True, bufsize=1
    )
    assert child.stdout is not None
    with child.stdout as lines:
        line = next(itertools.islice(lines, pages, None))
        os.kill(child.pid, signal.SIGKILL)
    assert child.wait(30) == -signal.SIGKILL
    table, done = line.split()
    return table, int(done)


def test_what_is_no_fitting_target_is_refused(folder: Path, postgres_url: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="one place"):
        moved(str(folder), str(tmp_path / "other"))
    with pytest.raises(FileNotFoundError):
        moved(str(tmp_path / "nothing"), postgres_url)
    with closing(Store.open(tmp_path / "second")) as store:
        fill(store, 1, 1)
    moved(str(folder), postgres_url, final=False)
    with pytest.raises(SchemaError, match="another database"):
        moved(str(tmp_path / "second"), postgres_url)
    with pytest.raises(SchemaError, match="half a copy"):
        moved(postgres_url, str(tmp_path / "third"))
    moved(str(folder), postgres_url)
    with pytest.raises(SchemaError, match="already holds"):
        moved(str(folder), postgres_url)
    with pytest.raises(SchemaError, match="already holds"):
        moved(postgres_url, str(tmp_path / "second"))


def test_half_a_copy_in_a_folder_is_not_served(folder: Path, postgres_url: str, tmp_path: Path) -> None:
    moved(str(folder), postgres_url)
    back = tmp_path / "back"
    moved(postgres_url, str(back), final=False)
    (back / "secret").write_bytes((folder / "secret").read_bytes())
    with pytest.raises(SchemaError, match="half a copy"):
        Store.open(back)
    moved(postgres_url, str(back))
    Store.open(back).close()


@pytest.fixture
def in_use(folder: Path) -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(folder / "understudy.db", isolation_level=None)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        yield connection
        connection.execute("ROLLBACK")


def test_the_final_run_needs_a_source_that_nobody_writes_to(
    folder: Path, postgres_url: str, in_use: sqlite3.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("store.moving.sqlite_side._HELD_TIMEOUT_MS", 50)
    with pytest.raises(StoreFailed, match="locked"):
        moved(str(folder), postgres_url)


def test_a_server_that_is_away_and_a_wrong_password_are_told_apart(
    folder: Path, postgres_server: PostgresServer
) -> None:
    wrong = postgres_server.url().replace(postgres_server.password, "hunter2")
    with pytest.raises(StoreFailed, match="password authentication failed") as refused:
        moved(str(folder), wrong)
    assert "hunter2" not in str(refused.value)
    with pytest.raises(StoreFailed, match="refused"):
        moved(str(folder), postgres_server.url(port=1))


def test_both_sides_can_be_copied_into(folder: Path, postgres_url: str) -> None:
    sides: list[Target] = [SqliteSide(folder, make=False), PostgresSide(postgres_url, into=True)]
    assert [side.state() for side in sides] == [None, None]
    assert "understudy:" not in sides[1].name, "no user, no password"
    for side in sides:
        side.close()


def test_every_table_has_a_key(tmp_path: Path) -> None:
    with closing(Store.open(tmp_path)):
        side = SqliteSide(tmp_path, make=False)
        found = tables(side.connection)
        side.close()
    assert all(table.key and set(table.key) <= set(table.columns) for table in found)
    assert {kind for table in found for kind in table.types} == {"INTEGER", "REAL", "TEXT", "BLOB"}
