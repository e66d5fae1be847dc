"""Quality from a sample: an interval that holds the truth, and nothing claimed from nothing."""

from __future__ import annotations

import numpy as np
import pytest

from admin.sources import ServedFacts
from admin.summaries.quality import floors, quality
from router.choosing.floor import FloorSettings, QualityFloor
from store.decisions.outcomes import JudgedAnswer
from store.learned.quality_floors import FloorRow

MODELS = [ServedFacts("demo", ("small", "large"), "in_context")]


def judged(qualities: list[float], probability: float = 0.1) -> list[JudgedAnswer]:
    return [JudgedAnswer("demo", "small", value, probability) for value in qualities]


def test_a_sample_speaks_for_all_offloaded_answers_and_the_references_own_are_right() -> None:
    qualities = [1.0] * 160 + [0.0] * 40
    found = quality(judged(qualities), MODELS, offloaded=500, answered=1000)
    assert found is not None
    assert found["value"] == pytest.approx(0.9)
    assert found["low"] < 0.9 < found["high"] and found["high"] - found["low"] < 0.08
    assert found["offloaded"]["value"] == pytest.approx(0.8)


def test_answers_are_weighed_by_how_likely_they_were_to_be_judged() -> None:
    rows = judged([1.0] * 50, 0.5) + judged([0.0] * 10, 0.1)
    found = quality(rows, MODELS, offloaded=100, answered=100)
    assert found is not None and found["value"] == pytest.approx(0.5)


def test_the_interval_holds_the_truth_about_as_often_as_it_says() -> None:
    rng, held = np.random.default_rng(5), 0
    for _ in range(60):
        found = quality(judged(list((rng.random(40) < 0.9).astype(float))), MODELS, 100, 100)
        assert found is not None
        held += found["low"] <= 0.9 <= found["high"]
    assert held >= 52


@pytest.mark.parametrize(("rows", "offloaded", "answered"), [(4, 10, 20), (0, 10, 20), (0, 0, 0)])
def test_too_few_judgements_claim_nothing(rows: int, offloaded: int, answered: int) -> None:
    assert quality(judged([1.0] * rows), MODELS, offloaded, answered) is None


def test_without_offloading_there_is_nothing_to_judge() -> None:
    found = quality([], MODELS, offloaded=0, answered=20)
    assert found is not None and (found["value"], found["low"]) == (1.0, 1.0)


def test_a_floors_account_is_read_out_of_its_row_and_a_broken_one_is_no_error() -> None:
    floor = QualityFloor(FloorSettings(0.02, 0.05, 0.1))
    floor.passed(100, 10)
    row = FloorRow("t", "demo", 90.0, 0.5, "limiting", 1, 1, floor.to_json())
    whole, broken = floors([row, FloorRow("u", "demo", 90.0, 0.5, "holds", 1, 1, "{}")], {"t": "acme"}, 100.0)
    assert whole["promised_loss"] == 0.02 and whole["requests"] == 100 and whole["tenant_name"] == "acme"
    assert whole["standing"] == "throttling"
    assert whole["age_s"] == 10.0 and 0 < whole["loss_bound"] <= 1
    assert broken["loss_bound"] is None
