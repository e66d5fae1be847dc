"""The benchmark of neural caching, on a small stream made here: it tells a good student from none, and the sides of
a change."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from benchmarks.neural_caching.kept import Kept
from benchmarks.neural_caching.nearest import remembered
from benchmarks.neural_caching.online import Setting, area, played
from benchmarks.neural_caching.promised import MAX_LOSS, PromiseRun, promised
from benchmarks.neural_caching.soft import compared
from benchmarks.neural_caching.streams import Stream
from benchmarks.vectors import unit

LABELS = tuple(f"label_{n % 4}" for n in range(1200))
VECTORS = unit(np.random.default_rng(0).normal(size=(1200, 16)) * 0.4 + np.eye(16)[np.arange(1200) % 4])
STREAM = Stream("made up", tuple(f"text {n}" for n in range(1200)), LABELS, LABELS, VECTORS)
TOLD = replace(STREAM, texts=tuple(f"{label} {n}" for n, label in enumerate(LABELS)))


@pytest.mark.slow
def test_more_budget_is_more_accuracy_and_no_more_is_spent() -> None:
    runs = [played(STREAM, Setting("margin", budget, 60, 300, 0)) for budget in (0.1, 0.4)]
    assert runs[0].online <= runs[1].online
    assert [run.calls for run in runs] == pytest.approx([0.1, 0.4], abs=0.01)
    assert area([0.1, 0.4], [0.8, 0.9]) == pytest.approx(0.85)


@pytest.mark.slow
def test_the_promise_is_kept_and_much_is_taken_over() -> None:
    run = promised(STREAM, 0)
    assert run.most_lost <= MAX_LOSS and run.taken_late > 0.5 * run.oracle > 0


def test_the_cache_by_nearest_neighbours_asks_less_with_laxer_thresholds() -> None:
    strict, lax = remembered(STREAM, 0, 0.1, 0.0), remembered(STREAM, 0, 2.0, 2.0)
    assert lax.calls < strict.calls and lax.accuracy <= strict.accuracy


def _twice(seed: int) -> tuple[float, float]:
    return seed * 2.0, float("nan")


def _nothing(seed: int) -> PromiseRun:
    return PromiseRun("made up", seed, 10, 0.1, 0.2, 0.3, 0.0, 0.0, 0.9, None, 0)


def test_runs_that_are_kept_are_not_made_again(tmp_path: Path) -> None:
    file = tmp_path / "runs.jsonl"
    first = list(Kept(file).each(_twice, [1, 2], tuple[float, float], 1))
    again = list(Kept(file).each(_twice, [3, 2, 1], tuple[float, float], 1))
    assert [run[0] for run in first] == [2.0, 4.0] and [run[0] for run in again] == [6.0, 4.0, 2.0]
    assert len(file.read_text().splitlines()) == 3 and math.isnan(again[1][1])


def test_a_run_of_the_promise_is_read_as_it_was_kept(tmp_path: Path) -> None:
    for _ in range(2):
        assert list(Kept(tmp_path / "runs").each(_nothing, [0], PromiseRun, 1)) == [_nothing(0)]


def test_students_of_hard_and_of_soft_labels_learn_the_same_task() -> None:
    runs = compared(TOLD, 0)
    assert [run.size for run in runs] == [250]
    assert all(run.teacher > 0.9 and run.hard > 0.9 and run.soft > 0.9 for run in runs)
