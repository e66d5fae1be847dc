"""The benchmark of the teacher: texts are those of the examples that were sent, and its control is never wrong."""

from __future__ import annotations

import numpy as np
import pytest
from engines.simulated_world import World
from router.scorer_features import Features
from tests.router.scoring import rarity

from benchmarks.helpfulness import SEED, WARM_UP, collected
from benchmarks.helpfulness_teacher import Truth, candidates, costs, with_texts
from benchmarks.helpfulness_world import SECONDS_APART, Bank, Played, expected_quality, is_remembered, play
from router.learning.cross_encoder_texts import UNKNOWN_QUALITY, shown
from tests.benchmarks.test_helpfulness import bag_of_words


@pytest.fixture(scope="module")
def played() -> Played:
    return play(World(7, 300), 400, 7, bag_of_words, answers=True)


@pytest.fixture(scope="module")
def features() -> Features:
    return Features(rarity())


def test_rows_have_the_texts_of_their_request_and_of_their_own_examples(
    played: Played, features: Features
) -> None:
    rows = collected(played, 400, features, SEED)
    texts = with_texts(played, rows)
    assert [one.row for one in texts] == rows
    assert {len(one.examples) for one in texts} >= {0, 1, 5}
    for one in texts:
        assert one.request == played.texts[int(one.row.request_id)]
        for vector, text in zip(one.row.questions, one.examples, strict=True):
            question, _ = text.split("\n", 1)
            assert any(text.startswith(f"{q}\n") for q in played.texts)
            if question in played.texts:
                assert np.array_equal(bag_of_words(question), vector)


def test_candidates_are_of_requests_before_the_boundary_only(played: Played, features: Features) -> None:
    before_s = SECONDS_APART * 350
    asked = candidates(played, before_s, features, SEED)
    assert asked
    for one in asked:
        assert WARM_UP * SECONDS_APART <= one.row.at_s < before_s
        assert one.row.quality == UNKNOWN_QUALITY
        assert len(one.examples) == len(one.row.scalars) > 0


def test_the_control_says_the_true_expected_quality(played: Played) -> None:
    truth, bank = Truth(played), Bank(played)
    for i in range(350):
        if is_remembered(i, SEED):
            bank.add(i)
    unique = [i for i in range(350, 400) if played.texts.count(played.texts[i]) == 1]
    for i in unique[:20]:
        near, ask = bank.near(i, 5), played.asks[i]
        alone, with_one = truth.qualities(
            played.texts[i], [shown(c.example.question, c.example.answer) for c in near]
        )
        assert alone == expected_quality(played.world, ask, [])
        assert with_one.tolist() == [expected_quality(played.world, ask, [c]) for c in near]


def test_costs_are_a_line_each() -> None:
    assert costs({"fast": 0.123, "slow": 45.6}).splitlines()[-2:] == ["| fast | 0.12 |", "| slow | 45.60 |"]
