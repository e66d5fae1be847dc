"""The writer on PostgreSQL: what fails stands alone, what was committed is known, what can wait waits."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from typing import Any

import psycopg
import pytest

from benchmarks.postgres.proxy import Proxy
from benchmarks.postgres_server import PostgresServer
from store.database import Connection
from store.errors import StoreBusy, StoreClosed, StoreFailed, ValueRefused
from store.inserting import adding
from store.postgres.connecting import NoAnswer, Place, connect
from store.postgres.database import PostgresDatabase
from store.postgres.errors import in_words, is_lost, may_succeed_again, translated

WITHIN_S = 60
_INSERT = "INSERT INTO generations (name, value) VALUES (?, ?)"
_ADD = adding("generations", "name", "value")


def inserting(name: str, value: int = 0) -> Callable[[Connection], str]:
    def job(connection: Connection) -> str:
        connection.execute(_INSERT, (name, value))
        return name

    return job


def together(db: PostgresDatabase, jobs: list[Callable[[Connection], Any]]) -> list[Future[Any]]:
    """All of them in one batch: the writer is held up while they are handed over."""
    go, waits = threading.Event(), threading.Event()

    def hold(_: Connection) -> None:
        waits.set()
        go.wait(WITHIN_S)

    held = db.write(hold)
    assert waits.wait(WITHIN_S)
    futures = [db.write(job) for job in jobs]
    go.set()
    held.result(WITHIN_S)
    return futures


def names(url: str) -> list[str]:
    with connect(url, statement_timeout_ms=0) as connection:
        rows = connection.execute("SELECT name FROM generations WHERE name LIKE 'test%' ORDER BY name")
        return [name for (name,) in rows.fetchall()]


@pytest.fixture
def db(postgres_url: str) -> Iterator[PostgresDatabase]:
    opened = PostgresDatabase.open(postgres_url, readers=2)
    yield opened
    opened.close()


@pytest.fixture
def proxy(postgres_server: PostgresServer) -> Iterator[Proxy]:
    with Proxy(postgres_server.port) as running:
        yield running


@pytest.fixture
def far(postgres_url: str, postgres_server: PostgresServer, proxy: Proxy) -> Iterator[PostgresDatabase]:
    """Behind the proxy."""
    url = postgres_url.replace(f":{postgres_server.port}/", f":{proxy.port}/")
    opened = PostgresDatabase.open(url, readers=2)
    yield opened
    proxy.refuse()
    opened.close(0.1)


def test_of_a_batch_only_the_jobs_that_fail_are_undone(db: PostgresDatabase, postgres_url: str) -> None:
    def refuses(connection: Connection) -> None:
        connection.execute(_INSERT, ("test-undone", 0))
        raise ValueError("mine")

    def too_long(connection: Connection) -> None:
        # An index takes no such value: the database's refusal of one row, and no sign that it is away.
        connection.execute(_INSERT, ("test" + "".join(map(str, range(20_000))), 0))

    jobs = [inserting(f"test-{number}") for number in range(20)]
    jobs[7:7] = [inserting("test-3"), refuses, too_long]  # type: ignore[list-item]
    futures = together(db, jobs)
    with pytest.raises(ValueRefused, match="UNIQUE"):
        futures[7].result(WITHIN_S)
    with pytest.raises(ValueError, match="mine"):
        futures[8].result(WITHIN_S)
    with pytest.raises(StoreFailed):
        futures[9].result(WITHIN_S)
    rest = [future.result(WITHIN_S) for future in (*futures[:7], *futures[10:])]
    assert sorted(rest) == names(postgres_url) == sorted(f"test-{number}" for number in range(20))
    assert db.problem == "" or "index row" in db.problem


def test_a_sum_that_cannot_be_added_fails_its_job_only(db: PostgresDatabase, postgres_url: str) -> None:

    def adding(name: str, amount: int) -> Callable[[Connection], None]:
        return lambda connection: db.add(connection, _ADD, (name,), (amount,))

    futures = together(db, [adding("test-a", 1), adding("test-b", 2**63), adding("test-a", 2)])
    with pytest.raises(StoreFailed):
        futures[1].result(WITHIN_S)
    futures[0].result(WITHIN_S)
    futures[2].result(WITHIN_S)
    with connect(postgres_url, statement_timeout_ms=0) as connection:
        assert connection.execute("SELECT value FROM generations WHERE name = 'test-a'").fetchall() == [(3,)]


@pytest.mark.parametrize("delivered", [True, False])
def test_a_commit_without_an_answer_is_done_once(
    far: PostgresDatabase, proxy: Proxy, postgres_url: str, delivered: bool
) -> None:
    runs: list[int] = []

    def job(connection: Connection) -> int:
        runs.append(1)
        return int(
            connection.execute(
                "INSERT INTO generations (name, value) VALUES ('test-1', 1) RETURNING value"
            ).fetchone()[0]
        )

    proxy.cut_at(b"COMMIT", deliver=delivered)
    assert far.write(job).result(WITHIN_S) == 1
    assert proxy.cuts == 1
    assert names(postgres_url) == ["test-1"]
    assert len(runs) == (1 if delivered else 2)


def test_a_commit_without_an_answer_is_not_known_after_a_failover(
    far: PostgresDatabase, proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    proxy.cut_at(b"COMMIT", deliver=True)
    monkeypatch.setattr("store.postgres.writer.place_of", lambda _: Place("promoted", "00000002"))
    with pytest.raises(StoreFailed, match="not known"):
        far.write(inserting("test-1")).result(WITHIN_S)
    far.write(inserting("test-2")).result(WITHIN_S)


def test_while_the_database_is_away_patient_jobs_wait_and_others_fail_at_once(
    far: PostgresDatabase, proxy: Proxy, postgres_url: str
) -> None:
    proxy.refuse()
    patient = [far.write(inserting(f"test-{number}"), patient=True) for number in range(300)]
    with pytest.raises(StoreFailed):
        far.write(inserting("test-urgent")).result(WITHIN_S)
    with pytest.raises(StoreFailed):
        # Now it is known to be away.
        far.write(inserting("test-urgent")).result(WITHIN_S)
    assert far.problem
    assert far.pending >= 300
    proxy.refuse(refusing=False)
    assert [future.result(WITHIN_S) for future in patient] == [f"test-{number}" for number in range(300)]
    assert far.write(inserting("test-urgent")).result(WITHIN_S) == "test-urgent"
    assert len(names(postgres_url)) == 301
    assert far.drain(WITHIN_S)
    assert far.problem == ""


def test_where_the_queue_is_full_texts_go_first(postgres_url: str) -> None:
    db = PostgresDatabase.open(postgres_url, readers=2, max_pending=4)
    go, waits = threading.Event(), threading.Event()

    def hold(_: Connection) -> None:
        waits.set()
        go.wait(WITHIN_S)

    db.write(hold)
    assert waits.wait(WITHIN_S)
    texts = [db.write(inserting(f"test-text-{number}"), patient=True, spare=True) for number in range(2)]
    rows = [db.write(inserting("test-row-0"), patient=True)]
    with pytest.raises(StoreBusy):
        db.write(inserting("test-text-2"), patient=True, spare=True)
    rows += [db.write(inserting(f"test-row-{number}"), patient=True) for number in (1, 2)]
    with pytest.raises(StoreBusy):
        db.write(inserting("test-row-3"), patient=True)
    for text in texts:
        with pytest.raises(StoreBusy):
            text.result(WITHIN_S)
    go.set()
    assert [row.result(WITHIN_S) for row in rows] == ["test-row-0", "test-row-1", "test-row-2"]
    db.close()


def test_what_waits_for_a_database_that_stays_away_fails_at_closing(
    far: PostgresDatabase, proxy: Proxy
) -> None:
    proxy.refuse()
    waits = far.write(inserting("test-1"), patient=True)
    with pytest.raises(StoreFailed):
        far.write(inserting("test-2")).result(WITHIN_S)
    assert not far.close(0.2)
    with pytest.raises(StoreClosed):
        waits.result(WITHIN_S)


@pytest.mark.slow
def test_a_deadlock_reaches_nobody(postgres_url: str) -> None:
    dbs = [PostgresDatabase.open(postgres_url, readers=1) for _ in range(2)]
    dbs[0].write(inserting("test-a")).result(WITHIN_S)
    dbs[0].write(inserting("test-b")).result(WITHIN_S)
    both = threading.Barrier(2)
    first = [True, True]

    def crossing(of: int, order: str) -> Callable[[Connection], int]:
        def job(connection: Connection) -> int:
            for name in order:
                changed = connection.execute(
                    "UPDATE generations SET value = value + 1 WHERE name = ?", (f"test-{name}",)
                ).rowcount
                if first[of]:
                    first[of] = False
                    both.wait(WITHIN_S)
            return changed

        return job

    futures = [dbs[0].write(crossing(0, "ab")), dbs[1].write(crossing(1, "ba"))]
    assert [future.result(WITHIN_S) for future in futures] == [1, 1]
    values = dbs[0].read().execute("SELECT value FROM generations WHERE name LIKE 'test%'").fetchall()
    assert values == [(2,), (2,)]
    for db in dbs:
        db.close()


def test_sums_are_added_in_one_order_whoever_adds_them(postgres_url: str) -> None:
    """Two batches with the same rows in opposite orders: with plain updates this is a deadlock, see above."""
    dbs = [PostgresDatabase.open(postgres_url, readers=1) for _ in range(4)]
    orders = [list(range(40)), list(range(40))[::-1]] * 2
    futures = []
    for _ in range(5):
        for db, order in zip(dbs, orders, strict=True):
            futures += [
                db.write(
                    lambda connection, db=db, number=number: db.add(  # type: ignore[misc]
                        connection, _ADD, (f"test-{number:02}",), (1,)
                    ),
                    patient=True,
                )
                for number in order
            ]
    for future in futures:
        future.result(WITHIN_S)
    with connect(postgres_url, statement_timeout_ms=0) as connection:
        rows = connection.execute("SELECT value FROM generations WHERE name LIKE 'test%'").fetchall()
        assert rows == [(20,)] * 40
        connection.execute("SELECT pg_stat_clear_snapshot()")
        (deadlocks,) = connection.execute(
            "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"
        ).fetchone() or (None,)
        assert deadlocks == 0
    for db in dbs:
        db.close()


def test_a_server_that_stands_still_is_given_up(
    postgres_url: str, postgres_server: PostgresServer, proxy: Proxy
) -> None:
    url = postgres_url.replace(f":{postgres_server.port}/", f":{proxy.port}/")
    connection: Any = connect(url, statement_timeout_ms=1_000)
    connection.answer_within_s = 0.3
    proxy.freeze()
    with pytest.raises(NoAnswer):
        connection.execute("SELECT 1")
    assert connection.closed
    proxy.freeze(frozen=False)


def test_a_standby_is_nothing_to_write_to(db: PostgresDatabase, postgres_url: str) -> None:
    """As after a failover, when the old address still leads to what is read-only now."""
    database = postgres_url.rsplit("/", 1)[1]
    with connect(postgres_url, statement_timeout_ms=0) as connection:
        connection.execute(f"ALTER DATABASE {database} SET default_transaction_read_only = on")
        connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )
        patient = db.write(inserting("test-1"), patient=True)
        with pytest.raises((StoreFailed, psycopg.Error)):
            db.write(inserting("test-2")).result(WITHIN_S)
        connection.execute("SET default_transaction_read_only = off")
        connection.execute(f"ALTER DATABASE {database} RESET default_transaction_read_only")
    assert patient.result(WITHIN_S) == "test-1"


def test_an_error_says_whether_the_database_is_away() -> None:
    errors = psycopg.errors
    assert is_lost(psycopg.OperationalError("connection closed"))
    assert is_lost(translated(errors.AdminShutdown()))
    assert is_lost(errors.DiskFull())
    # Of one statement only.
    for one in (
        errors.UniqueViolation(),
        errors.ProgramLimitExceeded(),
        errors.QueryCanceled(),
        ValueError(),
    ):
        assert not is_lost(one)
    assert may_succeed_again(translated(errors.DeadlockDetected()))
    assert not may_succeed_again(errors.UniqueViolation())
    assert in_words(psycopg.OperationalError("password=secret")) == "no connection to PostgreSQL"
