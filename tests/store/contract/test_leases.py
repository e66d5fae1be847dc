"""A lease has one holder at a time, by the database's clock; whoever slept beyond it writes nothing."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextvars import Context

import pytest

from store import Store
from store.jobs.leases import Lease, LeaseOver, NotAlone, again_while_alone, do_if_alone
from store.jobs.replay_records import ReplayBudget
from tests.patience import wait_for
from tests.store.contract.conftest import Opening


def lapse(store: Store, name: str) -> None:
    """Let a lease run out, as sleeping would."""
    lease = store.jobs.leases.lease(name, for_s=-1.0)
    (held,) = [one for one in store.jobs.leases.held() if one.name == name]
    lease._epoch = held.epoch
    assert lease._renewed()


def write(store: Store) -> int:
    return store.jobs.replay.want("t", ReplayBudget(), asked_by="command").result(30)


def by_another(store: Store) -> int:
    """As another process would, whose context this is not."""
    with store.jobs.leases.alone("chore"):
        return write(store)


def wanted(store: Store) -> int:
    return len(store.jobs.replay.runs())


def test_one_holds_it_at_a_time_and_epochs_grow(open_store: Opening) -> None:
    first, second = open_store(), open_store()
    one, other = first.jobs.leases.lease("chore"), second.jobs.leases.lease("chore")
    assert one.take() and one.take() and not other.take()
    assert second.jobs.leases.lease("another").take(), "each name stands for itself"
    one.release()
    assert other.take() and not one.take()
    (held,) = [found for found in first.jobs.leases.held() if found.name == "chore"]
    assert held.epoch == 2 and 0 < held.left_s <= 15.0


def test_of_many_that_take_it_at_once_one_has_it(open_store: Opening) -> None:
    leases = [open_store().jobs.leases.lease("chore") for _ in range(3)]
    took: list[bool] = []
    threads = [threading.Thread(target=lambda lease=lease: took.append(lease.take())) for lease in leases]  # type: ignore[misc]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(took) == [False, False, True]


def test_what_is_written_under_a_lease_that_ran_out_is_refused_whoever_holds_it_now(
    open_store: Opening,
) -> None:
    first, second = open_store(), open_store()
    with first.jobs.leases.alone("chore"):
        write(first)
        lapse(second, "chore")
        with pytest.raises(LeaseOver):
            write(first)
        assert Context().run(by_another, second) > 0
        with pytest.raises(LeaseOver):
            write(first)
        assert wanted(second) == 2
    write(first)
    assert wanted(first) == 3, "what is no chore's is written as ever"


def test_nobody_is_waited_for(store: Store) -> None:
    leases = store.jobs.leases
    with leases.alone("chore"), pytest.raises(NotAlone), leases.alone("chore"):
        pass
    with leases.alone("chore"):
        pass


@pytest.mark.slow
def test_it_is_renewed_while_it_is_held_and_not_once_it_ran_out(open_store: Opening) -> None:
    store, other = open_store(), open_store()
    lease = store.jobs.leases.lease("chore", for_s=1.0)
    assert lease.take()
    with lease.holding():
        threading.Event().wait(1.6)
        assert not other.jobs.leases.lease("chore").take()
        write(store)
    wait_for(other.jobs.leases.lease("chore").take, "it ran out by itself", timeout_s=30)
    assert not lease.take()
    with pytest.raises(LeaseOver), lease.holding():
        pass


def test_one_around_another_counts_as_well(open_store: Opening) -> None:
    store, other = open_store(), open_store()
    with store.jobs.leases.alone("outer"), store.jobs.leases.alone("inner"):
        write(store)
        lapse(other, "outer")
        with pytest.raises(LeaseOver):
            write(store)
    assert not [held for held in other.jobs.leases.held() if held.name == "inner"], "let go all the same"


def done_beside(lease: Lease, chore: Callable[[], object]) -> Callable[[], None]:
    """Does a chore again and again on a thread; gives what ends that."""
    stopping = threading.Event()
    thread = threading.Thread(
        target=again_while_alone,
        args=(chore, lease, stopping),
        kwargs={"every_s": 0.01, "failed": "chore_failed"},
    )
    thread.start()

    def end() -> None:
        stopping.set()
        thread.join()

    return end


def test_nobody_works_while_another_holds_it(open_store: Opening) -> None:
    store, worked = open_store(), threading.Event()
    with open_store().jobs.leases.alone("chore"):
        end = done_beside(store.jobs.leases.lease("chore"), worked.set)
        assert not worked.wait(0.2)
    assert worked.wait(60), "the other is gone"
    end()
    assert not store.jobs.leases.held(), "it is let go each time"


def test_a_chore_that_fails_is_done_again(store: Store) -> None:
    twice = threading.Semaphore(0)

    def fail() -> None:
        twice.release()
        raise OSError("disk full")

    end = done_beside(store.jobs.leases.lease("chore"), fail)
    assert twice.acquire(timeout=60) and twice.acquire(timeout=60)
    end()


def test_a_chore_that_comes_round_keeps_its_lease(open_store: Opening) -> None:
    store, other, done = open_store(), open_store(), []
    lease = store.jobs.leases.lease("chore")
    do_if_alone(lambda: done.append(1), lease, failed="chore_failed")
    do_if_alone(lambda: done.append(2), other.jobs.leases.lease("chore"), failed="chore_failed")
    do_if_alone(lambda: done.append(3), lease, failed="chore_failed")
    assert done == [1, 3]
