"""No way into a private tenant's bank but the synthetic one; what was told stays booked whatever is deleted."""

from __future__ import annotations

import pytest

from store import Store
from store.examples.private_bank import BudgetMoved, PrivateQuestion
from store.records import Restored
from tests.store.behind import admit_many, forget_contributor
from tests.store.rows import new_example


def test_what_a_private_tenant_says_is_put_aside_and_an_other_tenants_is_not(store: Store) -> None:
    bank, private = store.examples, store.examples.private
    assert store.examples.make_private("a1").result(30) == 0
    said = bank.admit(new_example(1, contributor="k/ann", instructions="I")).result(30)
    assert said.outcome == "private"
    assert (said.example.id, said.example.question, said.example.answer) == (0, "", "")
    assert bank.admit(new_example(1, tenant="b2")).result(30).outcome == "added"
    assert [a.outcome for a in admit_many(bank, [new_example(2), new_example(2)]).result(30)] == [
        "private"
    ] * 2
    assert [a.outcome for a in store.examples.restore_many([Restored(new_example(3))]).result(30)] == [
        "private"
    ]
    assert bank.count("a1") == 0 and bank.count("b2") == 1
    assert private.questions("a1") == [
        PrivateQuestion("", "scope", "", "question 2"),
        PrivateQuestion("", "scope", "", "question 3"),
        PrivateQuestion("k/ann", "scope", "I", "question 1"),
    ]
    assert private.counts("a1") == (3, 2)
    assert bank.tail(0, tenant="a1") == [], "no follower of the log ever hears of it"


def test_synthetic_pairs_enter_and_cannot_be_rewritten_in_somebodys_words(store: Store) -> None:
    bank = store.examples
    store.examples.make_private("a1").result(30)
    kept = bank.admit(new_example(1, synthetic=True)).result(30)
    assert kept.outcome == "added"
    assert bank.update("a1", kept.example.id, answer="My own words.").result(30) is None
    assert bank.get("a1", kept.example.id).answer == "answer 1"  # type: ignore[union-attr]
    assert bank.update("a1", kept.example.id, pinned=True).result(30) is not None


def test_who_becomes_private_takes_the_examples_along(store: Store) -> None:
    bank = store.examples
    for number in range(3):
        bank.admit(new_example(number, contributor="k/ann", instructions="I")).result(30)
    assert store.examples.make_private("a1").result(30) == 3
    assert {each.instructions for each in store.examples.private.questions("a1")} == {"I"}
    assert bank.count("a1") == 0
    assert store.examples.private.counts("a1") == (3, 1)
    bank.admit(new_example(7, synthetic=True)).result(30)
    assert store.examples.make_private("a1").result(30) == 0, "once is enough"
    assert bank.count("a1") == 1


def test_what_was_told_is_booked_once_and_outlives_what_it_was_told_of(store: Store) -> None:
    private = store.examples.private
    store.examples.make_private("a1").result(30)
    store.examples.admit(new_example(1, contributor="k/ann")).result(30)
    told = [("scope", 3, ["parcel", "late"])]
    one = private.book("a1", after=0, rho=0.25, slip=1e-7, made={"threshold": 9}, told=told).result(30)
    with pytest.raises(BudgetMoved):
        private.book("a1", after=0, rho=0.25, slip=1e-7, made={}, told=[]).result(30)
    assert private.forget_contributor("a1", "k/ann").result(30) == 1
    assert private.forget_tenant("a1").result(30) == 0
    (release,) = private.releases("a1")
    assert (release.id, release.rho, release.slip, release.told) == (one, 0.25, 1e-7, told)
    assert private.tenants() == {"a1"}
    with pytest.raises(ValueError, match="nobody"):
        private.forget_contributor("a1", "")


def test_who_is_forgotten_leaves_nothing_put_aside(store: Store) -> None:
    store.examples.make_private("a1").result(30)
    for number, contributor in enumerate(("k/ann", "k/bob", "k/bob")):
        store.examples.admit(new_example(number, contributor=contributor)).result(30)
    assert store.examples.contributors.names("a1") == ["k/ann", "k/bob"]
    forget_contributor(store, "a1", "k/bob")
    assert store.examples.private.counts("a1") == (1, 1)
    store.forget_tenant("a1")
    assert store.examples.private.counts("a1") == (0, 0)


def test_what_is_put_aside_is_not_kept_for_ever(store: Store) -> None:
    store.examples.make_private("a1").result(30)
    store.examples.admit(new_example(1)).result(30)
    assert store.examples.private.trim(1000.0).result(30) == 0
    assert store.examples.private.trim(4e9).result(30) == 1
