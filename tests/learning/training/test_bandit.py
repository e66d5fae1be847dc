"""A new bandit is published only if later outcomes do not speak against it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from learning.training.bandit import NothingToLearn, Row, TrainingKnobs, enough, rows_from_log, train
from router.choosing import features
from router.choosing.bandit import Lesson
from router.choosing.bandit_vw import BanditSettings, VowpalBandit
from store.records import ChoiceRecord, OutcomeRecord
from tests.router.choosing.routing_scenes import DIMENSIONS, context, lessons, options, scene

SETTINGS = BanditSettings(dimensions=DIMENSIONS, embedding_version="test")
KNOBS = TrainingKnobs(half_life_s=300.0)


def rows(seed: int, count: int, *, swapped: bool = False, from_s: float = 0.0) -> list[Row]:
    return [Row(each, from_s + i) for i, each in enumerate(lessons(seed, count, swapped=swapped))]


def advantage(data: bytes, topic: int) -> float:
    small, large = VowpalBandit.load(data).estimate(scene(np.random.default_rng(9), topic)).qualities
    return large - small


def test_the_first_is_accepted_and_knows_its_lessons() -> None:
    trained = train(rows(1, 400), settings=SETTINGS, knobs=KNOBS)
    assert trained.accepted
    assert advantage(trained.data, 1) > 0.5 > abs(advantage(trained.data, 0))
    assert trained.metrics["rows"] == 400
    compared = trained.metrics["comparison"]
    assert compared["built_in_before"] and compared["change"]["high"] < 0, (
        "it knows more than what is built in"
    )


def test_one_trained_on_nonsense_does_not_replace_a_good_one() -> None:
    good = train(rows(1, 600), settings=SETTINGS, knobs=KNOBS).data
    nonsense = rows(2, 240, swapped=True, from_s=600)
    true = rows(3, 60, from_s=840)
    trained = train(nonsense + true, settings=SETTINGS, incumbent=good, knobs=KNOBS)
    assert not trained.accepted


def test_after_a_change_of_places_the_successor_follows() -> None:
    old = train(rows(1, 400), settings=SETTINGS, knobs=KNOBS).data
    news = rows(1, 400) + rows(2, 400, swapped=True, from_s=400)
    trained = train(news, settings=SETTINGS, incumbent=old, knobs=KNOBS)
    assert trained.accepted
    assert advantage(trained.data, 1) < 0.0
    compared = trained.metrics["comparison"]
    assert not compared["built_in_before"]
    assert compared["after"]["mean"] == pytest.approx(trained.metrics["squared_error"], abs=1e-5)
    assert compared["before"]["mean"] == pytest.approx(trained.metrics["incumbent_squared_error"], abs=1e-5)


def test_the_part_that_predicts_outcomes_not_learnt_from_better_gets_the_larger_share() -> None:
    # Where engines are good on one side of a plane each, a linear model is right everywhere; neighbours are few and far.
    rng, found = np.random.default_rng(0), []
    for at in range(600):
        asked = scene(rng, 0)
        vector = rng.normal(size=DIMENSIONS).astype(np.float32)
        vector /= np.linalg.norm(vector)
        quality = float(np.clip(0.5 + 2 * vector[0], 0, 1))
        found.append(Row(Lesson(replace(asked, vector=vector), {0: quality, 1: 1.0}), float(at)))
    linear = VowpalBandit.load(train(found, settings=SETTINGS, knobs=KNOBS).data)
    assert linear.shares["small"].near < linear.shares["small"].linear


def test_parts_that_tell_nothing_move_no_estimate_from_the_mean() -> None:
    rng, found = np.random.default_rng(0), []
    for at in range(400):
        quality = float(rng.random() < 0.5)
        found.append(Row(Lesson(scene(rng, at % 4), {0: quality, 1: 1.0}), float(at)))
    bandit = VowpalBandit.load(train(found, settings=SETTINGS, knobs=KNOBS).data)
    expected = [bandit.estimate(scene(rng, at % 4)).qualities[0] for at in range(100)]
    assert np.std(expected) < 0.05 and bandit.shares["small"].apart < 0.05


def test_clear_outcomes_are_enough_evidence_long_before_mixed_ones() -> None:
    def judged(good: int, lost: int, engine: int = 0) -> list[Row]:
        asked = scene(np.random.default_rng(0), 0)
        return [Row(Lesson(asked, {engine: float(n < good)}), 0.0) for n in range(good + lost)]

    assert enough(judged(0, 124), 200)
    assert enough(judged(124, 0), 200)
    assert not enough(judged(62, 62), 200)
    assert not enough(judged(0, 20), 200)
    assert not enough(judged(124, 0, engine=1), 200), "the reference is what others are compared with"
    assert enough(judged(100, 100), 200)


def test_an_incumbent_of_another_embedder_or_learner_or_a_broken_one_counts_as_none() -> None:
    old = train(rows(1, 200), settings=SETTINGS, knobs=KNOBS).data
    other = BanditSettings(dimensions=DIMENSIONS, embedding_version="another")
    name = SETTINGS.learner.encode()
    unknown = old.replace(name, b"x" * len(name))
    for incumbent, settings in ((old, other), (unknown, SETTINGS), (old[:-5], SETTINGS)):
        trained = train(rows(1, 200), settings=settings, incumbent=incumbent, knobs=KNOBS)
        assert trained.accepted
        assert trained.reason == "first of its kind"


def test_too_few_rows_never_replace_what_works() -> None:
    old = train(rows(1, 200), settings=SETTINGS, knobs=KNOBS).data
    trained = train(rows(2, 40, from_s=300), settings=SETTINGS, incumbent=old, knobs=KNOBS)
    assert not trained.accepted
    with pytest.raises(NothingToLearn):
        train([], settings=SETTINGS, knobs=KNOBS)


def record(**changes: Any) -> ChoiceRecord:
    actions = tuple(
        {"engine": o.engine, "with_examples": o.with_examples, "features": o.features}
        for o in options("small", "large")
    )
    fields: dict[str, Any] = {
        "request_id": "r",
        "tenant": "t",
        "contributor": "",
        "at_s": 5.0,
        "model": "m",
        "completion_id": "",
        "engine": "small",
        "example_ids": (),
        "policy": "in_context",
        "policy_version": "1",
        "probability": 0.25,
        "vector": np.ones(DIMENSIONS, np.float32),
        "embedding_version": "test",
        "context": context(),
        "features_version": features.VERSION,
        "actions": actions,
        "chosen": 0,
        "chosen_without_load": 0,
        "explored": False,
        "floored": False,
        "scorer": "",
        "scorer_features_version": "",
        "candidates": (),
        "candidate_features": None,
        "quality_alone": 0.5,
        "quality_with": 0.5,
        "most_examples": 0,
        "examples_explored": "",
        "examples_probability": 1.0,
        "cost_usd": 0.0,
        "total_ms": 1.0,
        "first_chunk_ms": None,
    }
    return ChoiceRecord(**{**fields, **changes})


def outcome(engine: str, quality: float, *, served: bool = True) -> OutcomeRecord:
    return OutcomeRecord("r", "t", 9.0, "judge", engine + str(quality), engine, (), served, quality)


def test_the_logged_probability_goes_with_a_single_outcome() -> None:
    row = rows_from_log(record(), [outcome("small", 0.5), outcome("small", 1.0)])
    assert row is not None
    assert row.lesson.qualities == {0: 0.75}
    assert row.lesson.probability == 0.25
    assert row.at_s == 9.0


def test_a_comparison_teaches_both_actions_in_full() -> None:
    row = rows_from_log(record(), [outcome("small", 0.5), outcome("large", 1.0, served=False)])
    assert row is not None
    assert row.lesson.qualities == {0: 0.5, 1: 1.0}
    assert row.lesson.probability == 1.0


def test_what_says_nothing_about_an_action_teaches_nothing() -> None:
    assert rows_from_log(record(), []) is None
    assert rows_from_log(record(), [outcome("large", 1.0)]) is None, "a stand-in answered"
    assert rows_from_log(record(chosen=-1), [outcome("elsewhere", 1.0)]) is None
    assert rows_from_log(record(features_version="old"), [outcome("small", 1.0)]) is None
    assert rows_from_log(record(context={"words": float("nan")}), [outcome("small", 1.0)]) is None
