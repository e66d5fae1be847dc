"""Outcomes of a little world in which the right examples are known, for the tests of training."""

from __future__ import annotations

import numpy as np

from learning.training.scorer.rows import Row
from router.examples.features import NAMES, PLACE
from tests.router.examples.scoring import DIMENSIONS, unit

ALONE, HELPED = 0.3, 0.95


def outcomes(count: int, seed: int = 0) -> list[Row]:
    """An example helps exactly if it covers the request's rare words; otherwise it does nothing."""
    generator = np.random.default_rng(seed)
    rows = []
    for i in range(count):
        sent = int(generator.integers(0, 4))
        scalars = generator.random((sent, len(NAMES))).astype(np.float32)
        covered = generator.random(sent) < 0.35
        scalars[:, PLACE["request_rare_covered"]] = covered
        right = generator.random() < (HELPED if covered.any() else ALONE)
        blank = np.zeros((sent, DIMENSIONS), np.float32)
        rows.append(Row(f"r{i:05}", float(i), unit(i % 40), blank, blank, scalars, float(right), 1.0))
    return rows
