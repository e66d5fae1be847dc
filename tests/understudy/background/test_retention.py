"""Each tenant's rows and examples are kept as long as counts for it, and no longer."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from store import Store
from store.people.limits import Retention as Days
from tests.store.rows import new_example, request_record
from understudy.background.retention import Retention
from understudy.settings.retention import RetentionSettings

_DAY_S = 86_400.0


def left(store: Store) -> set[str]:
    return {row.id for row in store.decisions.requests.recent()}


def carried_out(store: Store, **settings: float) -> None:
    made = Retention(store, RetentionSettings(**settings), keeps_texts=True, texts_max_bytes=10**9)
    for chore in made.chores():
        chore.run()
    assert store.drain(30)


def test_a_tenants_own_time_counts_for_it_and_the_others_have_the_common_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Store.open(tmp_path)
    try:
        names = ("short", "long", "common")
        ids = {name: store.keys.tenant_named(name) for name in names}
        store.tenant_records.create("short", retention=Days(rows_days=1, examples_days=1))
        store.tenant_records.create("long", retention=Days(rows_days=100, examples_days=100))
        now_s = time.time()
        for number, (tenant, days) in enumerate((t, d) for t in names for d in (0.5, 20, 50)):
            at_s = now_s - days * _DAY_S
            row = request_record(number, id=f"{tenant}-{days:g}", tenant=ids[tenant], started_at_s=at_s)
            store.decisions.requests.record(row).result(30)
            with monkeypatch.context() as then:
                then.setattr(time, "time", lambda at_s=at_s: at_s)
                store.examples.add(new_example(number, ids[tenant])).result(30)
                if number == 2:
                    store.examples.add(new_example(99, ids[tenant], kind="demonstration")).result(30)
        carried_out(store, rows_days=30)
        assert left(store) == {"short-0.5", "long-0.5", "long-20", "long-50", "common-0.5", "common-20"}
        assert [store.examples.count(ids[name]) for name in names] == [2, 3, 3], "common: without a limit"
        carried_out(store, rows_days=30, examples_days=30)
        assert [store.examples.count(ids[name]) for name in names] == [2, 3, 2]
    finally:
        store.close()
