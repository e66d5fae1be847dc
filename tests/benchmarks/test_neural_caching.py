"""The benchmark of neural caching, on a small stream made here: it tells a good student from none, and the sides of
a change."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.neural_caching.nearest import remembered
from benchmarks.neural_caching.promised import MAX_LOSS, promised
from benchmarks.neural_caching.streams import Stream
from benchmarks.vectors import unit

LABELS = tuple(f"label_{n % 4}" for n in range(1200))
VECTORS = unit(np.random.default_rng(0).normal(size=(1200, 16)) * 0.4 + np.eye(16)[np.arange(1200) % 4])
STREAM = Stream("made up", tuple(f"text {n}" for n in range(1200)), LABELS, LABELS, VECTORS)


@pytest.mark.slow
def test_the_promise_is_kept_and_much_is_taken_over() -> None:
    run = promised(STREAM, 0)
    assert run.most_lost <= MAX_LOSS and run.taken_late > 0.5 * run.oracle > 0


def test_the_cache_by_nearest_neighbours_asks_less_with_laxer_thresholds() -> None:
    strict, lax = remembered(STREAM, 0, 0.1, 0.0), remembered(STREAM, 0, 2.0, 2.0)
    assert lax.calls < strict.calls and lax.accuracy <= strict.accuracy
