"""From the log to training rows: what was computed when the request was served, and nothing that is gone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest

from learning.training.scorer.rows import SMALLEST_PROBABILITY, Row, rows_from_log
from router.examples.features import NAMES, VERSION, Features
from store.records import ChoiceRecord, OutcomeRecord
from tests.router.examples.scoring import candidates, rarity, request, unit

KNOWN = {1: "Yes", 2: " yes ", 3: "no"}


def answers_of(ids: Sequence[int]) -> Mapping[int, str]:
    return {id: KNOWN[id] for id in ids if id in KNOWN}


def scalars(count: int) -> np.ndarray:
    return np.arange(count * len(NAMES), dtype=np.float32).reshape(count, len(NAMES))


def choice(request_id: str = "r1", **changes: Any) -> ChoiceRecord:
    fields: dict[str, Any] = {
        "request_id": request_id,
        "tenant": "t",
        "contributor": "",
        "at_s": 100.0,
        "model": "m",
        "completion_id": "",
        "engine": "small",
        "example_ids": (1, 2),
        "policy": "in_context",
        "policy_version": "1",
        "probability": 0.9,
        "vector": unit(1),
        "embedding_version": "mini@1",
        "context": {},
        "features_version": "1",
        "actions": ({"engine": "small", "with_examples": True}, {"engine": "large", "with_examples": False}),
        "chosen": 0,
        "chosen_without_load": 0,
        "explored": False,
        "floored": False,
        "scorer": "prior",
        "scorer_features_version": VERSION,
        "candidates": tuple(
            {"id": id, "similarity": 0.9, "gain": 0.1, "sent": id < 3} for id in (1, 2, 3, 9)
        ),
        "candidate_features": scalars(4),
        "quality_alone": 0.3,
        "quality_with": 0.7,
        "most_examples": 3,
        "examples_explored": "",
        "examples_probability": 1.0,
        "cost_usd": 0.0,
        "total_ms": 1.0,
        "first_chunk_ms": None,
    }
    return ChoiceRecord(**(fields | changes))


def outcome(ids: tuple[int, ...] = (1, 2), quality: float = 1.0, **changes: Any) -> OutcomeRecord:
    fields: dict[str, Any] = {
        "request_id": "r1",
        "tenant": "t",
        "at_s": 200.0,
        "source": "judge",
        "key": "k",
        "engine": "small",
        "example_ids": ids,
        "served": True,
        "quality": quality,
    }
    return OutcomeRecord(**(fields | changes))


def rows(choice_: ChoiceRecord, *outcomes: OutcomeRecord, **options: Any) -> list[Row]:
    return rows_from_log([(choice_, outcomes)], answers_of, **options)


def test_an_outcome_becomes_a_row_of_all_candidates_and_those_that_were_sent() -> None:
    (row,) = rows(choice(), outcome((3, 1), 0.5, probability=0.25))
    assert (row.request_id, row.at_s, row.quality, row.weight) == ("r1", 100.0, 0.5, 4.0)
    assert row.sent == (2, 0) and np.array_equal(row.features, scalars(4))
    assert row.answers[0] == row.answers[1] == "yes" != row.answers[2]


def test_an_answer_that_is_gone_is_like_no_other() -> None:
    (row,) = rows(choice(), outcome((9,)))
    assert len(set(row.answers)) == 3


@pytest.mark.parametrize("logged", [{}, {"candidates": (), "candidate_features": None}])
def test_the_counterfactual_without_examples_is_a_row_of_none_sent(logged: dict[str, Any]) -> None:
    (row,) = rows(choice(**logged), outcome((), 0.0))
    assert row.sent == () and row.features.shape[1] == len(NAMES)


def test_what_cannot_be_learnt_from_is_left_out() -> None:
    assert not rows(choice(), outcome((1, 7)))  # never scored
    assert not rows(choice(), outcome((), engine="large"))  # the reference itself
    assert not rows(choice(vector=None), outcome())
    assert not rows(choice(scorer_features_version="0"), outcome())
    assert not rows(choice(candidate_features=np.zeros((4, 2), np.float32)), outcome())
    assert not rows(choice(), outcome(), embedding_version="mini@2")
    assert len(rows(choice(), outcome(), embedding_version="mini@1")) == 1


def test_of_two_outcomes_for_one_answer_the_later_counts() -> None:
    (row,) = rows(choice(), outcome(quality=1.0, at_s=300.0), outcome(quality=0.0, at_s=200.0))
    assert row.quality == 1.0


def test_a_rarely_sampled_outcome_weighs_more_but_never_without_bound() -> None:
    (row,) = rows(choice(), outcome(probability=1e-6))
    assert row.weight == 1 / SMALLEST_PROBABILITY


def test_rows_come_in_the_order_of_their_requests() -> None:
    log = [(choice("late", at_s=2.0), [outcome()]), (choice("early", at_s=1.0), [outcome()])]
    assert [row.request_id for row in rows_from_log(log, answers_of)] == ["early", "late"]


def test_training_sees_the_features_that_serving_computed() -> None:
    asked, near = request(), candidates()
    served = Features(rarity()).rows(asked, near, 5000.0)
    ids = tuple(c.example.id for c in near)
    logged = choice(
        vector=asked.vector,
        candidates=tuple({"id": id, "similarity": 0.5, "gain": 0.1, "sent": True} for id in ids),
        candidate_features=served,
    )
    (row,) = rows_from_log([(logged, [outcome(ids[::-1])])], answers_of)
    assert np.array_equal(row.features, served)
    assert np.array_equal(row.features, Features(rarity(), cache_entries=1).rows(asked, near, 5000.0))
