"""Parts of what is left, held by workers that share it: never more than the limit, and nothing lost with a worker."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from store import Store
from store.people import allowances
from store.people.allowance import CONCURRENCY, Booking, Held, Lease, Window, Worker
from store.people.allowances import NoSuchWorker
from tests.patience import eventually
from tests.store.contract.conftest import Opening

NOW = 1_700_000_000.0
DAY = Window("key:k", "usd:day", 1_699_920_000, 1_700_006_400.0)
ANN, BOB = Worker("ann", "boot", 30), Worker("bob", "boot", 30)


@pytest.fixture
def joined(store: Store) -> Store:
    for worker in (ANN, BOB):
        store.allowances.join(worker).result(30)
    return store


def lease(
    store: Store, worker: Worker, need: int, *, window: Window = DAY, wish: int = 0, **more: int
) -> Lease:
    limit, parts, rolls_s = more.get("limit", 1000), more.get("parts", 8), more.get("rolls_s", 0)
    return store.allowances.lease(
        worker, 0, window, limit=limit, need=need, wish=wish, parts=parts, now_s=NOW, rolls_s=rolls_s
    ).result(30)


def state(store: Store, scope: str = "key:k") -> tuple[int, int, int]:
    (found,) = store.allowances.standings(scope, NOW)
    return found.spent, found.estimated, found.leased


def test_parts_are_large_while_much_is_left_and_then_exactly_what_is_needed(joined: Store) -> None:
    granted = []
    while (one := lease(joined, random.choice((ANN, BOB)), 20)).granted:
        granted.append(one.granted)
    assert granted[0] == 125 and granted[-1] == 20 and sum(granted) <= 1000
    assert 1000 - sum(granted) < 20
    assert granted == sorted(granted, reverse=True)


def test_what_waits_is_served_at_once(joined: Store) -> None:
    assert lease(joined, ANN, 10, wish=600).granted == 600
    assert lease(joined, BOB, 10, wish=600).granted == 400


def test_what_is_spent_and_given_back_is_booked(joined: Store) -> None:
    lease(joined, ANN, 100)
    states = joined.allowances.book(ANN, [Booking(DAY, 60, 10, -40)]).result(30)
    assert states == [(60, 25)] and state(joined) == (60, 10, 25)
    joined.allowances.book(ANN, [Booking(DAY, 0, 0, 0, ends=True)]).result(30)
    assert state(joined) == (60, 10, 0)


def test_a_lease_is_no_larger_than_what_may_be_lost(joined: Store) -> None:
    args = {"limit": 1000, "need": 10, "wish": 0, "parts": 2, "now_s": NOW}
    assert joined.allowances.lease(ANN, 0, DAY, largest=40, **args).result(30).granted == 40
    assert joined.allowances.lease(BOB, 0, DAY, largest=5, **args).result(30).granted == 10


def test_more_may_be_spent_than_was_granted_and_nobody_is_granted_it_again(joined: Store) -> None:
    lease(joined, ANN, 1000)
    joined.allowances.book(ANN, [Booking(DAY, 1200, 0, 200)]).result(30)
    assert state(joined) == (1200, 0, 0)
    assert lease(joined, BOB, 1).granted == 0


def test_who_is_refused_for_what_others_hold_makes_it_known(
    joined: Store,
    open_store: Opening,
    kind: str,
    holds: Callable[[Callable[[], object]], bool],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(allowances, "_WANTED_S", 1.5)
    other = open_store()
    lease(joined, ANN, 1000)
    assert other.allowances.wanted() == []
    assert lease(other, BOB, 10).granted == 0
    assert holds(lambda: joined.allowances.wanted() == [DAY[:3]])
    # Nobody wrote since. PostgreSQL is asked twice a second all the same.
    assert joined.allowances.wanted() == [] or kind == "postgres"
    joined.allowances.book(ANN, [Booking(DAY, 1000, 0, 0)]).result(30)
    assert lease(other, BOB, 10).granted == 0
    assert eventually(lambda: joined.allowances.wanted() == []), "for a moment only"


def test_whether_a_worker_lives_is_told_by_the_databases_clock(
    joined: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(time, "time", lambda: NOW + 9e9)
    left_s = {worker.id: worker.left_s for worker in joined.allowances.workers()}
    assert set(left_s) == {"ann", "bob"} and all(0 < each <= 30 for each in left_s.values())
    joined.allowances.renew(ANN._replace(left_s=600)).result(30)
    assert joined.allowances.workers()[0].left_s > 30


def test_a_window_that_slides_weighs_what_was_spent_before(joined: Store) -> None:
    before, now = (
        Window("key:k", "requests", 1_699_999_920 + 60 * n, NOW + 40 - 60 + 60 * n) for n in (0, 1)
    )
    lease(joined, ANN, 90, window=before, limit=100)
    joined.allowances.book(ANN, [Booking(before, 90, 0, 0)]).result(30)
    # Of the window before, two thirds lie within the last minute: 60 of its 90 count.
    assert lease(joined, ANN, 41, window=now, limit=100, rolls_s=60).granted == 0
    assert lease(joined, ANN, 40, window=now, limit=100, rolls_s=60).granted == 40


@pytest.mark.parametrize(
    ("journal", "spent", "estimated"),
    [({0: Held(150, 20, 70)}, 220, 90), ({}, 100, 0), (None, 500, 400)],
)
def test_a_dead_worker_has_spent_what_its_journal_says(
    joined: Store, journal: dict[int, Held] | None, spent: int, estimated: int
) -> None:
    lease(joined, ANN, 500, wish=500)
    joined.allowances.book(ANN, [Booking(DAY, 100, 0, 0)]).result(30)
    assert joined.allowances.settle_dead("ann", journal).result(30) == 1
    assert state(joined) == (spent, estimated, 0)
    # Whoever comes second finds nothing to do; and the worker, if it lives after all, is told.
    assert joined.allowances.settle_dead("ann", journal).result(30) == 0
    with pytest.raises(NoSuchWorker):
        joined.allowances.book(ANN, [Booking(DAY, 1, 0, 0)]).result(30)
    with pytest.raises(NoSuchWorker):
        lease(joined, ANN, 1)
    assert [worker.id for worker in joined.allowances.workers()] == ["bob"]


def test_a_dead_workers_places_at_once_are_free(joined: Store) -> None:
    places = Window("key:k", CONCURRENCY, 0, NOW + 1e9)
    lease(joined, ANN, 3, window=places, limit=3)
    joined.allowances.settle_dead("ann", {0: Held(0, 0, 3)}).result(30)
    assert state(joined) == (0, 0, 0)


def test_old_windows_go_and_others_stay(joined: Store) -> None:
    allowances = joined.allowances
    for scope, kind, days in (
        ("key:k", "usd:day", 300),
        ("user:k/1", "usd:day", 40),
        ("key:k", "requests", 1),
    ):
        window = Window(scope, kind, int(NOW - days * 86_400), NOW - days * 86_400)
        lease(joined, ANN, 1, window=window)
        allowances.book(ANN, [Booking(window, 1, 0, 0, ends=True)]).result(30)
    assert allowances.trim(NOW).result(30) == 2
    assert [one.window.kind for one in allowances.standings("key:k", 0)] == ["usd:day"]


def test_stores_of_several_workers_never_grant_more_than_the_limit(open_store: Opening) -> None:
    stores = [open_store() for _ in range(3)]
    workers = [Worker(f"w{n}", "boot", 30) for n in range(3)]
    for store, worker in zip(stores, workers, strict=True):
        store.allowances.join(worker).result(30)

    def take(n: int) -> int:
        return lease(stores[n], workers[n], 7, limit=500).granted + sum(
            lease(stores[n], workers[n], 7, limit=500).granted for _ in range(40)
        )

    with ThreadPoolExecutor(3) as threads:
        granted = sum(threads.map(take, range(3)))
    assert 500 - 7 < granted <= 500
    assert state(stores[0]) == (0, 0, granted)


def test_a_window_that_was_dropped_meanwhile_is_booked_all_the_same(joined: Store) -> None:
    gone = Window("user:u", "requests", 1_600_000_000, 1_600_000_060.0)
    assert joined.allowances.book(ANN, [Booking(gone, 1, 0, 0), Booking(DAY, 0, 0, 0)]).result(30)[0] == (
        0,
        0,
    )
