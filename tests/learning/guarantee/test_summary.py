"""What pages show of proofs: the same as the workers know, and the share of the traffic that is offloaded."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from learning.guarantee.summary import ProofReader, state_of
from router.proving.gate import Gate
from store import Store
from tests.learning.guarantee.test_proof import NOTED, note
from tests.store.rows import choice_record, outcome_record


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    made = Store.open(tmp_path)
    yield made
    made.close()


def test_a_scope_says_what_it_waits_for_and_then_what_it_offloads(store: Store) -> None:
    reader = ProofReader(store.outcomes, store.decisions.choices, {"m": Gate(("small",), 0.05)})
    assert reader.scopes() == []
    for number in range(20):
        note(store, number, engine="large")
    (scope,) = reader.scopes()
    (region,) = scope.regions
    assert (scope.tenant, scope.model, scope.scope, scope.requests, scope.offloaded) == (
        ("a1", "m", "scope", 20, 0)
    )
    assert "more comparisons" in state_of(region) and not region.open
    for number in range(20, 140):
        note(store, number, engine="small" if number >= 120 else "large")
    (scope,) = reader.scopes()
    assert state_of(scope.regions[0]) == "proven" and (scope.requests, scope.offloaded) == (140, 20)


def test_an_engine_that_is_not_good_enough_is_told_as_such(store: Store) -> None:
    reader = ProofReader(store.outcomes, store.decisions.choices, {"m": Gate(("small",), 0.05)})
    for number in range(5):
        note(store, number, quality=0.0)
    (scope,) = reader.scopes()
    assert all(state_of(region).startswith("not good enough: loses") for region in scope.regions)


def test_a_shut_way_says_which_loss_would_open_it_and_what_that_would_save(store: Store) -> None:
    reader = ProofReader(store.outcomes, store.decisions.choices, {"m": Gate(("small",), 0.05)})
    costs = (("small", False, 0.1), ("small", True, 0.3), ("large", False, 1.0))
    actions = tuple(
        {"engine": engine, "with_examples": given, "cost_usd": cost} for engine, given, cost in costs
    )
    for number in range(5):
        note(store, number, quality=0.0, actions=actions)
    (scope,) = reader.scopes()
    region, *_ = scope.regions
    assert region.saving == pytest.approx(0.7)
    assert state_of(region).endswith("would open it and save 70 %")


def test_nothing_is_said_of_a_saving_where_no_price_was_expected(store: Store) -> None:
    reader = ProofReader(store.outcomes, store.decisions.choices, {"m": Gate(("small",), 0.05)})
    actions = tuple(
        {"engine": engine, "with_examples": False, "cost_usd": None} for engine in ("small", "large")
    )
    for number in range(5):
        note(store, number, quality=0.0, actions=actions)
    (scope,) = reader.scopes()
    assert scope.regions[0].saving is None
    assert state_of(scope.regions[0]).endswith("would open it")


def reader_of(store: Store) -> ProofReader:
    return ProofReader(store.outcomes, store.decisions.choices, {"m": Gate(("small",), 0.05)})


def test_a_judge_that_finds_the_references_own_answers_worse_is_why_nothing_is_proven(store: Store) -> None:
    reader = reader_of(store)
    for number in range(200):
        note(store, number, quality=float(number % 5 > 0))
        again = f'{{"reference": true, "again": {int(number % 5 > 0)}}}'
        store.outcomes.note(
            outcome_record(number, key="again", engine="large", source="judge", detail=again)
        ).result(5)
    (scope,) = reader.scopes()
    assert scope.error is not None and scope.error.mean == pytest.approx(0.2)
    assert scope.error.low < 0.2 < scope.error.high
    assert "finds 20% of the reference's own second answers worse" in state_of(scope.regions[0])
    assert state_of(scope.regions[0]).endswith("nothing can be proven below max_loss 0.10")


def test_the_account_of_a_tenant_counts_requests_and_answers_of_all_workers(store: Store) -> None:
    for number in range(60):
        more = {"by": 7.0, "asked": float(number), "number": float(number + 1), "checked": 0.25}
        note(store, number, noted=NOTED | more)
    (scope,) = reader_of(store).scopes()
    assert (scope.account.requests, scope.account.given) == (59, 60)
    assert scope.account.lost > 0.0 and scope.account.room == 0.0


def test_a_judge_that_favours_length_is_told_apart_from_people_who_do_not(store: Store) -> None:
    reader = reader_of(store)
    for number in range(40, 80):
        choice = choice_record(number, model="m", scope="scope", noted=NOTED)
        store.decisions.choices.record(choice).result(5)
        longer, rated = number % 2, number // 2 % 2
        detail = f'{{"length": {0.4 + 0.2 * longer}}}'
        store.outcomes.note_many(
            [
                outcome_record(number, source="judge", key="length", quality=float(longer), detail=detail),
                outcome_record(number, quality=float(rated)),
            ]
        ).result(5)
    note(store, 0)
    (bias,) = {scope.length_bias for scope in reader.scopes()}
    assert bias is not None and bias.answers == 40
    assert bias.judged == pytest.approx(1.0) and bias.rated == pytest.approx(0.0, abs=1e-9)
