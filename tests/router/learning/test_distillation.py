"""A teacher's opinions become ordinary rows of one example or none, and nothing that was observed leaks into them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from learning.training.scorer.rows import Row
from learning.training.scorer.training import predictions, trained
from router.examples.features import NAMES, PLACE
from router.examples.prior import prior_model
from router.learning.cross_encoder_texts import TextRow
from router.learning.distillation import soft_rows
from tests.learning.training.scorer.scorer_world import outcomes
from tests.router.examples.scoring import DIMENSIONS, unit


class Counting:
    """Quality of an example: a hundredth of its number."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, tuple[str, ...]]] = []

    def qualities(self, request: str, examples: Sequence[str]) -> tuple[float, np.ndarray]:
        self.asked.append((request, tuple(examples)))
        return 0.5, np.array([int(text) / 100 for text in examples])


def text_row(examples: int, quality: float = 0.123) -> TextRow:
    numbers = np.arange(examples, dtype=np.float32)
    vectors = np.repeat(numbers[:, None], 4, 1)
    scalars = np.repeat(numbers[:, None], len(NAMES), 1)
    row = Row("r", 7.0, np.ones(4, np.float32), vectors, vectors, scalars, quality, 9.0)
    return TextRow(row, "request", tuple(str(n) for n in range(examples)))


def test_each_opinion_is_a_row_with_its_own_example_and_there_is_one_without() -> None:
    rows = soft_rows(Counting(), [text_row(20)], each=6, weight=0.25)
    assert sorted(len(row.scalars) for row in rows) == [0, 1, 1, 1, 1, 1, 1]
    for row in rows:
        assert row.weight == 0.25
        if len(row.scalars):
            number = row.scalars[0, 0]
            assert row.questions[0, 0] == row.answers[0, 0] == number
            assert row.quality == pytest.approx(number / 100)
        else:
            assert row.quality == 0.5


def test_the_nearest_half_is_always_asked_about_and_none_twice() -> None:
    teacher = Counting()
    soft_rows(teacher, [text_row(20)], each=6)
    ((_, asked),) = teacher.asked
    assert asked[:3] == ("0", "1", "2")
    assert len(set(asked)) == 6


@pytest.mark.parametrize("examples", [0, 1, 4])
def test_few_candidates_are_all_asked_about(examples: int) -> None:
    assert len(soft_rows(Counting(), [text_row(examples)], each=6)) == examples + 1


def test_the_same_seed_asks_the_same() -> None:
    asked = []
    for seed in (1, 1, 2):
        teacher = Counting()
        soft_rows(teacher, [text_row(40) for _ in range(5)], each=10, seed=seed)
        asked.append(teacher.asked)
    assert asked[0] == asked[1] != asked[2]


def test_what_was_observed_is_not_copied() -> None:
    one, other = (soft_rows(Counting(), [text_row(5, quality)]) for quality in (0.0, 1.0))
    assert [row.quality for row in one] == [row.quality for row in other]


@pytest.mark.parametrize("weight", [0.0, -1.0, 1.5, float("nan")])
def test_a_weight_that_is_none_is_refused(weight: float) -> None:
    with pytest.raises(ValueError, match="weighs"):
        soft_rows(Counting(), [], weight=weight)


@pytest.mark.train
def test_the_fast_scorer_believes_its_teacher_but_is_judged_by_outcomes_alone() -> None:
    """Told of an example that was never sent that it helps, the scorer says so; the hold-out stays what it was."""
    # Fewer outcomes than this do not carry so many opinions of full weight: the fit then stops within a few epochs.
    rows = outcomes(1000)
    sent = PLACE["answer_known"]
    for row in rows:
        row.scalars[:, sent] = 0.0
    untried = np.full((1, len(NAMES)), 0.5, np.float32)
    untried[:, [PLACE["request_rare_covered"], sent]] = 0.0, 1.0
    blank = np.zeros((1, DIMENSIONS), np.float32)
    one = Row("q", 0.0, unit(3), blank, blank, untried, 0.98, 1.0)
    taught = [replace(one, request=unit(i % 40)) for i in range(300)]
    plain, told = (
        trained(rows, prior_model(), seed=1, members=2, loss="pointwise", taught=opinions)
        for opinions in ([], taught)
    )
    assert predictions(told.model, [one])[0] > predictions(plain.model, [one])[0] + 0.2
    for figure in ("outcomes", "pairs", "incumbent"):
        assert told.metrics[figure] == plain.metrics[figure]
