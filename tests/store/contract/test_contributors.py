"""What one key has brought to a bank, counted apart from everybody else's."""

from __future__ import annotations

import time

from store import Store
from store.examples.bank import ExampleBank
from store.held import Held
from store.records import NewExample


def give(
    bank: ExampleBank, contributor: str, number: int, tenant: str = "t", quality: float | None = None
) -> None:
    text = f"question {number} of {contributor}"
    new = NewExample(
        tenant,
        "s",
        text,
        "answer",
        text,
        None,
        "v",
        "large",
        f"{contributor}{number}",
        contributor=contributor,
        quality=quality,
    )
    bank.add(new).result()


def test_a_key_is_counted_with_all_its_users_and_without_anybody_elses(store: Store) -> None:
    bank = store.examples
    for i in range(3):
        give(bank, "key_a/user1", i, quality=0.9)
    give(bank, "key_a/", 1, quality=0.1)
    give(bank, "key_ab/user1", 1)
    give(bank, "key_b/user1", 1)
    give(bank, "key_a/user1", 9, tenant="other")
    now_s = time.time()
    standing = store.examples.contributors.standings().of("t", "key_a", now_s)
    assert (standing.examples, standing.last_hour, standing.others) == (4, 4, 2)
    assert (standing.judged_good, standing.judged_bad) == (3, 1)
    assert standing.bank_first_seen_s <= standing.first_seen_s <= now_s
    assert store.examples.contributors.standings().of("t", "key_a", now_s + 7200).last_hour == 0
    assert bank.contributors.names("t") == [
        "key_a/",
        "key_a/user1",
        "key_ab/user1",
        "key_b/user1",
    ]
    assert bank.contributors.tenants() == ["other", "t"]
    held = store.held_of_contributors("t", ["key_a/", "key_a/user1"], key_id="key_a")
    assert held == Held(examples=4)
    assert not store.held_of_contributors("t", [], end_user="user1").anything


def test_a_key_that_brought_nothing_yet_is_first_seen_now(store: Store) -> None:
    standing = store.examples.contributors.standings().of("t", "key_new", 1000.0)
    assert (standing.examples, standing.others, standing.first_seen_s, standing.bank_first_seen_s) == (
        0,
        0,
        1000.0,
        1000.0,
    )
