"""Twins on their way in: what must not be merged, overwritten or counted twice."""

from __future__ import annotations

import time
from typing import Any

import pytest

from store import Store
from store.examples.bank import ExampleBank
from store.records import Example, NewExample
from tests.store.rows import new_example, unit_vector

FAR_S = time.time() + 1e6


@pytest.fixture
def bank(store: Store) -> ExampleBank:
    return store.examples


def asked(number: int, **changes: Any) -> NewExample:
    fields = {
        "question": "What is the capital of France?",
        "answer": "It is Paris.",
        "vector": unit_vector(1),
    }
    return new_example(number, **(fields | changes))


def kept(bank: ExampleBank, number: int = 1, **changes: Any) -> Example:
    return bank.add(asked(number, **changes)).result(30)


def near(example: Example, similarity: float = 0.99) -> tuple[tuple[int, float], ...]:
    return ((example.id, similarity),)


def test_an_agreeing_twin_is_merged_and_the_freshest_texts_stand_for_both(bank: ExampleBank) -> None:
    old = kept(bank)
    admitted = bank.admit(asked(2, answer="It is PARIS!", contributor="bob", neighbours=near(old))).result(30)
    assert admitted.outcome == "replaced"
    assert (admitted.example.id, admitted.example.merged, bank.count()) == (old.id, 1, 1)
    assert (admitted.example.answer, admitted.example.contributor) == ("It is PARIS!", "bob")
    assert admitted.example.seq > old.seq
    assert not admitted.example.flagged


def test_a_twin_that_disagrees_is_kept_and_both_are_flagged(bank: ExampleBank) -> None:
    old = kept(bank)
    admitted = bank.admit(asked(2, answer="It is Lyon.", neighbours=near(old))).result(30)
    assert admitted.outcome == "disagrees"
    assert admitted.example.id != old.id
    assert [e.flagged for e in bank.by_ids("a1", [old.id, admitted.example.id])] == [True, True]


@pytest.mark.parametrize(
    "changes", [{"scope": "another"}, {"tenant": "b2"}, {"question": "What is the capital of Finland?"}]
)
def test_a_pair_is_never_merged_or_flagged_across_tenants_scopes_or_questions(
    bank: ExampleBank, changes: dict[str, str]
) -> None:
    old = kept(bank)
    for number, answer in ((2, "It is Paris."), (3, "It is Lyon.")):
        admitted = bank.admit(asked(number, answer=answer, neighbours=near(old), **changes)).result(30)
        assert (admitted.outcome, admitted.example.flagged) == ("added", False)
    assert bank.get("a1", old.id) == old


def test_what_is_not_near_is_no_twin_and_neither_is_what_is_gone(bank: ExampleBank) -> None:
    old = kept(bank)
    assert bank.admit(asked(2, neighbours=near(old, 0.9))).result(30).outcome == "added"
    assert bank.admit(asked(3, neighbours=((999, 1.0),))).result(30).outcome == "added"
    assert bank.count() == 3


@pytest.mark.parametrize("held", [{"kind": "demonstration"}, {"pinned": True}])
def test_an_observation_never_overwrites_a_demonstration_or_a_pinned_example(
    bank: ExampleBank, held: dict[str, Any]
) -> None:
    old = kept(bank, **held)
    admitted = bank.admit(asked(2, answer="it is paris", quality=1.0, neighbours=near(old))).result(30)
    assert (admitted.outcome, admitted.example.merged) == ("merged", 1)
    assert (admitted.example.answer, admitted.example.request_id) == (old.answer, old.request_id)
    disagreeing = bank.admit(asked(3, answer="It is Lyon.", neighbours=near(old))).result(30)
    assert disagreeing.outcome == "disagrees"
    after = bank.get("a1", old.id)
    assert after is not None and (after.answer, after.kind, after.pinned) == (
        old.answer,
        old.kind,
        old.pinned,
    )


def test_a_demonstration_takes_the_place_of_what_was_only_observed(bank: ExampleBank) -> None:
    old = kept(bank, quality=1.0)
    given = bank.admit(asked(2, answer="It is: Paris", kind="demonstration", neighbours=near(old))).result(30)
    assert (given.outcome, given.example.kind, given.example.answer) == (
        "replaced",
        "demonstration",
        "It is: Paris",
    )


def test_a_better_judged_answer_is_not_lost_to_a_fresher_one(bank: ExampleBank) -> None:
    good, bad = kept(bank, quality=0.9), kept(bank, 2, scope="other", quality=0.1)
    assert bank.admit(asked(3, neighbours=near(good))).result(30).outcome == "merged"
    instead = bank.admit(asked(4, scope="other", neighbours=near(bad))).result(30)
    assert (instead.outcome, instead.example.quality) == ("replaced", None)


def test_a_newcomer_in_quarantine_takes_nothing_away_from_what_is_served(bank: ExampleBank) -> None:
    old = kept(bank)
    admitted = bank.admit(asked(2, served_from_s=FAR_S, neighbours=near(old))).result(30)
    assert admitted.outcome == "merged"
    assert bank.by_ids("a1", [old.id])[0].answer == old.answer


def test_a_pair_without_its_vector_does_not_take_its_twin_out_of_the_index(bank: ExampleBank) -> None:
    old = kept(bank)
    assert bank.admit(asked(2, vector=None, neighbours=near(old))).result(30).outcome == "merged"
    other = bank.admit(asked(3, embedding_version="v0", neighbours=near(old))).result(30)
    assert other.outcome == "merged"


def test_a_retry_of_a_merged_request_is_not_counted_twice(bank: ExampleBank) -> None:
    old = kept(bank)
    for _ in range(3):
        again = bank.admit(asked(2, neighbours=near(old))).result(30)
    assert (again.outcome, again.example.merged) == ("known", 1)
    first = bank.admit(asked(1, neighbours=near(old))).result(30)
    assert (first.outcome, first.example.id, first.example.merged) == ("known", old.id, 1)
    assert bank.count() == 1


def test_what_an_example_was_good_for_outlives_its_texts(bank: ExampleBank) -> None:
    old = kept(bank)
    bank.note_use([old.id])
    written = bank.flush_uses()
    assert written is not None
    written.result(30)
    admitted = bank.admit(asked(2, answer="It is Paris!", neighbours=near(old))).result(30)
    assert admitted.example.uses == 1
    assert admitted.example.used == pytest.approx(1, abs=1e-3)


def test_a_demonstration_puts_a_wrong_observation_right(bank: ExampleBank) -> None:
    old = kept(bank, answer="It is Lyon.")
    given = bank.admit(asked(2, kind="demonstration", neighbours=near(old))).result(30)
    assert (given.outcome, given.example.id, given.example.answer) == ("replaced", old.id, "It is Paris.")
    pinned = kept(
        bank,
        5,
        question="What is the capital of Spain?",
        answer="It is Vigo.",
        vector=unit_vector(2),
        pinned=True,
    )
    other = asked(
        6,
        question=pinned.question,
        answer="It is Madrid.",
        vector=unit_vector(2),
        kind="demonstration",
        neighbours=near(pinned),
    )
    assert bank.admit(other).result(30).outcome == "disagrees", "what is pinned stays as it is"
