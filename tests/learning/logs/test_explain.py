"""Reasons of the request log by scope: pooled, sorted, and corrected by what outcomes say."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from learning.logs.explain import explained, label
from store import Store
from store.records import NewExample, OutcomeRecord
from tests.store.rows import choice_record, request_record


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    opened = Store.open(tmp_path)
    yield opened
    opened.close()


def note(store: Store, number: int, *, scope: str = "", **changes: Any) -> str:
    """A request that the reference answered, unless it is said otherwise, and the example that it became."""
    fields = {"tenant": "a1", "model": "m", "engine": "large", "outcome": "answered", "reason": "novel"}
    row = request_record(number, **({"example_ids": (), "reference_cost_usd": 1.0} | fields | changes))
    store.decisions.requests.record(row).result(60)
    if scope:
        actions = tuple(
            {"engine": engine, "with_examples": given}
            for engine, given in (("small", False), ("small", True), ("large", False))
        )
        choice = choice_record(number, request_id=row.id, tenant="a1", model="m", actions=actions)
        store.decisions.choices.record(choice).result(60)
        store.examples.add(
            NewExample(
                "a1",
                scope,
                f"q{number}",
                "a",
                "q",
                None,
                "",
                "large",
                row.id,
                instructions='[["Label it."],null]',
            )
        ).result(60)
    return row.id


def test_scopes_are_sorted_by_what_their_requests_cost(store: Store) -> None:
    note(store, 1, scope="cheap", reference_cost_usd=0.1)
    note(store, 2, scope="dear", reference_cost_usd=5.0)
    told = explained(store, limit=100)
    assert [scope["scope"] for scope in told["scopes"]] == ["dear", "cheap"]
    assert told["scopes"][0]["cost_share"] == pytest.approx(5.0 / 5.1)
    assert label(store, "a1", "dear") == "Label it."


def test_many_scopes_of_one_request_each_are_one_line(store: Store) -> None:
    for number in range(12):
        note(store, number, scope=f"scope{number}")
    [only] = explained(store, limit=100)["scopes"]
    assert (only["scopes"], only["reasons"][0]["reason"], only["reasons"][0]["requests"]) == (
        12,
        "scope_changes",
        12,
    )


def test_a_stand_in_is_no_decision_for_the_reference(store: Store) -> None:
    note(store, 1, reason="familiar+failover")
    assert explained(store, limit=9)["scopes"][0]["reasons"][0]["reason"] == "small_failed"


def test_offloaded_requests_and_hits_need_no_reason(store: Store) -> None:
    note(store, 1, engine="small", reason="familiar", example_ids=(1,))
    note(store, 2, outcome="hit", engine="", reason="exact_repeat")
    told = explained(store, limit=9, references={"m": "large"})
    assert (told["offloaded"], told["hits"]) == (1, 1)
    assert all(scope["reasons"] == [] for scope in told["scopes"])


def test_a_shadow_whose_comparisons_all_failed_is_not_good_enough(store: Store) -> None:
    for number in range(30):
        id = note(store, number, scope="s", reason="shadow")
        outcome = OutcomeRecord(id, "a1", 1.0, "judge", "judge/small/without", "small", (), False, 0.0)
        store.outcomes.note(outcome).result(60)
    [scope] = explained(store, limit=99)["scopes"]
    assert scope["reasons"][0]["reason"] == "not_good_enough"
    assert scope["standings"] == [
        {
            "engine": "small",
            "with_examples": False,
            "compared": 30,
            "quality": 0.0,
            "low": 0.0,
            "high": scope["standings"][0]["high"],
        }
    ]
    assert scope["standings"][0]["high"] < 0.3


def test_a_shadow_that_may_still_open_is_under_way(store: Store) -> None:
    id = note(store, 1, scope="s", reason="shadow")
    outcome = OutcomeRecord(id, "a1", 1.0, "judge", "judge/small/without", "small", (), False, 1.0)
    store.outcomes.note(replace(outcome, request_id=id)).result(60)
    assert explained(store, limit=9)["scopes"][0]["reasons"][0]["reason"] == "shadow"
