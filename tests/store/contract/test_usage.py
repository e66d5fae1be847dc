"""The books: they say what the log says, keep apart what is asked for, stay small, and forget whom they are to forget."""

from __future__ import annotations

from typing import Any

import pytest

from admin.usage_report import usage_total
from store import Store
from store.decisions.usage import OTHERS, Amounts, Bounds, UsageSum, Used
from store.records import RequestRecord
from store.sums import DELETED
from tests.store.rows import request_record

DAY_S, HOUR_S = 86_400, 3_600
NOW = 1_700_000_000 // DAY_S * DAY_S


def note(store: Store, number: int, **changes: Any) -> RequestRecord:
    record = request_record(number, **{"started_at_s": float(NOW + number), **changes})
    store.decisions.requests.record(record).result(30)
    return record


def sums(store: Store, *by: Any, **only: Any) -> list[UsageSum]:
    return store.decisions.usage.sums(by, **only)


def test_sums_are_the_logs_by_whatever_is_asked_for(store: Store) -> None:
    records = [
        note(
            store,
            i,
            tenant=("a1", "b2")[i % 2],
            key_id=("k1", "k2", "")[i % 3],
            end_user=("ann", "")[i % 2],
            model=("gpt-4o", "e")[i % 4 == 0],
            api=("chat", "embeddings")[i % 4 == 0],
            cost_usd=None if i % 5 == 0 else 0.5,
            reference_cost_usd=2.0 if i % 2 else None,
            usage_estimated=i % 7 == 0,
            cached_tokens=3,
        )
        for i in range(60)
    ]
    for dimension, field in (
        ("tenant", "tenant"),
        ("key", "key_id"),
        ("user", "end_user"),
        ("model", "model"),
        ("api", "api"),
    ):
        found = {getattr(one, dimension): one.amounts for one in sums(store, dimension)}
        assert set(found) == {getattr(record, field) for record in records}
        for name, amounts in found.items():
            mine = [record for record in records if getattr(record, field) == name]
            assert amounts.requests == len(mine)
            assert amounts.cost_usd == pytest.approx(sum(record.cost_usd or 0.0 for record in mine))
            assert amounts.unpriced == sum(record.cost_usd is None for record in mine)
            assert amounts.estimated == sum(record.usage_estimated for record in mine)
            assert amounts.cached_tokens == 3 * len(mine)
            reckoned = [r for r in mine if r.cost_usd is not None and r.reference_cost_usd is not None]
            assert (amounts.reference_usd, amounts.reckoned_usd) == (2.0 * len(reckoned), 0.5 * len(reckoned))
    (mine,) = sums(store, tenant="a1", key_id="k1", end_user="ann")
    assert mine.amounts.requests == sum(
        (r.tenant, r.key_id, r.end_user) == ("a1", "k1", "ann") for r in records
    )
    assert len(sums(store, "tenant", "key", "user", "model")) == len(
        {(r.tenant, r.key_id, r.end_user, r.model) for r in records}
    )


def test_a_row_that_is_there_already_is_not_booked_twice(store: Store) -> None:
    note(store, 1)
    note(store, 1)
    (one,) = sums(store)
    assert one.amounts.requests == 1


def test_hours_count_up_to_the_end_and_days_by_end_user(store: Store) -> None:
    for hour in range(30):
        note(store, hour, started_at_s=float(NOW + hour * HOUR_S), end_user="ann")
    assert sums(store, since_s=NOW + 2 * HOUR_S + 59, until_s=NOW + 5 * HOUR_S)[0].amounts.requests == 3
    assert [
        (one.day, one.amounts.requests) for one in sorted(sums(store, "day"), key=lambda one: one.day)
    ] == [
        ("2023-11-14", 24),
        ("2023-11-15", 6),
    ]
    (by_user,) = sums(store, "user", since_s=NOW + 2 * HOUR_S, until_s=NOW + DAY_S)
    assert by_user.amounts.requests == 24


def test_what_the_gateway_asks_of_its_own_accord_stands_on_lines_of_its_own(store: Store) -> None:
    note(store, 1, cost_usd=0.5, reference_cost_usd=2.0, example_tokens=40, examples_usd=0.1)
    for line, usd in (("judge", 0.2), ("shadow", 0.3)):
        used = Used(NOW + 5.0, "a1", Amounts(1, cost_usd=usd), line, model="gpt-4o", engine="large")  # type: ignore[arg-type]
        store.decisions.usage.book(used).result(30)
    store.jobs.replay.side_costs.book("a1", "large", "near_miss", 0.05, 10).result(30)
    by_line = {one.line: one for one in sums(store, "engine", "key")}
    assert set(by_line) == {"answer", "judge", "shadow", "replay"}
    assert by_line["replay"].engine == "large" and by_line["replay"].amounts.prompt_tokens == 10
    total = usage_total(sums(store))
    assert total["answer_usd"] == 0.5 and total["examples_usd"] == 0.1 and total["example_tokens"] == 40
    assert total["overheads_usd"] == pytest.approx(0.55) and total["cost_usd"] == pytest.approx(1.05)
    assert total["saved_usd"] == pytest.approx(2.0 - 0.5 - 0.55), "net of all of it"
    assert {one.line for one in sums(store, key_id="k")} == set(), "of a key only what clients asked"


def test_a_client_that_makes_up_names_gets_no_rows_for_them() -> None:
    bounds = Bounds(most=3)
    names = [bounds.kept(Used(float(NOW), "a1", Amounts(), end_user=f"u{i}")).end_user for i in range(6)]
    assert names == ["u0", "u1", "u2", OTHERS, OTHERS, OTHERS]
    assert bounds.kept(Used(float(NOW), "a1", Amounts(), end_user="u1", model="m")).model == "m"
    assert bounds.kept(Used(float(NOW), "b2", Amounts(), end_user="u9")).end_user == "u9"
    assert bounds.kept(Used(float(NOW + DAY_S), "a1", Amounts(), end_user="u9")).end_user == "u9", "a new day"


def test_who_is_forgotten_is_nobody_in_the_books(store: Store) -> None:
    note(store, 1, key_id="k1", end_user="ann")
    note(store, 2, key_id="k2", end_user="ann")
    note(store, 3, tenant="b2")
    store.decisions.requests.forget_key("a1", "k1").result(30)
    assert {one.key: one.amounts.requests for one in sums(store, "key", tenant="a1")} == {"": 1, "k2": 1}
    store.decisions.requests.forget_user("a1", "ann").result(30)
    assert {one.user: one.amounts.requests for one in sums(store, "user", tenant="a1")} == {"": 2}
    for model in ("gpt-4o", "a client's own secret name"):
        note(store, 4 + len(model), model=model)
    store.decisions.rollups(["gpt-4o"]).catch_up()
    before = sum(one.amounts.requests for one in sums(store))
    store.decisions.requests.forget_tenant("a1").result(30)
    by_tenant = {one.tenant: one.amounts.requests for one in sums(store, "tenant")}
    assert by_tenant == {"b2": 1, DELETED: 4}, "of deleted tenants the sums stay"
    assert by_tenant == {one.tenant: one.amounts.requests for one in sums(store, "tenant", "user")}
    assert {(one.user, one.key) for one in sums(store, "user", "key", tenant=DELETED)} == {("", "")}
    assert {one.model for one in sums(store, "model", tenant=DELETED)} == {"gpt-4o", OTHERS}
    assert before == sum(one.amounts.requests for one in sums(store)) == 5


def test_the_books_outlive_the_log_and_end_after_400_days(store: Store) -> None:
    note(store, 1)
    store.decisions.requests.trim(NOW + DAY_S).result(30)
    assert sums(store)[0].amounts.requests == 1
    store.decisions.trim_sums(NOW + 399 * DAY_S).result(30)
    assert sums(store)[0].amounts.requests == 1
    assert store.decisions.trim_sums(NOW + 402 * DAY_S).result(30) == 2 and sums(store) == []


def test_an_unknown_dimension_is_refused(store: Store) -> None:
    with pytest.raises(ValueError, match="planet"):
        store.decisions.usage.sums(["planet"])  # type: ignore[list-item]


def test_of_tenants_that_are_made_up_few_names_are_remembered() -> None:
    bounds = Bounds(remembered=100)
    for n in range(1000):
        used = Used(1.0, f"t{n}", Amounts(requests=1), end_user="u", model="m")
        assert bounds.kept(used) is used
    assert len(bounds._seen) == 100 and len(bounds._counts) == 100
