from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest

from store import Store
from store.decisions.outcomes import Outcomes
from tests.store.rows import choice_record, outcome_record


@pytest.fixture
def outcomes(store: Store) -> Outcomes:
    return store.outcomes


def test_an_outcome_comes_back_as_it_was_noted_and_with_its_place(outcomes: Outcomes) -> None:
    for number, changes in enumerate(
        ({}, {"latency_s": None, "served": False, "example_ids": (), "source": "judge"})
    ):
        given = outcome_record(number, **changes)
        noted = outcomes.note(given).result(30)
        assert noted == replace(given, id=noted.id) and noted.id == outcomes.last_id() > 0
        assert outcomes.of("a1", given.request_id) == [noted]


def test_the_same_outcome_again_gives_the_first_and_adds_nothing(outcomes: Outcomes) -> None:
    first = outcomes.note(outcome_record(1, quality=1.0)).result(30)
    assert outcomes.note(outcome_record(1, quality=0.0, at_s=9e9)).result(30) == first
    assert outcomes.note_many([outcome_record(1, quality=0.0)] * 2).result(30) == [first, first]
    another_key = outcomes.note(outcome_record(1, key="thumb")).result(30)
    another_tenants = outcomes.note(outcome_record(1, tenant="b2")).result(30)
    assert len({first.id, another_key.id, another_tenants.id}) == 3
    assert outcomes.of("a1", "req-1") == [first, another_key]


def test_of_many_all_are_noted_or_none(outcomes: Outcomes) -> None:
    with pytest.raises(ValueError, match="quality"):
        outcomes.note_many([outcome_record(1), outcome_record(2, quality=2.0)])
    assert outcomes.after(0) == []


@pytest.mark.parametrize(
    "changes",
    [
        {"quality": 1.01},
        {"quality": math.nan},
        {"probability": 0.0},
        {"probability": math.nan},
        {"cost_usd": math.inf},
        {"latency_s": -1.0},
        {"detail": "[]"},
    ],
)
def test_what_cannot_be_an_outcome_is_refused_at_once(outcomes: Outcomes, changes: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"must|right"):
        outcomes.note(outcome_record(1, **changes))


def test_the_log_is_read_in_order_by_tenant_and_model(outcomes: Outcomes, store: Store) -> None:
    choices = store.decisions.choices
    for number in range(6):
        tenant, model = ("b2" if number == 2 else "a1"), ("m2" if number == 4 else "gpt-4o")
        choices.record(choice_record(number, tenant=tenant, model=model)).result(30)
        outcomes.note(outcome_record(number, tenant=tenant)).result(30)
    assert [o.request_id for o in outcomes.after(0, tenant="a1", model="gpt-4o")] == [
        "req-0",
        "req-1",
        "req-3",
        "req-5",
    ]
    _, second = outcomes.after(0, 2)
    assert [o.request_id for o in outcomes.after(second.id, 2)] == ["req-2", "req-3"]
    assert outcomes.counts() == {
        ("a1", "gpt-4o", "user"): 4,
        ("a1", "m2", "user"): 1,
        ("b2", "gpt-4o", "user"): 1,
    }
    assert outcomes.counts("b2") == {("b2", "gpt-4o", "user"): 1}


def test_feedback_that_overtakes_its_choice_is_joined_to_it_all_the_same(
    outcomes: Outcomes, store: Store
) -> None:
    noted = [outcomes.note(outcome_record(1, key=key)).result(30) for key in ("first", "second")]
    assert outcomes.counts() == {("a1", "", "user"): 2}
    last = outcomes.last_id()
    store.decisions.choices.record(choice_record(1)).result(30)
    assert outcomes.counts() == {("a1", "gpt-4o", "user"): 2}
    (experience,) = outcomes.experiences("a1", "gpt-4o")
    assert [replace(outcome, id=0) for outcome in experience.outcomes] == [replace(o, id=0) for o in noted]
    # Who reads by model has passed their old places.
    assert outcomes.after(last, model="gpt-4o") == list(experience.outcomes)


def test_an_experience_is_a_choice_with_all_its_outcomes_and_nobody_elses(
    outcomes: Outcomes, store: Store
) -> None:
    choices = store.decisions.choices
    for number in range(5):
        choices.record(choice_record(number)).result(30)
    choices.record(choice_record(3, tenant="b2")).result(30)
    for number, key in ((3, "judge"), (1, "score"), (3, "thumb"), (99, "score")):
        outcomes.note(outcome_record(number, key=key)).result(30)
    outcomes.note(outcome_record(3, tenant="b2", key="theirs")).result(30)

    found = outcomes.experiences("a1", "gpt-4o")
    assert [(e.choice.request_id, [o.key for o in e.outcomes]) for e in found] == [
        ("req-1", ["score"]),
        ("req-3", ["judge", "thumb"]),
    ]
    assert [e.row_id for e in outcomes.experiences("a1")] == [e.row_id for e in found]
    assert outcomes.experiences("a1", "other") == []
    assert [e.row_id for e in outcomes.experiences("a1", after_id=found[0].row_id)] == [found[1].row_id]
    assert [e.row_id for e in outcomes.experiences("a1", limit=1)] == [found[0].row_id]
    assert [e.row_id for e in outcomes.experiences("a1", limit=1, latest=True)] == [found[1].row_id]
    assert [e.row_id for e in outcomes.experiences("a1", latest=True)] == [e.row_id for e in found]
    assert [e.choice.request_id for e in outcomes.experiences("a1", since_s=1002.0)] == ["req-3"]
    everything = outcomes.experiences("a1", judged_only=False)
    assert [len(e.outcomes) for e in everything] == [0, 1, 0, 2, 0]


def test_an_id_is_never_given_out_twice_even_after_everything_is_forgotten(outcomes: Outcomes) -> None:
    assert outcomes.last_id() == 0
    last = outcomes.note(outcome_record(1)).result(30).id
    assert outcomes.forget_tenant("a1").result(30) == 1
    assert outcomes.last_id() == last and outcomes.after(0) == []
    assert outcomes.note(outcome_record(1)).result(30).id > last


def test_trimming_and_forgetting_take_no_more_than_they_should(outcomes: Outcomes, store: Store) -> None:
    for number, name in enumerate(("ann", "bob", "ann", "bob")):
        store.decisions.choices.record(choice_record(number, contributor=name)).result(30)
        outcomes.note(outcome_record(number)).result(30)
    assert outcomes.trim(2001.0).result(30) == 1
    assert outcomes.forget_contributor("a1", "ann").result(30) == 1
    assert [o.request_id for o in outcomes.after(0)] == ["req-1", "req-3"]
    with pytest.raises(ValueError, match="nobody"):
        outcomes.forget_contributor("a1", "")


def test_served_answers_that_people_rated_and_a_judge_compared_are_found_with_both(
    outcomes: Outcomes, store: Store
) -> None:
    for number in range(3):
        store.decisions.choices.record(choice_record(number, model="m")).result(30)
    judged = {"source": "judge", "key": "judge", "detail": '{"length": 0.5}'}
    outcomes.note_many(
        [
            outcome_record(0, quality=0.25),
            outcome_record(0, quality=1.0, **judged),
            outcome_record(1, quality=0.5),
            outcome_record(1, quality=0.5, **(judged | {"served": False})),
            outcome_record(2, **judged),
        ]
    ).result(30)
    assert outcomes.judged_and_rated("a1", "m") == [('{"length": 0.5}', 1.0, 0.25)]
    assert outcomes.judged_and_rated("b2", "m") == outcomes.judged_and_rated("a1", "n") == []
