"""What is read and then written by it stays right while other processes do the same."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from store import Store
from store.people.allowance import Window, Worker
from store.people.keys import SecretTaken
from tests.store.contract.conftest import Opening

NOW = 1_700_000_000.0
PROCESSES = 3


def at_once(open_store: Opening, does: Callable[[Store, int], Any]) -> list[Any]:
    """What each of a few processes is given for the same, or the exception's class."""
    stores = [open_store() for _ in range(PROCESSES)]

    def one(number: int) -> Any:
        try:
            return does(stores[number], number)
        except Exception as error:
            return type(error)

    with ThreadPoolExecutor(PROCESSES) as pool:
        return list(pool.map(one, range(PROCESSES)))


def test_one_account_is_the_first(open_store: Opening) -> None:
    done = at_once(open_store, lambda store, number: store.operators.add_first(f"ann{number}", "hash"))
    assert sorted(done) == [False, False, True]
    assert len(open_store().operators.list()) == 1


def test_a_secret_is_one_key_s(open_store: Opening) -> None:
    secret = "a-secret-that-was-there-before-0123456789"
    done = at_once(
        open_store,
        lambda store, number: store.keys.create("acme", f"key {number}", secret_text=secret)[0].name,
    )
    assert done.count(SecretTaken) == PROCESSES - 1
    (key,) = open_store().keys.list()
    assert key.name in done


def test_a_dead_worker_is_settled_once(open_store: Opening) -> None:
    store, worker = open_store(), Worker("gone", "boot", NOW)
    store.allowances.join(worker).result(30)
    window = Window("key:k", "usd:day", 1_699_920_000, 1_700_006_400.0)
    store.allowances.lease(worker, 0, window, limit=100, need=40, wish=0, parts=100, now_s=NOW).result(30)
    done = at_once(open_store, lambda other, _: other.allowances.settle_dead(worker.id, None).result(30))
    assert sorted(done) == [0, 0, 1]
    (found,) = store.allowances.standings("key:k", NOW)
    assert (found.spent, found.leased) == (40, 0)


def test_every_version_of_a_workflow_has_a_number_of_its_own(open_store: Opening) -> None:
    done = at_once(
        open_store,
        lambda store, number: store.runs.assets.put_workflow(
            "a1", "qa", f"v{number}", b"{}", now_s=NOW
        ).result(30),
    )
    assert sorted(done) == [1, 2, 3]
