"""The benchmark measures what it says: no prompt meets its own pair or a twin, nothing is learnt from what is asked."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from benchmarks.helpfulness import cases, judge, recorded


def case(count: int = 240, kinds: int = 6, seed: int = 3) -> cases.Case:
    """Labels as clusters, well mixed; every tenth pair has a twin in its own group."""
    rng = np.random.default_rng(seed)
    centres = rng.standard_normal((kinds, 16))
    labels = [f"kind {i % kinds}" for i in range(count)]
    vectors = np.stack([centres[i % kinds] + 0.9 * rng.standard_normal(16) for i in range(count)])
    vectors = (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)
    groups = [i - 1 if i % 10 == 1 else i for i in range(count)]
    for i in range(1, count, 10):
        vectors[i] = vectors[i - 1]
        labels[i] = labels[i - 1]
    prompts = [f"Please do thing {i} about subject{i % 7} of it" for i in range(count)]
    answers = np.eye(16, dtype=np.float32)[[int(label.split()[1]) for label in labels]]
    right = [frozenset([label]) for label in labels]
    return cases.Case("made", "labels", prompts, labels, right, groups, vectors, answers)


@pytest.mark.slow
def test_a_small_run_gives_every_figure_and_a_scorer_that_learnt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recorded, "cases", lambda *_: iter([case(480)]))
    settings = recorded.Settings(folds=2, outcomes=220)
    figures = recorded.run(tmp_path, tmp_path / "f.json", cache=tmp_path, settings=settings)
    found = json.loads((tmp_path / "f.json").read_text())["cases"]["made"]["families"]
    assert set(found) == set(judge.FAMILIES) and set(figures["average"]) == set(
        found["several vote"]["differences"]
    )
    for of in found.values():
        assert of["prompts"] == 480 and len(of["trainings"]) == 2
        quality = {way: each["quality"] for way, each in of["ways"].items()}
        assert quality["oracle"] >= max(quality.values()) - 1e-9
        assert quality["prior, as served"] == pytest.approx(quality["nearest 5"], abs=0.05)
        assert quality[recorded.SERVED] > quality["none"]
    votes = {way: each["quality"] for way, each in found["several vote"]["ways"].items()}
    assert votes[recorded.SERVED] > votes["nearest 5"] - 0.01, (
        "labels are clusters: the nearest are right here"
    )
