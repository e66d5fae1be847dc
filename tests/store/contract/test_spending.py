"""What is spent in the background is reserved first, exactly among processes, and counted by time and by tenant."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from store import Store
from store.decisions.costs import Cap
from store.sums import DELETED
from tests.store.contract.conftest import Opening

DAY_S = 86_400.0
NOW = 1_700_000_000.0


def reserve(store: Store, amount: float, at_s: float, *caps: Cap, tenant: str = "a1") -> bool:
    return store.decisions.spending.reserve(tenant, "usd", amount, at_s, caps).result(60)


def test_money_counts_for_an_hour_and_for_a_day_and_what_is_set_aside_counts_at_once(store: Store) -> None:
    def may(amount: float, at_s: float) -> bool:
        return reserve(store, amount, at_s, Cap(at_s - 3600, 1.0), Cap(at_s - DAY_S, 3.0))

    spending = store.decisions.spending
    assert may(0.6, NOW) and not may(0.6, NOW)
    spending.settle("a1", "usd", 0.6, 0.5, NOW).result(60)
    assert may(0.5, NOW + 60) and not may(0.01, NOW + 120)
    reserved = [may(1.0, NOW + hour * 4300) for hour in range(1, 5)]
    assert reserved == [True, True, False, False], "three dollars within a day"
    assert spending.spent("usd", NOW, NOW) == pytest.approx(3.0)
    assert may(1.0, NOW + DAY_S + 3600)


def test_many_processes_together_reserve_no_more_than_there_is(open_store: Opening) -> None:
    stores = [open_store() for _ in range(3)]
    with ThreadPoolExecutor(3) as pool:
        got = [
            each
            for many in pool.map(
                lambda store: [reserve(store, 0.25, NOW, Cap(NOW - 60, 5.0)) for _ in range(20)], stores
            )
            for each in many
        ]
    assert sum(got) == 20


def test_what_a_process_had_set_aside_when_it_died_counts_as_spent(open_store: Opening) -> None:
    assert reserve(open_store(), 1.0, NOW, Cap(NOW - 60, 1.0))
    assert not reserve(open_store(), 0.1, NOW + 1, Cap(NOW - 60, 1.0))


def test_units_and_tenants_are_counted_apart_and_caps_may_be_for_all(store: Store) -> None:
    spending = store.decisions.spending
    assert reserve(store, 1.0, NOW, Cap(NOW - 60, 1.0, "a1"))
    assert reserve(store, 1.0, NOW, Cap(NOW - 60, 1.0, "b2"), tenant="b2")
    assert not reserve(store, 1.0, NOW, Cap(NOW - 60, 2.5), tenant="c3")
    assert spending.reserve("a1", "tokens", 500, NOW, [Cap(NOW - 60, 500, "a1")]).result(60)
    assert spending.spent("usd", NOW, NOW) == 2.0 and spending.spent("usd", NOW, NOW, "b2") == 1.0


def test_a_month_is_counted_by_days_and_beyond_a_year_it_is_forgotten(store: Store) -> None:
    spending = store.decisions.spending
    assert reserve(store, 1.0, NOW) and reserve(store, 1.0, NOW + 10 * DAY_S)
    assert spending.spent("usd", NOW, NOW + 10 * DAY_S) == 2.0
    assert spending.spent("usd", NOW + DAY_S, NOW + 10 * DAY_S) == 1.0
    assert reserve(store, 1.0, NOW + 500 * DAY_S)
    store.decisions.trim_sums(NOW + 500 * DAY_S).result(60)
    assert spending.spent("usd", 0.0, NOW + 500 * DAY_S) == 1.0


def test_what_a_deleted_tenant_spent_stays_spent(store: Store) -> None:
    assert reserve(store, 1.0, NOW) and reserve(store, 1.0, NOW, tenant="b2")
    store.forget_tenant("a1")
    spent = store.decisions.spending.spent
    assert spent("usd", NOW, NOW) == 2.0, "what all may spend is no more for it"
    assert (spent("usd", NOW, NOW, "a1"), spent("usd", NOW, NOW, DELETED)) == (0.0, 1.0)
