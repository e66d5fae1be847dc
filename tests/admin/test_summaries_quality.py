"""Quality from a sample: an interval that holds the truth, and nothing claimed from nothing."""

from __future__ import annotations

from typing import Any

import pytest

from admin.summaries.quality import floors, of_all, offloaded_quality
from router.guarantee.floor import FloorSettings, QualityFloor
from store.decisions.quality_rollups import QualitySums
from store.learned.quality_floors import FloorRow

REFERENCES = {"demo": "large"}


def row(qualities: list[float], **changes: Any) -> QualitySums:
    total = sum(qualities)
    squares = sum(q * q for q in qualities)
    count = len(qualities)
    made = QualitySums(0, "demo", "small", "judge", 0, count, count, total, count, total, squares)
    return made._replace(**changes)


def test_only_offloaded_answers_count_each_source_apart() -> None:
    found = offloaded_quality(
        [
            row([1.0] * 80 + [0.0] * 20),
            row([0.0] * 50, engine="large"),
            row([0.0] * 50, failed_over=1),
            row([0.0] * 50, model="not served"),
            row([0.5] * 10, source="user"),
        ],
        REFERENCES,
    )
    assert found["judge"] is not None and found["judge"]["mean"] == pytest.approx(0.8)
    assert found["judge"]["count"] == 100 and found["judge"]["low"] < 0.8 < found["judge"]["high"]
    assert found["feedback"] is not None and found["feedback"]["count"] == 10 and found["review"] is None


def test_a_single_outcome_is_no_certainty() -> None:
    (found,) = [offloaded_quality([row([0.167])], REFERENCES)["judge"]]
    assert found is not None and found["count"] == 1 and found["high"] - found["low"] > 0.5


def test_the_references_own_answers_are_right_by_definition() -> None:
    judged = {"count": 9, "mean": 0.8, "low": 0.7, "high": 0.9}
    found = of_all(judged, 500, 1000)
    assert found == {"mean": pytest.approx(0.9), "low": pytest.approx(0.85), "high": pytest.approx(0.95)}
    assert of_all(None, 0, 20) == {"mean": 1.0, "low": 1.0, "high": 1.0}
    assert of_all(None, 10, 20) is None and of_all(None, 0, 0) is None


def test_a_floors_account_is_read_out_of_its_row_and_a_broken_one_is_no_error() -> None:
    floor = QualityFloor(FloorSettings(0.02, 0.05, 0.1))
    floor.passed(100, 10)
    kept = FloorRow("t", "demo", 90.0, 0.5, "limiting", 1, 1, floor.to_json())
    whole, broken = floors(
        [kept, FloorRow("u", "demo", 90.0, 0.5, "holds", 1, 1, "{}")], {"t": "acme"}, 100.0
    )
    assert whole["guaranteed_loss"] == 0.02 and whole["requests"] == 100 and whole["tenant_name"] == "acme"
    assert whole["standing"] == "throttling"
    assert whole["age_s"] == 10.0 and 0 < whole["loss_bound"] <= 1
    assert broken["loss_bound"] is None
