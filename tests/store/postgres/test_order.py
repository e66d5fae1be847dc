"""Six writers with random pauses, and who follows them: by places in the log of examples, or up to what is settled."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from typing import Any

import pytest

from store.database import Connection
from store.examples.bank import ExampleBank
from store.postgres.connecting import connect
from store.postgres.database import PostgresDatabase
from store.postgres.settled import Settled
from tests.store.rows import new_example

WITHIN_S = 60
WRITERS, ROWS = 6, 40
_INSERT = (
    "INSERT INTO outcomes (tenant, request_id, key, model, source, at_s, engine, example_ids, served, quality, probability,"
    " cost_usd, prompt_tokens, completion_tokens, detail) VALUES"
    " ('a1', ?, CAST(pg_current_xact_id() AS TEXT), '', 'user', 0, '', '', 0, 1, 1, 0, 0, 0, '') RETURNING id"
)


@pytest.fixture
def writers(postgres_url: str) -> Iterator[list[PostgresDatabase]]:
    opened = [PostgresDatabase.open(postgres_url, readers=1) for _ in range(WRITERS)]
    yield opened
    for db in opened:
        db.close()


def pausing(connection: Connection) -> None:
    """A transaction that stays open for a while: its rows are there, and nobody sees them yet."""
    connection.execute("SELECT CAST(pg_sleep(?) AS TEXT)", (random.choice((0.0, 0.001, 0.02)),)).fetchall()


def all_at_once(work: Callable[[int], None]) -> list[threading.Thread]:
    threads = [threading.Thread(target=work, args=(number,)) for number in range(WRITERS)]
    for thread in threads:
        thread.start()
    return threads


def followed(
    threads: list[threading.Thread], *looks: Callable[[int], list[int]], settled: Callable[[], bool]
) -> list[set[int]]:
    """What each of them finds, asked again and again for what comes after the last place it has seen."""
    found: list[list[int]] = [[] for _ in looks]
    ended = False
    while True:
        last_round = ended and settled()
        for look, places in zip(looks, found, strict=True):
            places += look(places[-1] if places else 0)
        if last_round:
            return [set(places) for places in found]
        ended = not any(thread.is_alive() for thread in threads)


@pytest.mark.slow
def test_who_follows_a_table_misses_nothing_and_by_plain_ids_would(writers: list[PostgresDatabase]) -> None:
    def write(number: int) -> None:
        def job(connection: Connection) -> int:
            place = connection.execute(_INSERT, (f"run-{number}",)).fetchone()[0]
            pausing(connection)
            return int(place)

        written.extend(writers[number].write(job).result(WITHIN_S) for _ in range(ROWS))

    def plain(after: int) -> list[int]:
        rows = reader.read().execute("SELECT id FROM outcomes WHERE id > ? ORDER BY id", (after,))
        return [place for (place,) in rows.fetchall()]

    def settled(after: int) -> list[int]:
        up_to = reader.settled("outcomes")
        rows = reader.read().execute(
            "SELECT id FROM outcomes WHERE id > ? AND id <= ? ORDER BY id", (after, up_to)
        )
        return [place for (place,) in rows.fetchall()]

    written: list[int] = []
    reader = writers[0]
    threads = all_at_once(write)
    by_plain_ids, by_settled = followed(
        threads, plain, settled, settled=lambda: reader.settled("outcomes") >= max(written)
    )
    assert len(written) == WRITERS * ROWS
    assert by_settled == set(written)
    assert by_plain_ids < set(written)


def test_an_id_is_settled_when_no_lower_one_can_come(writers: list[PostgresDatabase]) -> None:
    slow, quick, reader = writers[:3]
    drawn, go = threading.Event(), threading.Event()

    def waits(connection: Connection) -> int:
        place = int(connection.execute(_INSERT, ("slow",)).fetchone()[0])
        drawn.set()
        go.wait(WITHIN_S)
        return place

    before = reader.settled("outcomes")
    held: Future[int] = slow.write(waits)
    assert drawn.wait(WITHIN_S)
    later = quick.write(lambda connection: int(connection.execute(_INSERT, ("quick",)).fetchone()[0])).result(
        WITHIN_S
    )
    assert reader.settled("outcomes") == before
    elsewhere = Settled(lambda sql: quick.read().execute(sql))
    assert elsewhere.up_to("outcomes") == 0
    go.set()
    assert held.result(WITHIN_S) < later
    while min(reader.settled("outcomes"), elsewhere.up_to("outcomes")) < later:
        pass
    elsewhere.forget()
    rows = reader.read().execute("SELECT request_id FROM outcomes ORDER BY id").fetchall()
    assert rows == [("slow",), ("quick",)]


@pytest.mark.slow
def test_who_follows_the_log_of_examples_misses_nothing(writers: list[PostgresDatabase]) -> None:
    def write(number: int) -> None:
        bank = banks[number]
        futures: list[Future[Any]] = []
        for row in range(ROWS // 4):
            futures.append(bank.add(new_example(number * ROWS + row, tenant=f"a{number % 2}")))
            futures.append(writers[number].write(pausing))
            if row % 4 == 3:
                example = futures[-4].result(WITHIN_S)
                futures.append(bank.remove(example.tenant, [example.id]))
        for future in futures:
            future.result(WITHIN_S)

    banks = [ExampleBank(db) for db in writers]
    follower = ExampleBank(writers[0])
    seen: dict[int, bool] = {}

    def look(after: int) -> list[int]:
        changes = follower.tail(after)
        seen.update({change.id: bool(change.removed) for change in changes})
        return [change.seq for change in changes]

    threads = all_at_once(write)
    (places,) = followed(threads, look, settled=lambda: True)
    assert len(places) == len(set(places))
    assert max(places) == follower.last_seq()
    kept = {id for (id,) in writers[0].read().execute("SELECT id FROM examples").fetchall()}
    assert {id for id, removed in seen.items() if not removed} == kept
    gone = {id for (id,) in writers[0].read().execute("SELECT example_id FROM removed_examples").fetchall()}
    assert {id for id, removed in seen.items() if removed} == gone
    assert len(gone) == WRITERS * (ROWS // 16)


@pytest.mark.slow
def test_sums_that_triggers_keep_have_a_row_for_each_writer(
    writers: list[PostgresDatabase], postgres_url: str
) -> None:
    """No writer waits for another's transaction to add to a sum."""
    add = (
        "INSERT INTO request_texts (tenant, request_id, contributor, at_s, size_bytes, question, answer)"
        " VALUES ('a1', ?, '', 0, 10, '', '')"
    )
    both = threading.Barrier(2)

    def job(connection: Connection, name: str) -> None:
        # Each has added before either commits.
        connection.execute(add, (name,)).rowcount  # noqa: B018 - waits until it is done
        both.wait(WITHIN_S)

    futures = [
        db.write(lambda connection, name=name: job(connection, name))  # type: ignore[misc]
        for db, name in zip(writers, ("one", "two"), strict=False)
    ]
    for future in futures:
        future.result(WITHIN_S)
    with connect(postgres_url, statement_timeout_ms=0) as connection:
        rows = connection.execute(
            "SELECT total_bytes FROM request_texts_size WHERE total_bytes > 0"
        ).fetchall()
        assert rows == [(10,), (10,)]
        connection.execute("DELETE FROM request_texts")
        assert connection.execute("SELECT sum(total_bytes) FROM request_texts_size").fetchall() == [(0,)]
