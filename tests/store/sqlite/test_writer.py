from __future__ import annotations

import sqlite3
import threading
from concurrent.futures import CancelledError
from pathlib import Path

import pytest

from store import writing
from store.errors import StoreBusy, StoreClosed, StoreFailed, ValueRefused
from store.inserting import Insert, adding
from store.sqlite.database import Database


def held_up(db: Database) -> threading.Event:
    """Keep the writer busy until the event is set, so that what follows meets in one batch."""
    going, release = threading.Event(), threading.Event()

    def wait(_: sqlite3.Connection) -> None:
        going.set()
        release.wait(30)

    db.write(wait)
    assert going.wait(30)
    return release


def insert(name: str):
    return lambda connection: connection.execute("INSERT INTO generations VALUES (?, 1)", (name,)).rowcount


OF_THE_SCHEMA = {"keys", "exact_answers", "artifacts", "dials", "drained_engines", "kv_plans", "tasks"}


def names(db: Database) -> set[str]:
    rows = db.read().execute("SELECT name FROM generations").fetchall()
    return {name for (name,) in rows} - OF_THE_SCHEMA


def test_a_job_that_fails_takes_none_of_its_batch_mates_with_it(db: Database) -> None:
    release = held_up(db)

    def half_done(connection: sqlite3.Connection) -> None:
        connection.execute("INSERT INTO generations VALUES ('half', 1)")
        raise ValueError("changed my mind")

    first, bad, broken, last = (
        db.write(job) for job in (insert("one"), half_done, insert("one"), insert("two"))
    )
    release.set()

    assert (first.result(30), last.result(30)) == (1, 1)
    with pytest.raises(ValueError, match="changed my mind"):
        bad.result(30)
    with pytest.raises(ValueRefused):
        broken.result(30)
    assert names(db) == {"one", "two"}


def test_a_future_never_resolves_before_its_row_can_be_read(db: Database) -> None:
    for number in range(200):
        db.write(insert(str(number))).result(30)
        assert str(number) in names(db)


def test_what_follows_a_commit_happens_before_the_future_resolves(db: Database) -> None:
    seen: list[set[str]] = []
    db.write(insert("one"), after=lambda _: seen.append({"one"})).result(30)
    assert seen == [{"one"}]


def test_a_full_queue_refuses_and_never_blocks(tmp_path: Path) -> None:
    db = Database.open(tmp_path / "a.db", max_pending=3)
    release = held_up(db)
    waiting = [db.write(insert("one")), db.write(insert("two"))]

    with pytest.raises(StoreBusy, match="3 jobs"):
        db.write(insert("three"))

    release.set()
    assert [future.result(30) for future in waiting] == [1, 1]
    assert db.drain(30)
    assert db.write(insert("three")).result(30) == 1
    db.close()


def test_a_job_cannot_end_the_batch_s_transaction(db: Database) -> None:
    release = held_up(db)
    innocent = db.write(insert("innocent"))
    guilty = [
        db.write(lambda connection: connection.commit()),
        db.write(lambda connection: connection.rollback()),
        db.write(lambda connection: connection.executescript("SELECT 1")),
    ]
    release.set()

    for future in guilty:
        with pytest.raises(RuntimeError):
            future.result(30)
    assert innocent.result(30) == 1
    assert names(db) == {"innocent"}


def test_jobs_whose_transaction_was_given_up_are_done_again_without_the_culprit(db: Database) -> None:
    release = held_up(db)
    before = db.write(insert("before"))
    culprit = db.write(
        lambda connection: connection.execute("INSERT OR ROLLBACK INTO generations VALUES ('keys', 1)")
    )
    after = db.write(insert("after"))
    release.set()

    assert (before.result(30), after.result(30)) == (1, 1)
    with pytest.raises(ValueRefused):
        culprit.result(30)
    assert names(db) == {"before", "after"}


def test_a_full_disk_is_the_job_s_error_and_not_the_end_of_the_writer(db: Database) -> None:
    pages = db.read().execute("PRAGMA page_count").fetchone()[0]
    db.write(lambda connection: connection.execute(f"PRAGMA max_page_count = {pages + 4}").fetchall()).result(
        30
    )
    release = held_up(db)

    def too_much(connection: sqlite3.Connection) -> None:
        connection.execute("INSERT INTO generations VALUES (?, 1)", ("x" * 100_000,))

    small, large, small_too = db.write(insert("small")), db.write(too_much), db.write(insert("small too"))
    release.set()

    with pytest.raises(StoreFailed, match="full"):
        large.result(30)
    assert (small.result(30), small_too.result(30)) == (1, 1)
    db.write(lambda connection: connection.execute("PRAGMA max_page_count = 1000000").fetchall()).result(30)
    db.write(too_much).result(30)


def test_closing_writes_what_waits_and_then_refuses(tmp_path: Path) -> None:
    db = Database.open(tmp_path / "a.db")
    futures = [db.write(insert(str(number))) for number in range(500)]

    assert db.close()

    assert all(future.result(0) == 1 for future in futures)
    with pytest.raises(StoreClosed):
        db.write(insert("late"))
    with pytest.raises(StoreClosed):
        db.data_version()
    assert db.close()


def test_a_closing_that_runs_out_of_time_says_so_and_fails_what_it_leaves(tmp_path: Path) -> None:
    db = Database.open(tmp_path / "a.db")
    release = held_up(db)
    left = db.write(insert("left"))

    assert db.drain(0.01) is False
    assert db.close(timeout_s=0.01) is False

    with pytest.raises(StoreClosed):
        left.result(30)
    release.set()


def test_a_cancelled_job_is_not_run(db: Database) -> None:
    release = held_up(db)
    future = db.write(insert("never"))
    assert future.cancel()
    release.set()

    assert db.drain(30)
    with pytest.raises(CancelledError):
        future.result(0)
    assert names(db) == set()


def test_patient_jobs_wait_for_others_and_are_written_with_them_in_their_order(
    db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writing, "_GATHER_S", 600.0)
    done: list[str] = []
    for name in ("first", "second"):
        db.write(lambda _, name=name: done.append(name), patient=True)  # type: ignore[misc]
    db.write(lambda _: done.append("urgent")).result(30)
    assert done == ["first", "second", "urgent"]


def test_patient_jobs_are_written_where_nothing_else_comes(db: Database) -> None:
    for number in range(3):
        assert db.write(lambda _, number=number: number, patient=True).result(30) == number  # type: ignore[misc]


def test_closing_waits_for_no_patience(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writing, "_GATHER_S", 600.0)
    db = Database.open(tmp_path / "a.db")
    future = db.write(insert("patient"), patient=True)
    assert db.close()
    assert future.result(0) == 1


def test_what_jobs_append_and_add_together_is_written_in_bulk(db: Database) -> None:
    """Each row once, each sum whole; a job that reads sees what those before it wrote."""
    statements: list[str] = []
    new_row, add = Insert("t", "id, n", key="id"), adding("s", "key", "n")

    def prepare(connection: sqlite3.Connection) -> None:
        connection.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, n INTEGER)")
        connection.execute("CREATE TABLE s (key TEXT PRIMARY KEY, n INTEGER)")
        connection.set_trace_callback(statements.append)

    db.write(prepare).result(30)

    def row(id: int, *, then: bool = False):
        def job(connection: sqlite3.Connection) -> int:
            new = db.append(connection, new_row, (id, id))
            db.add(connection, add, ("all",), (1,), only_if=new)
            return connection.execute("SELECT count(*) FROM t").fetchone()[0] if then else -1

        return job

    def batch(*jobs) -> list[int]:
        release = held_up(db)
        statements.clear()
        futures = [db.write(job) for job in jobs]
        release.set()
        return [future.result(30) for future in futures]

    assert batch(*(row(n) for n in range(40)), row(40, then=True), row(41)) == [-1] * 40 + [41, -1]
    assert sum(one.startswith("INSERT INTO t") for one in statements) == 4
    assert sum(one.startswith("INSERT INTO s") for one in statements) == 2
    assert not any("SAVEPOINT" in one for one in statements)
    # One is there already: no sum counts it twice, and the others are written all the same.
    assert batch(row(41), row(42)) == [-1, -1]
    assert db.read().execute("SELECT count(*), sum(n) FROM t").fetchone() == (43, sum(range(43)))
    assert db.read().execute("SELECT n FROM s").fetchone()[0] == 43
