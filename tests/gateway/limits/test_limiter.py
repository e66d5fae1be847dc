"""The limiter over a real store: scopes together, settlement, and what holds while the store fails."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, closing, contextmanager
from pathlib import Path
from typing import Literal

import pytest

from engines.chat import Usage
from engines.engine import Price
from engines.errors import RequestError
from gateway.limits import ledger as ledgers
from gateway.limits import limiter as limiters
from gateway.limits.errors import LimitReached
from gateway.limits.expected import Expectations, Expected
from gateway.limits.ledger import Ledger
from gateway.limits.limiter import Limiter, Need, dearest
from gateway.limits.scopes import Scope
from store import Store
from store.people.allowance import NANO
from store.people.limits import Budget, Limits

DAY = Scope.of("key:k", "the key 'k'", Limits(budgets=(Budget(1.0, "day"), Budget(1.5, "total"))))
TENANT = Scope.of(
    "tenant:t", "the tenant 't'", Limits(budgets=(Budget(0.5, "month"),), tokens_per_minute=1000)
)
RATES = Scope.of("key:r", "the key 'r'", Limits(requests_per_minute=2, concurrency=2, tokens_per_minute=100))


def need(usd: float, tokens: int = 100) -> Need:
    expected = Expected(tokens // 2, tokens - tokens // 2, True, tokens // 2)
    return Need("m", expected, usd, [Price(usd_per_request=usd / 2)])


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    made = Store.open(tmp_path)
    yield made
    made.close()


@asynccontextmanager
async def limiter(store: Store, when_blind: Literal["refuse", "allow"] = "refuse") -> AsyncIterator[Limiter]:
    ledger = Ledger(store.allowances, store.folder / "limits", workers=1)
    ledger.start()
    yield Limiter(ledger, Expectations(1000), lambda _: None, when_blind=when_blind)
    await ledger.aclose()


@contextmanager
def locked(store: Store, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Another process holds the store's write lock, and nobody waits for it long."""
    monkeypatch.setattr(ledgers, "_STORE_S", 0.1)
    with closing(sqlite3.connect(store.folder / "understudy.db", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        yield
        other.execute("ROLLBACK")
    monkeypatch.setattr(ledgers, "_STORE_S", 30)


def spent(store: Store) -> dict[str, int]:
    scopes = (DAY.name, TENANT.name)
    found = [one for scope in scopes for one in store.allowances.standings(scope, 0)]
    return {f"{one.window.scope} {one.window.kind}": one.spent for one in found}


async def test_all_limits_hold_and_one_that_refuses_leaves_no_trace_in_the_others(store: Store) -> None:
    async with limiter(store) as made:
        with pytest.raises(LimitReached) as refused:
            await made.reserve((DAY, TENANT), need(0.6))
        assert "The tenant 't'" in refused.value.message and refused.value.code == "insufficient_quota"
        bill = await made.reserve((DAY, TENANT), need(0.4, 900))
        assert bill is not None
        bill.settle(0.25, Usage(30, 20))
        bill.settle(9.0, Usage(30, 20))
        assert await made.reserve((DAY, TENANT), need(0.25, 900))
    # What had not ended by the end counts as it was reserved.
    assert spent(store) == {
        "key:k usd:day": NANO // 2,
        "key:k usd:total": NANO // 2,
        "tenant:t usd:month": NANO // 2,
        "tenant:t tokens": 950,
    }


async def test_a_guess_takes_no_more_than_a_minute_has_left(store: Store) -> None:
    guessed = Need("m", Expected(10, 4096, False, 8), 0.0)
    async with limiter(store) as made:
        # One after the other, each by what it took; beside one that is under way nothing is left.
        for used in (20, 40, 29):
            bill = await made.reserve((RATES,), guessed)
            assert bill is not None
            with pytest.raises(LimitReached):
                await made.reserve((RATES,), guessed)
            bill.settle(0.0, Usage(5, used - 5))
        # Eleven are left: what is asked, and a token of an answer.
        bill = await made.reserve((RATES,), guessed)
        assert bill is not None
        bill.settle(0.0, Usage(5, 4000))
        with pytest.raises(LimitReached):
            await made.reserve((RATES,), guessed)
        for expected in (Expected(10, 4096, True, 8), Expected(101, 5, False, 8)):
            with pytest.raises(RequestError) as refused:
                await made.reserve((RATES,), Need("m", expected, 0.0))
            assert refused.value.code == "tokens_per_minute_exceeded"


async def test_what_nobody_counted_is_estimated_by_how_far_it_came(store: Store) -> None:
    async with limiter(store) as made:
        for began in (True, False):
            bill = await made.reserve((DAY,), need(0.2))
            assert bill is not None
            bill.settle_unknown(began=began)
    (day, total) = store.allowances.standings(DAY.name, 0)
    assert day.spent == day.estimated == total.spent == round(0.3 * NANO)


async def test_fractions_of_a_cent_add_up(store: Store) -> None:
    async with limiter(store) as made:
        for _ in range(300):
            bill = await made.reserve((DAY,), need(1e-6))
            assert bill is not None
            bill.settle(37e-9, Usage(1, 0))
    assert store.allowances.standings(DAY.name, 0)[0].spent == 300 * 37


async def test_a_store_that_fails_leaves_dollars_only_as_far_as_they_were_leased(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with limiter(store) as made:
        first = await made.reserve((DAY,), need(0.1))
        assert first is not None
        with locked(store, monkeypatch):
            # A quarter of a dollar was leased.
            second = await made.reserve((DAY,), need(0.1))
            assert second is not None
            with pytest.raises(LimitReached) as refused:
                await made.reserve((DAY,), need(0.1))
            assert (refused.value.status, refused.value.code) == (503, "limits_unavailable")
            assert refused.value.retry_after_s == 1.0
        first.settle(0.1, Usage(1, 1))
        second.settle(0.1, Usage(1, 1))
    assert spent(store)["key:k usd:day"] == round(0.2 * NANO)


async def test_dollars_may_be_opened_while_the_store_fails(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with limiter(store, "allow") as made:
        with locked(store, monkeypatch):
            bill = await made.reserve((DAY,), need(0.9))
            assert bill is not None
            bill.settle(0.9, Usage(1, 1))


async def test_rates_are_counted_by_the_worker_alone_while_the_store_fails(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with limiter(store) as made:
        with locked(store, monkeypatch):
            places = await made.begin((RATES,))
            more = await made.begin((RATES,))
            with pytest.raises(LimitReached) as refused:
                await made.begin((RATES,))
            assert refused.value.code == "rate_limit_exceeded"
            made.end([*places, *more])
            assert await made.reserve((RATES,), need(0, 60))
            with pytest.raises(LimitReached):
                await made.reserve((RATES,), need(0, 60))


def test_the_dearest_of_those_that_may_be_asked_counts_and_one_without_a_price_makes_it_unknown() -> None:
    cheap, dear = Price(1.0, 2.0), Price(2.0, 1.0)
    assert dearest([cheap, dear], 100, 10) == 210e-6
    assert dearest([cheap, Price()], 100, 10) is None
    assert dearest([], 100, 10) == 0.0


def test_without_an_answer_only_the_input_may_be_charged_at_the_dearest_price_for_it() -> None:
    expected = Expected(100, 10, True, 100)
    assert Need("m", expected, 210e-6, [Price(1.0, 2.0), Price(2.0, 1.0)]).input_usd == 200e-6
    assert Need("m", expected, None, [Price(1.0)]).input_usd == 0.0


async def test_of_end_users_that_are_made_up_only_those_of_late_are_kept_at_hand(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limiters, "_KNOWN_PURSES", 10)
    async with limiter(store) as made:
        made._most_near = 10
        for n in range(200):
            scope = Scope.of(f"user:k/{n}", "this end user", Limits(requests_per_minute=5))
            made.end(await made.begin([scope]))
            made._near[scope.name, "requests"].lost = n % 50 != 0
        assert len(made._near) <= 20
        assert {("user:k/0", "requests"), ("user:k/50", "requests")} <= set(made._near)
