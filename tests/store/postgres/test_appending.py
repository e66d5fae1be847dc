"""Rows that several jobs append go to PostgreSQL in few statements, and each job knows whether its own was new."""

from __future__ import annotations

import math
from collections.abc import Iterator
from concurrent.futures import Future

import pytest

from store.database import Connection
from store.errors import ValueRefused
from store.inserting import Insert, adding
from store.postgres import appending
from store.postgres.connecting import connect
from store.postgres.database import PostgresDatabase

ROWS = 150
INSERT = Insert("kept", "tenant, id, said, n", key="tenant, id")
SUM = adding("sums", "tenant", "n")


@pytest.fixture
def db(postgres_url: str) -> Iterator[PostgresDatabase]:
    with connect(postgres_url, statement_timeout_ms=0) as connection:
        connection.execute(
            "CREATE TABLE kept (tenant text, id text, said text, n double precision CHECK (n <> 13),"
            " PRIMARY KEY (tenant, id)); CREATE TABLE sums (tenant text PRIMARY KEY, n bigint NOT NULL)"
        )
    opened = PostgresDatabase.open(postgres_url)
    yield opened
    opened.close()


def kept(db: PostgresDatabase, id: int, n: float | bool | None = 1, said: str | None = "") -> Future[None]:
    def write(connection: Connection) -> None:
        new = db.append(connection, INSERT, ("a", str(id), said, n))
        db.add(connection, SUM, ("a",), (1,), only_if=new)

    return db.write(write, patient=True)


def count(db: PostgresDatabase) -> tuple[int, int]:
    rows = db.read().execute("SELECT count(*) FROM kept").fetchone()
    sums = db.read().execute("SELECT coalesce(sum(n), 0) FROM sums").fetchone()
    return rows[0], sums[0]


def test_every_row_is_there_once_and_counted_once_though_many_came_twice(db: PostgresDatabase) -> None:
    for waiting in [kept(db, number % ROWS) for number in range(2 * ROWS)] + [kept(db, 0)]:
        waiting.result(30)
    assert count(db) == (ROWS, ROWS)


def test_a_row_that_is_refused_fails_alone(db: PostgresDatabase) -> None:
    waiting = [kept(db, number, n=13 if number == 70 else number + 100) for number in range(ROWS)]
    with pytest.raises(ValueRefused):
        waiting[70].result(30)
    for each in waiting[:70] + waiting[71:]:
        each.result(30)
    assert count(db) == (ROWS - 1, ROWS - 1)


def test_values_of_any_kind_may_stand_in_one_column(db: PostgresDatabase) -> None:
    said = [
        (1, "x"),
        (0.5, None),
        (None, "a\0b"),
        (True, "é"),
        (float("nan"), ""),
        (math.inf, '"\\u0000\x01'),
    ]
    for waiting in [kept(db, number, n, text) for number, (n, text) in enumerate(said)]:
        waiting.result(30)
    rows = db.read().execute("SELECT n, said FROM kept ORDER BY id").fetchall()
    assert rows[:5] == [(1.0, "x"), (0.5, None), (None, "a\ufffdb"), (1.0, "é"), (None, "")]
    assert rows[5:] == [(math.inf, '"\\u0000\x01')]


def test_a_value_that_nothing_can_keep_fails_its_own_job_only(db: PostgresDatabase) -> None:
    lone, large, good = kept(db, 1, said="\ud800"), kept(db, 2, n=2**64), kept(db, 3)
    with pytest.raises(UnicodeEncodeError):
        lone.result(30)
    with pytest.raises(ValueRefused, match="64 bits"):
        large.result(30)
    good.result(30)
    assert count(db) == (1, 1)


def test_bytes_and_large_rows_arrive_as_they_were(
    db: PostgresDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(appending, "_MOST_BYTES", 5000)
    insert = Insert("blobs_kept", "id, body", key="id")
    with db.connect(statement_timeout_ms=0) as connection:
        connection.execute("CREATE TABLE blobs_kept (id bigint PRIMARY KEY, body bytea)")
    bodies = [bytes(range(256)) * size for size in (0, 1, 30, 2, 9)]

    def write(connection: Connection) -> None:
        for id, body in enumerate(bodies):
            db.append(connection, insert, (id, body))

    db.write(write).result(30)
    rows = db.read().execute("SELECT body FROM blobs_kept ORDER BY id").fetchall()
    assert [bytes(row[0]) for row in rows] == bodies


def test_a_later_statement_of_the_batch_finds_the_row(db: PostgresDatabase) -> None:
    def write(connection: Connection) -> int:
        db.append(connection, INSERT, ("a", "1", "", 2))
        found: int = connection.execute("UPDATE kept SET n = n + 1 WHERE id = '1'").rowcount
        return found

    assert db.write(write).result(30) == 1
    assert db.read().execute("SELECT n FROM kept").fetchone() == (3.0,)
