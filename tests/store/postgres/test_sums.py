"""Sums that several processes add to at once: exact, and without one deadlock."""

from __future__ import annotations

import pytest

from store.decisions.requests import RequestLog
from store.decisions.usage import UsageBooks
from store.sums import DELETED
from tests.store.rows import request_record

pytest.importorskip("psycopg")
from store.postgres.connecting import connect
from store.postgres.database import PostgresDatabase

KEYS = [f"key_{number:02}" for number in range(20)]


def test_processes_that_add_to_the_same_sums_in_any_order_never_meet_a_deadlock(postgres_url: str) -> None:
    databases = [PostgresDatabase.open(postgres_url) for _ in range(3)]
    logs = [RequestLog(database) for database in databases]
    written = [
        log.record(request_record(0, id=f"req-{process}-{turn}-{key}", key_id=key))
        for turn in range(5)
        for place in range(len(KEYS))
        for process, log in enumerate(logs)
        # Each goes through the keys in another order.
        for key in [KEYS[(place * (7 if process else 1) + 5 * process) % len(KEYS)]]
    ]
    # A second row of the same request is none, and is not in the sums.
    written.append(logs[0].record(request_record(0, id="req-0-0-key_00", key_id="key_00")))
    for one in written:
        one.result(60)
    sums = UsageBooks(databases[0]).sums(["key"])
    assert {one.key: one.amounts.requests for one in sums} == dict.fromkeys(KEYS, 15)
    for database in databases:
        database.close()
    with connect(postgres_url, statement_timeout_ms=5_000) as connection:
        found = connection.execute(
            "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"
        ).fetchone()
    assert found == (0,)


def test_who_forgets_a_tenant_also_finds_the_sums_of_what_was_handed_over_before(postgres_url: str) -> None:
    database = PostgresDatabase.open(postgres_url)
    log = RequestLog(database)
    jobs = [log.record(request_record(number)) for number in range(5)]
    gone = log.forget_tenant("a1")
    jobs.append(log.record(request_record(9)))
    for job in jobs:
        job.result(60)
    assert gone.result(60) == 5
    found = {one.tenant: one.amounts.requests for one in UsageBooks(database).sums(["tenant"])}
    database.close()
    assert found == {"a1": 1, DELETED: 5}
