"""Outcomes of a little world in which the right examples are known, for the tests of training."""

from __future__ import annotations

import numpy as np

from learning.training.scorer.lessons import Lessons
from learning.training.scorer.rows import Row
from router.examples.features import NAMES, PLACE

ALONE, HELPED = 0.3, 0.95
CANDIDATES = 10


def features(generator: np.random.Generator, right: np.ndarray) -> np.ndarray:
    """The right examples cover what is asked; how near they are says nothing."""
    rows = generator.random((len(right), len(NAMES))).astype(np.float32)
    rows[:, PLACE["similarity"]] = np.sort(rows[:, PLACE["similarity"]])[::-1]
    rows[:, PLACE["request_covered"]] = np.where(right, 0.9, 0.2)
    return rows


def outcomes(count: int, seed: int = 0, *, relevant: float = 0.35, votes: bool = False) -> list[Row]:
    """An example helps exactly if it is one of the right ones, `relevant` of all, and each further one distracts a little.

    `votes`: they help together, by their share.
    """
    generator = np.random.default_rng(seed)
    rows = []
    for i in range(count):
        right = generator.random(CANDIDATES) < relevant
        sent = tuple(generator.permutation(CANDIDATES)[: int(generator.integers(0, 6))].tolist())
        told = right[list(sent)]
        share = told.sum() / (len(sent) + 1) if votes else float(told.any())
        good = HELPED * 0.93 ** (len(sent) - 1) if share else ALONE * 0.8 ** len(sent)
        if votes:
            good = share + ALONE / (len(sent) + 1)
        answers = tuple("right" if each else f"other {n}" for n, each in enumerate(right))
        quality = float(generator.random() < good)
        rows.append(Row(f"r{i:05}", float(i), features(generator, right), answers, sent, quality))
    return rows


def lessons(count: int, seed: int = 1) -> Lessons:
    """What a bank of this world teaches."""
    generator = np.random.default_rng(seed)
    right = generator.random(count) < 0.35
    return Lessons(features(generator, right), right.astype(np.float32))
