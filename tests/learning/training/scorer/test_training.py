"""Training: what helps is found from outcomes of sets alone; nothing worse than what is in use is accepted."""

from __future__ import annotations

import json
import sys
from dataclasses import replace

import numpy as np
import pytest

from learning.training.scorer.rows import Row
from learning.training.scorer.training import (
    LEAST_ROWS,
    TooFewOutcomes,
    TorchMissing,
    Trained,
    _split,
    predictions,
    trained,
)
from router.examples.features import NAMES, PLACE
from router.examples.prior import prior_model
from tests.learning.training.scorer.scorer_world import ALONE, outcomes
from tests.router.examples.scoring import DIMENSIONS, unit


@pytest.fixture(scope="module")
def made() -> Trained:
    return trained(outcomes(900), prior_model(), seed=1, members=2, embedding_version="mini@1")


def single(covered: bool) -> Row:
    scalars = np.full((1, len(NAMES)), 0.5, np.float32)
    scalars[0, PLACE["request_rare_covered"]] = covered
    blank = np.zeros((1, DIMENSIONS), np.float32)
    return Row("q", 0.0, unit(3), blank, blank, scalars, 0.0)


@pytest.mark.train
def test_what_helps_is_learnt_from_outcomes_of_sets(made: Trained) -> None:
    none = replace(
        single(True), questions=np.zeros((0, DIMENSIONS), np.float32), scalars=np.zeros((0, len(NAMES)))
    )
    helped, unhelped, alone = predictions(made.model, [single(True), single(False), none])
    assert ALONE + 0.4 < helped < 1.0
    assert alone == pytest.approx(ALONE, abs=0.15)
    assert abs(unhelped - alone) < 0.15


@pytest.mark.train
def test_it_beats_the_prior_on_what_was_held_out_and_says_by_how_much(made: Trained) -> None:
    assert made.accepted, made.reason
    new, old = made.metrics["held_out"], made.metrics["incumbent"]
    assert new["log_loss"] < old["log_loss"]
    assert set(new) == {"log_loss", "brier", "ece", "auc", "ranking", "mean_predicted", "mean_observed"}
    assert set(made.metrics["validation"]) <= {"pointwise", "pairwise"}
    assert made.metrics["loss"] in made.metrics["validation"]
    assert json.loads(json.dumps(made.metrics, allow_nan=False)) == made.metrics


@pytest.mark.train
def test_the_same_outcomes_and_seed_give_the_same_scorer() -> None:
    rows = outcomes(250)
    one, two = (trained(rows, prior_model(), seed=5, loss="pointwise", members=2) for _ in range(2))
    assert one.model == two.model
    assert one.metrics == two.metrics


@pytest.mark.train
def test_noise_is_not_better_than_a_good_scorer_in_use(made: Trained) -> None:
    generator = np.random.default_rng(3)
    fitted, held = outcomes(600, seed=8)[:400], outcomes(600, seed=8)[400:]
    noise = [replace(row, quality=float(generator.random() < 0.5)) for row in fitted]
    worse = trained([*noise, *held], made.model, seed=1, loss="pointwise", members=1)
    assert not worse.accepted
    assert "not better" in worse.reason


@pytest.mark.train
def test_a_scorer_in_use_that_cannot_be_asked_is_replaced_if_the_prior_is_beaten() -> None:
    told: list[str] = []
    made = trained(outcomes(400), b"damaged", seed=1, loss="pointwise", members=1, tell=told.append)
    assert made.accepted
    assert any("compared with the prior" in line for line in told)


@pytest.mark.train
def test_too_few_outcomes_are_told() -> None:
    with pytest.raises(TooFewOutcomes, match=f"{LEAST_ROWS} are needed"):
        trained(outcomes(LEAST_ROWS - 1), prior_model())


def test_without_torch_the_remedy_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(TorchMissing, match=r"pip install 'understudy-gateway\[train\]'"):
        trained([], prior_model())


def test_the_latest_requests_are_held_out_and_none_is_on_both_sides() -> None:
    rows = [
        replace(row, request_id=f"{i // 3:05}", at_s=float(i // 3)) for i, row in enumerate(outcomes(300))
    ]
    parts = _split(rows)
    ids = [{row.request_id for row in part} for part in parts]
    assert not ids[0] & ids[1]
    assert not ids[1] & ids[2]
    assert max(ids[0]) < min(ids[1]) <= max(ids[1]) < min(ids[2])
    assert sum(map(len, parts)) == len(rows)


def test_one_request_alone_cannot_be_split() -> None:
    with pytest.raises(TooFewOutcomes, match="so few requests"):
        _split([replace(row, request_id="same") for row in outcomes(300)])


@pytest.mark.train
def test_both_losses_are_compared_and_the_better_one_is_taken(made: Trained) -> None:
    validation = made.metrics["validation"]
    assert set(validation) == {"pointwise", "pairwise"}
    best = min(validation, key=lambda kind: validation[kind]["log_loss_of_novel"])
    assert made.metrics["loss"] == best
    assert made.metrics["pairs"]["fit"] > 0
