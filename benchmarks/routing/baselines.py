"""What a learned router is compared with: scores that need no outcomes, and two that are told both engines' outcomes."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from benchmarks.routing.data import Recorded
from router.choosing.features import text_features

Floats = npt.NDArray[np.float64]
THETA, M = 0.8, 3
"""Of the few-shot rule: LOGIC's case study."""


def prompt_length(recorded: Recorded) -> Floats:
    """[n]: characters."""
    return np.array([float(len(p)) for p in recorded.prompts])


def at_random(recorded: Recorded, seed: int) -> Floats:
    """[n]"""
    return np.random.default_rng(seed).random(len(recorded.prompts))


def novelty(recorded: Recorded, block: int = 512) -> Floats:
    """[n]: how unlike everything before it a request is: 1 less the M-th largest cosine (1 where fewer came before).

    The rule of router.policies.few_shot asks whether this exceeds 1 - THETA; as a score its threshold is swept.
    """
    vectors, n = recorded.vectors, len(recorded.prompts)
    found = np.ones(n)
    for start in range(0, n, block):
        end = min(n, start + block)
        cosines = vectors[start:end] @ vectors[:end].T
        for row in range(end - start):
            past = cosines[row, : start + row]
            if len(past) >= M:
                found[start + row] = 1.0 - float(np.partition(past, -M)[-M])
    return found


def nearest_outcomes(recorded: Recorded, half: int, k: int = 50) -> Floats:
    """[n - half]: mean advantage of the large engine among the k nearest of the first half, both outcomes known."""
    advantage = recorded.quality[:half, 1] - recorded.quality[:half, 0]
    cosines = recorded.vectors[half:] @ recorded.vectors[:half].T
    k = min(k, half)
    return np.array([advantage[np.argpartition(-row, k - 1)[:k]].mean() for row in cosines])


def logistic(recorded: Recorded, half: int, components: int = 64, penalty: float = 30.0) -> Floats:
    """[n - half]: P(large right) - P(small right) by two logistic regressions on the first half, both outcomes known.

    On principal components of the embedding and the text features of router.choosing.features; fitted by Newton's method.
    """
    rows = [list(text_features(p).values()) for p in recorded.prompts]
    texts = np.array(rows)
    centred = recorded.vectors.astype(np.float64) - recorded.vectors[:half].mean(0)
    _, _, axes = np.linalg.svd(centred[:half], full_matrices=False)
    parts = np.hstack([centred @ axes[:components].T, texts])
    scale = parts[:half].std(0)
    parts = (parts - parts[:half].mean(0)) / np.where(scale > 1e-6, scale, 1.0)
    design = np.hstack([parts, np.ones((len(parts), 1))])
    chances = [_fit(design[:half], recorded.quality[:half, e], penalty, design[half:]) for e in (0, 1)]
    return chances[1] - chances[0]


def _fit(design: Floats, target: Floats, penalty: float, asked: Floats) -> Floats:
    weights = np.zeros(design.shape[1])
    ridge = np.full(design.shape[1], penalty)
    ridge[-1] = 1e-6
    for _ in range(12):
        chance = 1.0 / (1.0 + np.exp(-design @ weights))
        slope = design.T @ (target - chance) - ridge * weights
        curve = (design * (chance * (1 - chance))[:, None]).T @ design + np.diag(ridge)
        weights = weights + np.linalg.solve(curve, slope)
    return np.asarray(1.0 / (1.0 + np.exp(-asked @ weights)), np.float64)
