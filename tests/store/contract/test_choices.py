from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from store import Store
from store.decisions.choices import Choices
from store.examples.vectors import BadVector
from store.records import ChoiceRecord
from tests.store.rows import choice_record, outcome_record


@pytest.fixture
def choices(store: Store) -> Choices:
    return store.decisions.choices


def same(one: ChoiceRecord | None, other: ChoiceRecord) -> bool:
    """Equal in every field; a vector to what 16 bits can hold."""
    if one is None:
        return False
    vectors = {"vector": 1e-3, "candidate_features": 0.0}
    for field in dataclasses.fields(ChoiceRecord):
        a, b = getattr(one, field.name), getattr(other, field.name)
        if field.name in vectors and a is not None and b is not None:
            if (
                a.shape != b.shape
                or a.dtype != np.float32
                or not np.allclose(a, b, atol=vectors[field.name], rtol=0)
            ):
                return False
        elif a != b or type(a) is not type(b):
            return False
    return True


def test_a_choice_comes_back_as_it_was_recorded(choices: Choices) -> None:
    for record in (
        choice_record(1),
        choice_record(2, vector=None, candidate_features=None, candidates=(), first_chunk_ms=None),
        choice_record(3, actions=(), chosen=-1, context={}, contributor="", completion_id=""),
    ):
        choices.record(record).result(30)
        assert same(choices.get("a1", record.request_id), record)
    assert choices.get("a1", "req-9") is None


finite = st.floats(allow_nan=False, allow_infinity=False)


@pytest.mark.slow
@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(
    probability=st.floats(0, 1),
    context=st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), finite),
    numbers=st.lists(finite, max_size=4),
    shape=st.tuples(st.integers(0, 5), st.integers(1, 4)),
)
def test_no_number_is_ever_rounded_on_its_way(
    choices: Choices,
    probability: float,
    context: dict[str, float],
    numbers: list[float],
    shape: tuple[int, int],
) -> None:
    features = np.linspace(-1, 1, math.prod(shape), dtype=np.float32).reshape(shape)
    record = choice_record(
        1,
        request_id=str(choices.count("a1", "gpt-4o")),
        probability=probability,
        context=context,
        actions=({"features": {"x": n}, "reward": n} for n in numbers),
        candidates=tuple({"id": n} for n in range(shape[0])),
        candidate_features=features,
    )
    record = dataclasses.replace(record, actions=tuple(record.actions))
    choices.record(record).result(30)
    assert same(choices.get("a1", record.request_id), record)


def test_a_request_is_never_two_choices(choices: Choices) -> None:
    choices.record(choice_record(1)).result(30)
    choices.record(choice_record(1, engine="large")).result(30)
    assert [c.engine for _, c in choices.after(0)] == ["small"]


def test_nobody_reads_another_tenants_choice(choices: Choices) -> None:
    choices.record(choice_record(1)).result(30)
    choices.record(choice_record(1, tenant="b2", engine="large")).result(30)
    assert choices.get("c3", "req-1") is None and choices.by_completion("c3", "chatcmpl-1") is None
    for tenant, engine in (("a1", "small"), ("b2", "large")):
        for found in (choices.get(tenant, "req-1"), choices.by_completion(tenant, "chatcmpl-1")):
            assert found is not None and found.engine == engine
    assert [c.tenant for _, c in choices.after(0, tenant="b2")] == ["b2"]


def test_an_id_that_an_engine_gave_twice_means_the_later_answer_and_an_empty_one_means_none(
    choices: Choices,
) -> None:
    for number in (1, 2):
        choices.record(choice_record(number, completion_id="same")).result(30)
    choices.record(choice_record(3, completion_id="")).result(30)
    found = choices.by_completion("a1", "same")
    assert found is not None and found.request_id == "req-2"
    assert choices.by_completion("a1", "") is None


def test_reading_on_meets_every_choice_once_in_order(choices: Choices) -> None:
    for number in range(7):
        choices.record(choice_record(number, model="m2" if number == 3 else "gpt-4o")).result(30)
    met: list[str] = []
    at = 0
    while page := choices.after(at, 2, tenant="a1", model="gpt-4o"):
        met += [choice.request_id for _, choice in page]
        at = page[-1][0]
    assert met == [f"req-{n}" for n in (0, 1, 2, 4, 5, 6)]
    assert choices.slots() == [("a1", "gpt-4o"), ("a1", "m2")]
    assert (choices.count("a1", "gpt-4o"), choices.count("a1", "m2"), choices.count("b2", "m2")) == (6, 1, 0)


@pytest.mark.parametrize(
    "changes",
    [
        {"context": {"length": math.nan}},
        {"actions": ({"reward": math.inf},)},
        {"actions": ({"reward": np.float32("nan")},)},
        {"quality_with": math.nan},
        {"probability": 1.5},
        {"probability": math.nan},
        {"candidate_features": np.zeros((3, 4), np.float32)},
        {"candidate_features": np.full((20, 4), np.nan, np.float32)},
    ],
)
def test_what_no_learner_could_use_is_refused_at_once(choices: Choices, changes: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="right"):
        choices.record(choice_record(1, **changes))


def test_a_vector_that_points_nowhere_is_refused(choices: Choices) -> None:
    with pytest.raises(BadVector):
        choices.record(choice_record(1, vector=np.zeros(8, np.float32)))


def test_trimming_takes_the_old_with_their_outcomes_and_leaves_the_rest(
    choices: Choices, store: Store
) -> None:
    outcomes = store.outcomes
    for number in range(10):
        choices.record(choice_record(number)).result(30)
        outcomes.note(outcome_record(number)).result(30)
    assert choices.trim(1006.0, limit=4).result(30) == 4
    assert choices.trim(1006.0, limit=4).result(30) == 2
    left = ["req-6", "req-7", "req-8", "req-9"]
    assert [choice.request_id for _, choice in choices.after(0)] == left
    assert [outcome.request_id for outcome in outcomes.after(0)] == left


def test_forgetting_takes_one_contributor_or_tenant_and_no_other(choices: Choices, store: Store) -> None:
    outcomes = store.outcomes
    whose = [("a1", "ann"), ("a1", "bob"), ("b2", "ann"), ("a1", "")]
    for number, (tenant, name) in enumerate(whose):
        choices.record(choice_record(number, tenant=tenant, contributor=name)).result(30)
        outcomes.note(outcome_record(number, tenant=tenant)).result(30)
    assert choices.forget_contributor("a1", "ann").result(30) == 1
    assert [c.request_id for _, c in choices.after(0)] == ["req-1", "req-2", "req-3"]
    with pytest.raises(ValueError, match="nobody"):
        choices.forget_contributor("a1", "")
    assert choices.forget_tenant("a1").result(30) == 2
    assert [c.request_id for _, c in choices.after(0)] == ["req-2"]
    assert [o.request_id for o in outcomes.after(0)] == ["req-2"]
