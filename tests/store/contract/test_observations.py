from __future__ import annotations

import itertools
import math

import pytest

from store import Store
from store.answers.semantic_observations import SemanticObservations, SemanticScope
from store.errors import ValueRefused
from tests.store.contract.conftest import Opening

SCOPE = SemanticScope("a1", "mini/1", "v1 delta=0.02")


@pytest.fixture
def kept(store: Store) -> SemanticObservations:
    return store.answers.observations


def test_a_comparison_comes_back_as_it_was_kept(kept: SemanticObservations) -> None:
    kept.add(SCOPE, 0, 7, 0.91, True, {("right", 91): 1}).result(30)
    kept.add(SCOPE, 0, 7, 0.92, False, {("wrong", 92): 1, ("labelled", 3): 1}).result(30)
    kept.add(SCOPE, 0, 7, 0.93, True, {("labelled", 3): 1}).result(30)
    rows = kept.of_entries("a1", "mini/1", [7, 8])[7]
    assert [(row.similarity, row.is_right) for row in rows] == [(0.91, True), (0.92, False), (0.93, True)]
    assert kept.counts(SCOPE) == {0: {("right", 91): 1, ("wrong", 92): 1, ("labelled", 3): 2}}


def test_nothing_is_ever_read_under_another_tenant_version_or_policy(kept: SemanticObservations) -> None:
    scopes = [
        SemanticScope(*each) for each in itertools.product(("a1", "b2"), ("mini/1", "mini/2"), ("x", "y"))
    ]
    for number, scope in enumerate(scopes):
        kept.add(scope, 0, 7, number / 10, True, {("reused", 0): number + 1}).result(30)
    for number, scope in enumerate(scopes):
        assert kept.counts(scope) == {0: {("reused", 0): number + 1}}
        similarities = [
            row.similarity for row in kept.of_entries(scope.tenant, scope.embedding_version, [7])[7]
        ]
        assert similarities == [
            n / 10
            for n, other in enumerate(scopes)
            if (other.tenant, other.embedding_version) == (scope.tenant, scope.embedding_version)
        ]
    assert kept.of_entries("c3", "mini/1", [7]) == {}
    assert kept.counts(SemanticScope("c3", "mini/1", "x")) == {}


def test_an_entry_never_keeps_more_than_its_latest_comparisons(kept: SemanticObservations) -> None:
    for number in range(20):
        kept.add(SCOPE, 0, 7, number / 100, True, {}).result(30)
        kept.add(SCOPE, 0, 8, 0.5, True, {}).result(30)
    assert [row.similarity for row in kept.of_entries("a1", "mini/1", [7])[7]] == [
        n / 100 for n in range(4, 20)
    ]


def test_counts_of_different_phases_never_mix(kept: SemanticObservations) -> None:
    kept.add_counts(SCOPE, 0, {("reused", 0): 2}).result(30)
    kept.add_counts(SCOPE, 1, {("restart", 0): 1, ("reused", 0): 1}).result(30)
    kept.add_counts(SCOPE, 0, {("reused", 0): 3}).result(30)
    assert kept.counts(SCOPE) == {0: {("reused", 0): 5}, 1: {("restart", 0): 1, ("reused", 0): 1}}


def test_a_comparison_is_never_kept_without_its_counts(kept: SemanticObservations, store: Store) -> None:
    with pytest.raises(ValueRefused):
        kept.add(SCOPE, 0, 7, 0.9, True, {("right", None): 1}).result(30)  # type: ignore[dict-item]
    assert kept.of_entries("a1", "mini/1", [7]) == {}
    assert kept.counts(SCOPE) == {}


def test_a_forgotten_tenant_leaves_nothing_and_takes_nothing_of_others(
    kept: SemanticObservations,
) -> None:
    other = SemanticScope("b2", "mini/1", "v1 delta=0.02")
    for scope, entry in ((SCOPE, 7), (SCOPE, 8), (other, 7)):
        kept.add(scope, 0, entry, 0.9, True, {("right", 90): 1}).result(30)

    assert kept.forget_tenant("a1").result(30) == 3
    assert kept.of_entries("a1", "mini/1", [7, 8]) == {} and kept.counts(SCOPE) == {}
    assert set(kept.of_entries("b2", "mini/1", [7])) == {7} and kept.counts(other)


@pytest.mark.parametrize("similarity", [math.nan, math.inf])
def test_a_similarity_that_is_no_number_is_never_kept(kept: SemanticObservations, similarity: float) -> None:
    with pytest.raises(ValueError, match="finite"):
        kept.add(SCOPE, 0, 7, similarity, True, {})


def test_what_was_acknowledged_is_never_lost_and_no_worker_overwrites_another(open_store: Opening) -> None:
    stores = open_store(), open_store()
    waiting = [
        stores[n % 2].answers.observations.add_counts(SCOPE, 0, {("reused", 0): 1}) for n in range(100)
    ]
    for each in waiting:
        each.result(30)
    stores[0].close()
    for store in (stores[1], open_store()):
        assert store.answers.observations.counts(SCOPE) == {0: {("reused", 0): 100}}
