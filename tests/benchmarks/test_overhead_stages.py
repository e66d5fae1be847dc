"""Scoring and combining are measured on work that is really done."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.overhead import report, stages
from router.examples.rarity import Rarity


def test_every_model_is_measured_and_examples_are_chosen(
    tmp_path: Path,
) -> None:
    found = stages.measured(2, 10, tmp_path, Rarity())
    assert set(found) == {"prior", "trained"}
    for rounds in found.values():
        assert len(rounds) == 2
        for figures in rounds:
            assert figures["score_ms"] > 0 and figures["combine_ms"] > 0
            assert figures["both_ms"] == pytest.approx(figures["score_ms"] + figures["combine_ms"])
            assert 0 < figures["examples"] <= 8


def test_the_table_says_whether_the_target_is_met() -> None:
    def part(both_ms: float) -> dict[str, list[dict[str, float]]]:
        return {
            "prior": [{"score_ms": 0.1, "combine_ms": both_ms - 0.1, "both_ms": both_ms, "examples": 3.0}]
        }

    (met,) = report.rows({"stages": part(0.3)})
    (missed,) = report.rows({"stages": part(0.5)})
    assert met.met is True and missed.met is False
    assert "0.300 ms" in met.figure and "combining 0.200 ms" in met.note
