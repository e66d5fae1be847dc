"""Where names differ by a letter the prior sends the right example more often than nearness does, with the real embedder."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.helpfulness.towns import measured, towns


@pytest.mark.slow
def test_the_example_that_answers_is_sent_where_another_towns_question_is_nearer(tmp_path: Path) -> None:
    case = towns(0, tmp_path)
    half = len(case.prompts) // 2
    assert all(case.answers[i] == case.answers[i + half] for i in range(half))
    assert not set(case.prompts[:half]) & set(case.prompts[half:]), "asked in other words than remembered"
    found = measured(1, tmp_path)
    assert found["nearest"] < 0.5 and found["sent by the prior"] >= 0.9 > found["5 nearest"]
    assert found["20 candidates"] >= found["sent by the prior"] and found["cpu_ms"] > 0
