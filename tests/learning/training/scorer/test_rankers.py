"""A line is the same in training and in service, and coefficients of sets are what outcomes say, scope by scope."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from learning.training.scorer.rankers import Judge, Line, by_scope, fitted, nearest, terms_of
from learning.training.scorer.rows import Row
from router.examples.features import NAMES, PLACE
from router.examples.scorer import ScorerModel
from router.examples.set_quality import SetQuality
from tests.learning.training.scorer.scorer_world import lessons, outcomes

COVERED = PLACE["request_covered"]


def covering(features: np.ndarray) -> list[float]:
    """The worth that is true in that world."""
    found: list[float] = np.where(features[:, COVERED] > 0.5, 0.95, 0.02).tolist()
    return found


def test_a_line_learns_shares_and_is_served_as_it_was_trained(tmp_path: Path) -> None:
    taught = lessons(800)
    line = fitted(taught.features, 0.8 * taught.overlap, np.ones(800))
    right = taught.overlap > 0.5
    worths = np.array(line(taught.features))
    assert worths[right].mean() == pytest.approx(0.8, abs=0.05) and worths[~right].mean() < 0.1
    quality = SetQuality(0.2, 0.3, 0.4, 0.1, 0.01)
    (tmp_path / "m.onnx").write_bytes(line.onnx(embedding_version="mini@1", qualities={"s": quality}))
    model = ScorerModel(tmp_path / "m.onnx")
    assert model.worths(taught.features[:50]) == pytest.approx(worths[:50].tolist(), abs=1e-4)
    assert model.declared.embedding_version == "mini@1" and model.quality("s") == quality
    model.close()


def test_nearness_keeps_its_order_whatever_helps() -> None:
    taught = lessons(800)
    line = nearest(taught.features, taught.overlap, np.ones(800))
    rows = np.tile(taught.features[:1], (3, 1))
    rows[:, PLACE["similarity"]] = (0.2, 0.5, 0.9)
    assert line(rows) == sorted(line(rows)) and line.weights[COVERED] == 0.0


def test_one_right_example_counts_where_it_is_enough_and_votes_where_they_are() -> None:
    one = by_scope(covering, outcomes(1500))[""]
    votes = by_scope(covering, outcomes(1500, votes=True))[""]
    assert one.one > one.vote and votes.vote > votes.one
    assert one.alone == pytest.approx(0.3, abs=0.06)


def test_a_scope_has_its_own_where_it_has_enough_and_else_its_tenants() -> None:
    mixed = [replace(row, scope="helped") for row in outcomes(300)]
    mixed += [
        replace(row, scope="strange", quality=0.9, request_id=f"s{n}") for n, row in enumerate(outcomes(300))
    ]
    mixed += [replace(row, scope="few") for row in outcomes(10, seed=5)]
    found = by_scope(covering, mixed)
    assert set(found) == {"", "helped", "strange"}
    assert found["strange"].one < found[""].one < found["helped"].one


def test_few_outcomes_move_little() -> None:
    few, many = (by_scope(covering, outcomes(count, relevant=0.0))[""] for count in (8, 800))
    assert abs(few.alone - 0.3) < 0.2 and many.displaced + many.each > few.displaced + few.each - 0.05


def test_between_two_rankings_outcomes_decide() -> None:
    random = Line(np.zeros(len(NAMES)), 0.0)
    judge = Judge.fitted(outcomes(1500), [covering, random])
    row: Row = outcomes(1, seed=4)[0]
    right = [n for n, answer in enumerate(row.answers) if answer == "right"]
    wrong = [n for n, answer in enumerate(row.answers) if answer != "right"]
    assert judge(row, right[:1]) > judge(row, []) > judge(row, wrong[:3])
    assert terms_of(covering, row, []) == (0.0, 0.0, 0.0, 0.0)
