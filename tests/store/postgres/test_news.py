"""What one process commits the others hear of: at once, and in any case."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from benchmarks.postgres.proxy import Proxy
from benchmarks.postgres_server import PostgresServer
from store import Store
from store.database import Connection
from store.generation import Generation
from store.postgres.connecting import Place, connect
from store.postgres.database import PostgresDatabase
from tests.postgres_fixtures import with_the_secret
from tests.store.rows import new_example, unit_vector

WITHIN_S = 60
EXACT = "exact"


@pytest.fixture
def proxy(postgres_server: PostgresServer) -> Iterator[Proxy]:
    with Proxy(postgres_server.port) as running:
        yield running


@pytest.fixture
def counter(postgres_url: str) -> str:
    with connect(postgres_url, statement_timeout_ms=0) as connection:
        connection.execute("INSERT INTO generations (name, value) VALUES ('test', 1)")
    return "test"


class Heard:
    """Waits for a counter to move, as another process's cache does."""

    def __init__(self, db: PostgresDatabase, counter: str) -> None:
        self._generation = Generation(db, counter, check_every_s=0)
        self._before = self._generation.value()
        self._moved = threading.Event()
        db.on_news(self._look)

    def _look(self) -> None:
        if self._generation.value() != self._before:
            self._moved.set()

    def of_it(self) -> bool:
        return self._moved.wait(WITHIN_S)


def bump(db: PostgresDatabase, counter: str) -> None:
    def job(connection: Connection) -> None:
        db.bump(connection, counter)

    db.write(job).result(WITHIN_S)


def wait_until_listening(db: PostgresDatabase) -> None:
    heard = threading.Event()
    db.on_news(heard.set)
    while not db._news.listening:
        heard.wait(0.01)


@pytest.mark.slow
def test_a_commit_is_heard_of_without_looking(
    postgres_url: str, counter: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("store.postgres.news.LOOK_EVERY_S", 10 * WITHIN_S)
    writes, hears = (PostgresDatabase.open(postgres_url, readers=1) for _ in range(2))
    wait_until_listening(hears)
    heard = Heard(hears, counter)
    bump(writes, counter)
    assert heard.of_it()
    monkeypatch.setattr("store.postgres.news.LOOK_EVERY_S", 0.1)
    for db in (writes, hears):
        db.close()


def test_a_commit_is_heard_of_past_a_listener_that_is_dead(
    postgres_url: str, postgres_server: PostgresServer, proxy: Proxy, counter: str
) -> None:
    writes = PostgresDatabase.open(postgres_url, readers=1)
    listen_url = postgres_url.replace(f":{postgres_server.port}/", f":{proxy.port}/")
    hears = PostgresDatabase.open(postgres_url, listen_url=listen_url, readers=1)
    wait_until_listening(hears)
    # No packet comes through any more, and nobody says so.
    proxy.freeze()
    heard = Heard(hears, counter)
    bump(writes, counter)
    assert heard.of_it()
    proxy.freeze(frozen=False)
    for db in (writes, hears):
        db.close()


def test_what_a_log_has_lost_is_read_anew(postgres_url: str, counter: str) -> None:
    """A promoted standby, or a restore, that knows less than was seen: the same numbers may come again for other things."""
    db = PostgresDatabase.open(postgres_url, readers=1)
    generation = Generation(db, counter, check_every_s=0)
    lost = threading.Event()
    db.on_lost(lost.set)
    with connect(postgres_url, statement_timeout_ms=0) as connection:
        connection.execute("UPDATE example_sequence SET last_seq = 7")
        bump(db, counter)
        seen = threading.Event()
        db.on_news(lambda: seen.set() if db._news._last_seq == 7 else None)
        assert seen.wait(WITHIN_S)
        before = generation.value()
        connection.execute("UPDATE example_sequence SET last_seq = 5")
    assert lost.wait(WITHIN_S)
    assert generation.value() != before
    db.close()


def test_what_a_log_has_lost_is_noticed_by_who_has_read_it_before_the_counters(postgres_url: str) -> None:
    db = PostgresDatabase.open(postgres_url, readers=1)
    lost, looked = threading.Event(), threading.Event()
    db.on_lost(lost.set)
    # What is read of the log may be newer than the counters that were read last, and than those being read now.
    db.followed(2)
    db.on_news(looked.set)
    assert lost.wait(WITHIN_S)
    # Said once: what is there now is where the log ends.
    lost.clear()
    for _ in range(3):
        looked.clear()
        db._news.notify()
        assert looked.wait(WITHIN_S)
    assert not lost.is_set()
    db.close()


def test_another_server_or_timeline_has_all_read_anew(postgres_url: str, counter: str) -> None:
    db = PostgresDatabase.open(postgres_url, readers=1)
    lost = threading.Event()
    db.on_lost(lost.set)
    was, id = db.counter(counter), db.database_id()
    server = db._news.server
    assert server is not None
    assert len(server.timeline) == 8
    db._news.connected(server)
    assert not lost.is_set()
    db._news.connected(Place(server.system, "00000009"))
    assert lost.wait(WITHIN_S)
    assert db.counter(counter) != was
    # Snapshots of the index that were made of the other one are not for this one.
    assert db.database_id() != id
    db.close()


def test_an_example_is_found_in_another_processs_index_and_a_lost_one_no_more(
    postgres_url: str, tmp_path: Path
) -> None:
    stores = [
        Store.open(
            with_the_secret(tmp_path / name),
            database_url=postgres_url,
            dimensions=8,
            embedding_version="v1",
            poll_s=2 * WITHIN_S,
        )
        for name in ("one", "two")
    ]
    writes, finds = stores
    assert finds.follower is not None
    assert finds.indexes is not None
    kept, lost = (writes.examples.add(new_example(number)).result(WITHIN_S) for number in (1, 2))
    assert finds.follower.wait_for(lost.seq, WITHIN_S)
    nearest = finds.indexes.nearest("a1", unit_vector(2), 2)
    assert [id for id, _ in nearest] == [lost.id, kept.id]
    with connect(postgres_url, statement_timeout_ms=0) as connection:
        # As if this commit had not reached the standby that was promoted.
        connection.execute("DELETE FROM example_accounts WHERE id = %s", (lost.id,))
        connection.execute("DELETE FROM examples WHERE id = %s", (lost.id,))
        connection.execute("UPDATE example_sequence SET last_seq = %s", (kept.seq,))
    gone = threading.Event()
    while len(finds.indexes.nearest("a1", unit_vector(2), 2)) > 1:
        assert not gone.wait(0.02)
    again = writes.examples.add(new_example(3)).result(WITHIN_S)
    assert again.seq == lost.seq
    assert finds.follower.wait_for(again.seq, WITHIN_S)
    while [id for id, _ in finds.indexes.nearest("a1", unit_vector(3), 2)] != [again.id, kept.id]:
        assert not gone.wait(0.02)
    assert np.isfinite(again.seq)
    for store in stores:
        store.close()
