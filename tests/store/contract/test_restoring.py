"""What is restored is as it was; what is there already is not touched."""

from __future__ import annotations

from store import Store
from store.records import Account, Restored
from tests.store.rows import new_example

ACCOUNT = Account(True, 3, 7, 1.7e9, 2.5, 1.7e9, 0.75, 1.6e9, 1.5, 2)


def test_an_account_comes_back_and_never_over_a_living_one(store: Store) -> None:
    bank = store.examples
    rows = [Restored(new_example(1), ACCOUNT, 1.5e9), Restored(new_example(2))]
    assert [a.outcome for a in bank.restore_many(rows).result(30)] == ["added", "added"]
    first, second = bank.page("a1")
    assert Account.of(first) == ACCOUNT and first.created_at_s == 1.5e9
    assert second.uses == 0 and second.created_at_s > 1.7e9
    changed = [Restored(new_example(2), ACCOUNT, 1.5e9)]
    assert [a.outcome for a in bank.restore_many(changed).result(30)] == ["known"]
    assert bank.page("a1")[1] == second
