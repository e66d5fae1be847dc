"""Figures of predicted against observed qualities, by hand where a hand can count them."""

from __future__ import annotations

import math

import numpy as np
import pytest

from learning.training.scorer.metrics import (
    MOST_PAIRS_OF_A_ROW,
    area_under_curve,
    calibration_error,
    comparable_pairs,
    figures,
)
from learning.training.scorer.rows import Row
from router.examples.features import NAMES
from tests.router.examples.scoring import DIMENSIONS, unit


def row(quality: float, *, seed: int = 1, weight: float = 1.0) -> Row:
    none = np.zeros((0, DIMENSIONS), np.float32)
    return Row("r", 0.0, unit(seed), none, none, np.zeros((0, len(NAMES)), np.float32), quality, weight)


def test_a_better_prediction_has_better_figures() -> None:
    rows = [row(1.0), row(0.0), row(1.0), row(0.0)]
    pairs = comparable_pairs(rows)
    good = figures(np.array([0.9, 0.1, 0.8, 0.3]), rows, pairs)
    bad = figures(np.array([0.4, 0.5, 0.6, 0.7]), rows, pairs)
    assert good["log_loss"] < bad["log_loss"]
    assert good["brier"] < bad["brier"]
    assert good["auc"] == good["ranking"] == 1.0 > bad["auc"]


def test_an_impossible_prediction_costs_much_and_not_infinitely_much() -> None:
    assert math.isfinite(figures(np.array([0.0]), [row(1.0)], np.zeros((0, 2), np.int64))["log_loss"])


def test_weights_count_in_the_means() -> None:
    rows = [row(1.0, weight=3.0), row(0.0)]
    assert figures(np.array([0.5, 0.5]), rows, comparable_pairs(rows))["mean_observed"] == 0.75


def test_ranks_with_ties_and_without_both_kinds() -> None:
    assert area_under_curve(np.array([0.2, 0.2]), np.array([True, False])) == 0.5
    assert area_under_curve(np.array([0.9, 0.2, 0.1]), np.array([True, True, False])) == 1.0
    assert math.isnan(area_under_curve(np.array([0.2]), np.array([True])))


def test_calibration_compares_means_within_bins() -> None:
    predicted, ones = np.array([0.25, 0.25, 0.85, 0.85]), np.ones(4)
    assert calibration_error(predicted, np.array([0.0, 0.5, 0.7, 1.0]), ones) == pytest.approx(0.0)
    assert calibration_error(predicted, np.array([1.0, 1.0, 0.85, 0.85]), ones) == pytest.approx(0.375)


def test_pairs_are_of_the_same_request_and_differ_in_quality() -> None:
    rows = [row(1.0), row(0.2), row(1.0, seed=2), row(0.2)]
    assert {tuple(pair) for pair in comparable_pairs(rows)} == {(0, 1), (0, 3)}
    assert comparable_pairs([row(0.5), row(0.52)]).shape == (0, 2)
    assert comparable_pairs([]).shape == (0, 2)


def test_a_request_asked_very_often_does_not_make_all_the_pairs() -> None:
    rows = [row(1.0), *[row(0.0) for _ in range(50)]]
    assert len(comparable_pairs(rows)) == MOST_PAIRS_OF_A_ROW
