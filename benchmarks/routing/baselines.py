"""Scores that need no outcomes."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from benchmarks.routing.data import Recorded

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
