"""What a person quarantined stays away: the same pair that comes along again does not bring it back."""

from __future__ import annotations

import pytest

from store import Store
from store.examples.bank import ExampleBank
from store.records import HELD_BACK_S, Example
from tests.store.examples.test_admitting import asked, kept, near
from tests.store.rows import unit_vector


@pytest.fixture
def bank(store: Store) -> ExampleBank:
    return store.examples


@pytest.fixture
def held(store: Store, bank: ExampleBank) -> Example:
    """Quarantined: the capital of France is Paris."""
    old = kept(bank)
    found = bank.hold_back("a1", old.id).result(30)
    assert found is not None and found.held_back_by_hand
    return found


@pytest.mark.parametrize("in_index", [True, False])
@pytest.mark.parametrize("kind", ["observed", "demonstration"])
def test_the_same_pair_again_is_merged_into_it_and_not_served(
    bank: ExampleBank, held: Example, in_index: bool, kind: str
) -> None:
    neighbours = near(held) if in_index else ()
    again = asked(2, answer="It is PARIS!", kind=kind, neighbours=neighbours)
    admitted = bank.admit(again).result(30)
    assert admitted.outcome == "merged" and admitted.example.id == held.id
    assert admitted.example.served_from_s == HELD_BACK_S and admitted.example.answer == held.answer
    assert bank.count() == 1 and bank.by_ids("a1", [held.id]) == []


def test_the_same_words_without_a_vector_do_not_bring_it_back_either(
    bank: ExampleBank, held: Example
) -> None:
    assert bank.admit(asked(2, vector=None)).result(30).example.id == held.id
    other = asked(3, vector=None, question="What is the capital city of France?")
    assert bank.admit(other).result(30).outcome == "added"


def test_another_answer_is_served_and_not_doubted_because_of_it(bank: ExampleBank, held: Example) -> None:
    admitted = bank.admit(asked(2, answer="It is Lyon.", neighbours=near(held))).result(30)
    assert admitted.outcome == "added" and not admitted.example.flagged
    assert [e.answer for e in bank.by_ids("a1", [held.id, admitted.example.id])] == ["It is Lyon."]


@pytest.mark.parametrize(
    "changes",
    [
        {"tenant": "b2"},
        {"scope": "another"},
        {"question": "What is the capital of Finland?"},
        {"vector": unit_vector(5)},
    ],
)
def test_only_the_same_question_of_the_same_tenant_and_scope_is_held_with_it(
    bank: ExampleBank, held: Example, changes: dict[str, object]
) -> None:
    assert bank.admit(asked(2, **changes)).result(30).outcome == "added"


def test_let_go_it_gives_way_to_a_fresh_answer_as_any_other(
    store: Store, bank: ExampleBank, held: Example
) -> None:
    bank.let_go("a1", held.id).result(30)
    assert bank.admit(asked(2, answer="It is PARIS!", neighbours=near(held))).result(30).outcome == "replaced"
