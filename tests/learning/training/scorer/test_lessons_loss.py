"""What lessons do to the scorer: it learns from few outcomes what the bank knows by itself."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from learning.training.scorer.bank_lessons import CANDIDATES, Lesson
from learning.training.scorer.rows import Row
from learning.training.scorer.training import predictions, trained
from router.examples.features import NAMES, PLACE
from router.examples.prior import prior_model
from tests.learning.training.scorer.scorer_world import outcomes
from tests.router.examples.scoring import DIMENSIONS, unit

pytestmark = pytest.mark.train
SAYS_SAME = PLACE["example_covered"]
"""No outcome of `outcomes` depends on it: only lessons tell that it matters."""


def told(count: int) -> list[Lesson]:
    generator = np.random.default_rng(4)
    blank = np.zeros((CANDIDATES, DIMENSIONS), np.float32)
    every = np.ones(CANDIDATES, bool)
    found = []
    for n in range(count):
        scalars = generator.random((CANDIDATES, len(NAMES))).astype(np.float32)
        same = generator.random(CANDIDATES) < 0.2
        scalars[:, SAYS_SAME] = same
        scalars[:, PLACE["request_rare_covered"]] = 0.0
        found.append(Lesson(0.0, unit(n), blank, blank, scalars, same, every, ~every, every))
    return found


def single(says_same: bool) -> Row:
    scalars = np.full((1, len(NAMES)), 0.5, np.float32)
    scalars[0, PLACE["request_rare_covered"]] = 0.0
    scalars[0, SAYS_SAME] = says_same
    blank = np.zeros((1, DIMENSIONS), np.float32)
    return Row("q", 0.0, unit(3), blank, blank, scalars, 0.0)


def difference(lessons: list[Lesson]) -> float:
    made = trained(outcomes(220), prior_model(), seed=1, members=1, loss="pointwise", lessons=lessons)
    same, other = predictions(made.model, [single(True), single(False)])
    return float(same - other)


def test_what_the_bank_agrees_on_is_learnt_beside_the_outcomes() -> None:
    assert difference(told(300)) > 0.2
    assert difference([]) < 0.2


def test_lessons_of_requests_as_late_as_the_held_out_ones_are_left_aside() -> None:
    lines: list[str] = []
    late = [replace(lesson, at_s=1e9) for lesson in told(5)]
    made = trained(
        outcomes(220),
        prior_model(),
        members=1,
        loss="pointwise",
        lessons=[*late, *told(3)],
        tell=lines.append,
    )
    assert made.metrics["lessons"] == 3
    assert any("3 lessons" in line for line in lines)


def test_labels_that_do_not_count_teach_nothing() -> None:
    import torch

    from learning.training.scorer.lessons_loss import loss_of, taught_by
    from learning.training.scorer.network import Network, batch_of

    torch.manual_seed(0)
    network = Network(batch_of(outcomes(50)), 0)
    none = [replace(lesson, counts=np.zeros(CANDIDATES, bool)) for lesson in told(4)]
    assert loss_of(network, taught_by(none), dropout=False).item() == 0.0
    assert loss_of(network, taught_by(told(4)), dropout=False).item() > 0.0
