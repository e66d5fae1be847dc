"""What workers hold of limits: two ledgers over one store, as two workers have them, and what becomes of a dead one's."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import Future
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from gateway.limits import ledger as ledgers
from gateway.limits.journal import Journal, boot_id, leftover, of_dead
from gateway.limits.ledger import Blind, Ledger, Refused
from gateway.limits.purse import Purse
from store import Store
from store.errors import StoreFailed
from store.people.allowance import CONCURRENCY, Held, Lease, Window, Worker
from tests.patience import until

WINDOW = Window("key:k", "usd:total", 0, 9e9)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    made = Store.open(tmp_path)
    yield made
    made.close()


@asynccontextmanager
async def ledger(store: Store) -> AsyncIterator[Ledger]:
    made = Ledger(store.allowances, store.folder / "limits", workers=2)
    made.start()
    try:
        yield made
    finally:
        await made.aclose()


async def take(of: Ledger, need: int, limit: int = 1000, window: Window = WINDOW) -> Purse:
    purse = of.purse(window, limit) or await of.open(window, limit)
    if not of.take(purse, need):
        await of.draw(purse, need)
    return purse


def standing(store: Store) -> tuple[int, int, int]:
    (found,) = store.allowances.standings(WINDOW.scope, 0)
    return found.spent, found.estimated, found.leased


async def test_the_store_is_asked_once_while_much_is_left(store: Store) -> None:
    async with ledger(store) as one:
        purse = await take(one, 5)
        leased = purse.granted
        assert leased == 125
        for _ in range(24):
            assert one.take(purse, 5)
        assert purse.granted == leased and purse.free == 0


async def test_what_lies_idle_at_one_worker_reaches_another_that_needs_it(store: Store) -> None:
    async with ledger(store) as one, ledger(store) as two:
        purses = [await take(one, 400), await take(one, 400)]
        for purse in purses:
            one.settle(purse, 400, 10)
        # 800 of 1000 are granted to the first, of which 20 are spent.
        await take(two, 900)
        with pytest.raises(Refused) as refused:
            await take(two, 200)
        assert not refused.value.spent
        two.settle(two.purse(WINDOW, 1000) or purses[0], 900, 900)
        with pytest.raises(Refused) as refused:
            await take(two, 200)
        assert refused.value.spent
    assert standing(store) == (920, 0, 0)


async def test_many_that_wait_are_served_in_one_go_or_refused_together(store: Store) -> None:
    async with ledger(store) as one:
        began = time.monotonic()
        got = await asyncio.gather(*(take(one, 100) for _ in range(30)), return_exceptions=True)
        assert sum(isinstance(each, Purse) for each in got) == 10
        assert sum(isinstance(each, Refused) and not each.spent for each in got) == 20
        assert time.monotonic() - began < 30


async def test_a_cancelled_request_takes_nothing(store: Store) -> None:
    async with ledger(store) as one:
        waiting = asyncio.create_task(take(one, 100))
        await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        await take(one, 1000)
    assert standing(store) == (1000, 1000, 0)


async def test_places_at_once_are_given_back_and_never_spent(store: Store) -> None:
    places = Window("key:k", CONCURRENCY, 0, 9e9)
    async with ledger(store) as one, ledger(store) as two:
        first = await take(one, 1, 1, places)
        with pytest.raises(Refused):
            await take(two, 1, 1, places)
        one.settle(first, 1, 0)
        await take(two, 1, 1, places)
    assert standing(store) == (0, 0, 0)


async def test_a_limit_that_is_lowered_holds_at_once_for_what_is_leased_anew(store: Store) -> None:
    async with ledger(store) as one:
        purse = await take(one, 100, 1000)
        one.settle(purse, 100, 100)
        with pytest.raises(Refused) as refused:
            await take(one, 101, 150)
        assert refused.value.spent


DIES = """
import asyncio, os, signal, sys
from pathlib import Path
from store import Store
from gateway.limits.ledger import Ledger
from tests.gateway.limits.test_ledger import take

async def main():
    store = Store.open(Path(sys.argv[1]))
    one = Ledger(store.allowances, store.folder / "limits", workers=2)
    one.start()
    purse = await take(one, 100)
    await take(one, 150)
    one.settle(purse, 100, 60)
    os.kill(os.getpid(), signal.SIGKILL)

asyncio.run(main())
"""


async def test_a_killed_workers_reservations_count_as_spent_and_the_rest_returns(store: Store) -> None:
    died = await asyncio.to_thread(
        subprocess.run, [sys.executable, "-c", DIES, str(store.folder)], timeout=120, check=False
    )
    assert died.returncode == -9
    async with ledger(store) as other:
        # Its journal goes last: the store has the leases' end before that.
        await until(lambda: not leftover(store.folder / "limits"), "the dead worker's leases are settled")
        assert store.allowances.workers() == []
        # 60 were spent, 150 under way.
        assert standing(store) == (210, 150, 0)
        await take(other, 790)
    assert leftover(store.folder / "limits") == []


@pytest.mark.parametrize(("boot", "spent"), [("another", 400), (boot_id(), 0)])
async def test_a_journal_from_before_the_machine_started_is_not_believed(
    store: Store, boot: str, spent: int
) -> None:
    worker = Worker("gone", boot, 60)
    Journal(store.folder / "limits", "gone").close(remove=False)
    store.allowances.join(worker).result(30)
    args = {"limit": 1000, "need": 400, "wish": 0, "parts": 8, "now_s": time.time()}
    store.allowances.lease(worker, 0, WINDOW, **args).result(30)
    async with ledger(store):
        await until(lambda: not store.allowances.workers(), "its leases are settled")
    assert standing(store) == (spent, spent, 0)


async def test_a_worker_of_another_machine_is_dead_once_its_time_is_over(store: Store) -> None:
    for name, left_s in (("dead", -1), ("alive", 600)):
        worker = Worker(name, "another", left_s)
        store.allowances.join(worker).result(30)
        args = {"limit": 1000, "need": 10, "wish": 0, "parts": 100, "now_s": time.time()}
        store.allowances.lease(worker, 0, WINDOW, **args).result(30)
    async with ledger(store):
        await until(lambda: len(store.allowances.workers()) == 1, "one is settled")
        assert store.allowances.workers()[0].id == "alive"


async def test_a_worker_that_was_taken_for_dead_begins_anew(store: Store) -> None:
    async with ledger(store) as one:
        purse = await take(one, 100)
        (worker,) = store.allowances.workers()
        await asyncio.to_thread(store.allowances.settle_dead(worker.id, None).result, 30)
        one.settle(purse, 100, 10)
        await until(lambda: one.purse(WINDOW, 1000) is None, "its leases are known to be gone")
        assert (await take(one, 100)) is not purse
    assert standing(store)[0] >= 100


async def test_with_the_store_failing_what_is_here_is_still_handed_out(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with ledger(store) as one:
        purse = await take(one, 25)
        failed: Future[Lease] = Future()
        failed.set_exception(StoreFailed("disk full"))
        with monkeypatch.context() as broken:
            broken.setattr(store.allowances, "lease", lambda *_, **__: failed)
            broken.setattr(store.allowances, "book", lambda *_, **__: failed)
            assert one.take(purse, 100)
            one.settle(purse, 100, 70)
            with pytest.raises(Blind):
                await take(one, 500)
            await asyncio.sleep(0.3)
        one.settle(purse, 25, 20)
    # What was spent meanwhile is booked once the store is back.
    assert standing(store) == (90, 0, 0)


async def test_nobody_waits_for_a_store_that_has_just_failed(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    never: Future[Lease] = Future()
    asked: list[None] = []
    monkeypatch.setattr(ledgers, "_STORE_S", 0.05)
    monkeypatch.setattr(ledgers, "_BLIND_S", 1000)
    async with ledger(store) as one:
        await take(one, 1)
        with monkeypatch.context() as slow:
            slow.setattr(store.allowances, "lease", lambda *_, **__: asked.append(None) or never)
            got = await asyncio.gather(*(take(one, 500) for _ in range(20)), return_exceptions=True)
        assert all(isinstance(each, Blind) for each in got) and len(asked) == 1


async def test_a_grant_that_comes_too_late_is_not_lost(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    late: Future[Lease] = Future()
    async with ledger(store) as one:
        await take(one, 1)
        with monkeypatch.context() as slow:
            slow.setattr(ledgers, "_STORE_S", 0.05)
            slow.setattr(store.allowances, "lease", lambda *_, **__: late)
            with pytest.raises(Blind):
                await take(one, 500)
        purse = one.purse(WINDOW, 1000)
        assert purse is not None
        granted = purse.granted
        late.set_result(Lease(300, 0, granted + 300, 1000))
        await until(lambda: purse.granted == granted + 300, "the late grant counts")


def test_a_journal_is_locked_while_its_worker_lives_and_read_when_it_is_dead(tmp_path: Path) -> None:
    journal = Journal(tmp_path, "w")
    slots = [journal.take_slot() for _ in range(3000)]
    assert len(set(slots)) == 3000
    journal.note(slots[2999], 5, 3, 7)
    assert of_dead(tmp_path, "w") is None
    journal.close(remove=False)
    dead = of_dead(tmp_path, "w")
    assert dead is not None
    with dead:
        assert dead.read() == {slots[2999]: Held(5, 3, 7)}
        dead.remove()
    with pytest.raises(FileNotFoundError):
        of_dead(tmp_path, "w")


def test_a_journal_cut_in_the_middle_of_a_slot_is_read_as_far_as_it_goes(tmp_path: Path) -> None:
    journal = Journal(tmp_path, "w")
    journal.note(journal.take_slot(), 5, 0, 0)
    journal.close(remove=False)
    os.truncate(tmp_path / "w.journal", 30)
    dead = of_dead(tmp_path, "w")
    assert dead is not None
    with dead:
        assert dead.read() == {0: Held(5, 0, 0)}
