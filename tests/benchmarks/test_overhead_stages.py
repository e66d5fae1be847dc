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


def test_the_table_says_what_both_take_and_what_each_does() -> None:
    part = {"prior": [{"score_ms": 0.1, "combine_ms": 0.2, "both_ms": 0.3, "examples": 3.0}]}
    (row,) = report.rows({"stages": part})
    assert row.figure == "0.300 ms" and "combining 0.200 ms" in row.note
