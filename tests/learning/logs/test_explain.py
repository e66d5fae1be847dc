"""Reasons of the request log by scope: pooled, sorted, and corrected by what outcomes say."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from learning.logs.explain import explained, label
from learning.outcomes.account import REFUSED
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
        choice = choice_record(
            number,
            request_id=row.id,
            tenant="a1",
            model="m",
            actions=actions,
            scope=scope,
            noted={"small/without": 0.5, "small/with": 0.5},
        )
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
    note(store, 2, outcome="hit", engine="", reason="cache_hit")
    told = explained(store, limit=9, references={"m": "large"})
    assert (told["offloaded"], told["hits"]) == (1, 1)
    assert all(scope["reasons"] == [] for scope in told["scopes"])


def compared(store: Store, number: int, quality: float, reason: str = "shadow", at_s: float = 1.0) -> None:
    """A request in shadow, and what comparing it came to."""
    id = note(store, number, scope="s", reason=reason, started_at_s=at_s)
    outcome = OutcomeRecord(id, "a1", at_s, "judge", "judge/small/without", "small", (), False, quality)
    store.outcomes.note(outcome).result(60)


def test_a_shadow_whose_comparisons_all_failed_is_not_good_enough(store: Store) -> None:
    for number in range(60):
        compared(store, number, 0.0)
    [scope] = explained(store, limit=99)["scopes"]
    assert scope["reasons"][0]["reason"] == "not_good_enough" and scope["expected_more"] is None


def test_a_shadow_without_comparisons_whose_judge_was_refused_says_so(store: Store) -> None:
    note(store, 1, scope="s", reason="shadow")
    assert explained(store, limit=9)["scopes"][0]["reasons"][0]["reason"] == "shadow"
    store.decisions.spending.settle("a1", REFUSED, 0.0, 1.0, time.time()).result(60)
    assert explained(store, limit=9)["scopes"][0]["reasons"][0]["reason"] == "no_judge"
    compared(store, 2, 1.0)
    assert explained(store, limit=9)["scopes"][0]["reasons"][0]["reason"] == "shadow"


def test_a_shadow_that_may_still_open_says_how_many_comparisons_it_expects(store: Store) -> None:
    for number in range(5):
        compared(store, number, 1.0)
    [scope] = explained(store, limit=99)["scopes"]
    assert scope["reasons"][0]["reason"] == "shadow" and scope["expected_more"] > 0
    standing = next(each for each in scope["standings"] if not each["few_shot"])
    assert standing["compared"] == 5 and not standing["open"] and standing["low"] < 0.95


@pytest.mark.slow
def test_a_proven_engine_is_said_to_be_allowed_to_answer(store: Store) -> None:
    for number in range(400):
        compared(store, number, 1.0)
    [scope] = explained(store, limit=999)["scopes"]
    assert any(each["open"] and each["low"] > 0.95 for each in scope["standings"])


def test_a_proven_engine_whose_latest_answers_differ_is_said_to_be_in_doubt(store: Store) -> None:
    for number in range(100):
        compared(store, number, 1.0, at_s=1_000.0 + number)
    [scope] = explained(store, limit=999)["scopes"]
    [standing] = scope["standings"]
    assert standing["open"] and standing["in_doubt"] is None and standing["state"] == "proven"
    for number in range(100, 103):
        compared(store, number, 0.0, at_s=86_400.0 + 60 * number)
    for number in range(103, 106):
        note(store, number, scope="s", reason="shadow", started_at_s=100_000.0 + number)
    [scope] = explained(store, limit=999)["scopes"]
    [standing] = scope["standings"]
    assert standing["open"] and standing["in_doubt"] == "agreement"
    assert standing["in_doubt_since_at_s"] == 92_520.0, "noted with the third bad one"
    assert standing["state"] == (
        "in doubt since 1970-01-02 01:42 UTC: its answers agree less with the reference's than they did"
    )
    asked = {each["reason"]: each["requests"] for each in scope["reasons"]}
    assert asked == {"shadow": 103, "in_doubt": 3}, "those from before were being compared"


def test_comparisons_that_were_held_back_for_their_cost_are_named_as_they_were_decided(store: Store) -> None:
    for number in range(5):
        compared(store, number, 1.0, reason="proof_too_dear" if number else "shadow")
    [scope] = explained(store, limit=99)["scopes"]
    assert [(each["reason"], each["requests"]) for each in scope["reasons"]] == [
        ("proof_too_dear", 4),
        ("shadow", 1),
    ]
