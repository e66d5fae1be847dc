"""Scoring and combining are measured on work that is really done."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.overhead import stages
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
