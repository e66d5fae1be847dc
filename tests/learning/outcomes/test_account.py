"""What comparing in the background may cost: in proportion to what offload saved, in every process and after restarts."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from learning.outcomes.account import Accounts, Purse, Served, SpendLimits, Unit
from store import Store
from tests.store.rows import request_record

LIMITS = SpendLimits(spend_share=0.2, starting_requests=200, max_usd_per_day=1e9)
DAY_S = 86_400.0


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    opened = Store.open(tmp_path)
    yield opened
    opened.close()


def accounts(store: Store, limits: SpendLimits = LIMITS, unit: Unit = "usd", **more: Any) -> Accounts:
    served = {"gpt-4o": Served("large", unit)}
    decisions = store.decisions
    return Accounts(decisions.rollups(served), decisions.spending, store.jobs.replay, served, limits, **more)


def answered(store: Store, engine: str, count: int, *, days_ago: float = 0, **changes: Any) -> None:
    """Requests whose answers cost a cent at the reference, and a tenth of it where the small engine gave them."""
    known = len(store.decisions.requests.recent(10_000))
    paid = 0.01 if engine == "large" else 0.001
    fields = {"reference_cost_usd": 0.01, "cost_usd": paid, "started_at_s": time.time() - days_ago * DAY_S}
    for number in range(count):
        record = request_record(known + number, engine=engine, **(fields | changes))
        store.decisions.requests.record(record).result(60)


async def spend(of: Accounts, amount: float, step: float = 0.01, **more: Any) -> float:
    """As much as it lets be spent, up to an amount."""
    spent = 0.0
    while spent < amount and (purse := await of.reserve("a1", more.get("unit", "usd"), step, 0.01)):
        purse.settle(step)
        spent += step
    return spent


async def test_before_anything_is_saved_the_price_of_so_many_requests_may_be_spent(store: Store) -> None:
    answered(store, "large", 3)
    assert await spend(accounts(store), 5.0) == pytest.approx(2.0)
    assert await spend(accounts(store), 5.0) == 0, "another process, or the same one after a restart"


async def test_a_tenant_without_a_known_request_has_the_allowance_by_its_first_ones_price(
    store: Store,
) -> None:
    assert await spend(accounts(store), 5.0) == pytest.approx(2.0)


async def test_a_share_of_what_offload_saved_comes_on_top(store: Store) -> None:
    answered(store, "large", 1)
    answered(store, "small", 100)
    assert await spend(accounts(store), 5.0) == pytest.approx(2.0 + 0.2 * 100 * 0.009, abs=0.011)


async def test_what_offload_lost_and_what_replay_spent_is_taken_off(store: Store) -> None:
    answered(store, "large", 1)
    answered(store, "small", 10, cost_usd=0.06)
    store.jobs.replay.side_costs.book("a1", "large", "warm", 0.5).result(60)

    assert await spend(accounts(store), 5.0) == pytest.approx(2.0 - 10 * 0.05 - 0.5, abs=0.011)


async def test_a_failed_or_a_remembered_answer_saved_nothing(store: Store) -> None:
    answered(store, "large", 1)
    answered(store, "small", 50, outcome="failed")
    answered(store, "", 50, outcome="hit", cost_usd=0.0)
    assert await spend(accounts(store), 5.0) == pytest.approx(2.0)


@pytest.mark.slow
async def test_the_allowance_is_not_given_anew_and_what_was_saved_long_ago_pays_for_nothing(
    store: Store,
) -> None:
    answered(store, "large", 1, days_ago=1)
    assert await spend(accounts(store, clock=lambda: time.time() - 40 * DAY_S), 1.5) == pytest.approx(1.5)
    assert await spend(accounts(store), 5.0) == pytest.approx(0.5), "of which most was spent forty days ago"
    answered(store, "small", 1000, days_ago=50)
    assert await spend(accounts(store), 5.0) == pytest.approx(1.5), (
        "and what was spent lately is two dollars at most"
    )


async def test_where_nothing_has_a_price_tokens_are_counted(store: Store) -> None:
    answered(store, "large", 2, reference_cost_usd=0.0, cost_usd=0.0)
    of = accounts(store, unit="tokens")
    assert await spend(of, 1e9, step=1000, unit="tokens") == 200 * 150
    answered(store, "small", 100, reference_cost_usd=0.0, cost_usd=0.0)
    of = accounts(store, unit="tokens")
    assert await spend(of, 1e9, step=1000, unit="tokens") == 0.2 * 100 * 150


async def test_the_cap_of_a_day_holds_for_all_tenants_and_restarts(store: Store) -> None:
    answered(store, "large", 1)
    limits = replace(LIMITS, max_usd_per_day=0.5)
    assert await spend(accounts(store, limits), 5.0) == pytest.approx(0.5)
    assert await accounts(store, replace(LIMITS, max_usd_per_day=0.5)).reserve("b2", "usd", 0.01, 1.0) is None


async def test_what_was_not_spent_is_given_back_and_what_is_left_can_be_read(store: Store) -> None:
    answered(store, "large", 1)
    of = accounts(store)
    purse = await of.reserve("a1", "usd", 1.5, 0.01)
    assert purse is not None and await of.reserve("a1", "usd", 1.0, 0.01) is None and of.refused("a1", "usd")
    assert await purse.add(0.4) and not await purse.add(0.2)
    purse.settle(0.1)
    assert await of.reserve("a1", "usd", 1.9, 0.01) is not None
    assert await of.left("a1", "usd") == pytest.approx(0.0)


async def test_proof_that_costs_more_than_a_months_requests_can_save_is_not_worth_it(store: Store) -> None:
    answered(store, "large", 100)
    of = accounts(store, replace(LIMITS, starting_requests=50))
    assert of.worth("a1", "usd", 10**6), "as long as nobody knows what a comparison costs"
    await asyncio.to_thread(of.read, "a1", "usd")
    for _ in range(30):
        of.note(Purse(of, "a1", "usd", 0.0, 0.0), 0.1, 2, 0.004)
    # A hundred requests, of which each can save 0.8 cents.
    assert of.worth("a1", "usd", 7) and not of.worth("a1", "usd", 9)
