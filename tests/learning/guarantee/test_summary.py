"""What pages show of proofs: the same as the workers know, and the share of the traffic that is offloaded."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from learning.guarantee.summary import ProofReader, state_of
from router.proving.gate import Gate
from store import Store
from tests.learning.guarantee.test_proof import note


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
