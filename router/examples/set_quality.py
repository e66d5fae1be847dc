"""The expected quality of several examples together, from the effect of each alone.

A scorer predicts, for one request, the quality without examples (`alone`) and with each example alone (`with_one`).
There are too many sets to score each, so their quality is computed from these:

- Examples that help are independent chances to be right (noisy-or: Pearl 1988, "Probabilistic Reasoning in Intelligent
  Systems", section 4.3.2). An example that helps mends a share of the errors without it, h = (w - a) / (1 - a); the errors
  that remain are (1 - a) times the product of (1 - h). So a second example with the same answer adds little.
- Examples that harm spoil a share of the right answers: each multiplies by w / a.

    quality(S) = (1 - (1 - a) * prod(1 - h_i)) * prod(w_j / a),  i over those that help, j over those that harm

With one example this is its own w, with none it is a. Training (learning.training.scorer.training) fits this formula.
Choosing (router.examples.combiner) keeps help and harm of one example apart and adds the distraction from others.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

    Floats = npt.NDArray[np.float64]

EPSILON = 1e-4
"""Least distance of `alone` from 0 and 1, where shares are undefined."""


@dataclass(frozen=True, slots=True)
class Effects:
    """The effect of each example on the chance of a right answer; both in 0..1, and 1 is no effect."""

    alone: float | Floats
    misses: Floats
    """Share of the errors that remains, 1 - h; shape (..., examples)."""
    keeps: Floats
    """Share of the right answers that remains; shape (..., examples)."""


def effects(alone: npt.ArrayLike, with_one: npt.ArrayLike) -> Effects:
    """Splits qualities with one example, shape (..., examples), into help and harm against `alone`, shape (...).

    With M and K the products of `misses` and `keeps` of a set, its quality is `(1 - (1 - alone) * M) * K`, so the quality
    with any one more example is one vector operation. Qualities outside 0..1 are clipped.
    """
    a = np.clip(np.asarray(alone, np.float64), EPSILON, 1 - EPSILON)
    w = np.clip(np.asarray(with_one, np.float64), 0.0, 1.0)
    against = a[..., None] if a.ndim else a
    misses = np.minimum(1.0, (1 - w) / (1 - against))
    keeps = np.minimum(1.0, w / against)
    return Effects(float(a) if a.ndim == 0 else a, misses, keeps)


def set_quality(alone: npt.ArrayLike, with_one: npt.ArrayLike) -> Floats:
    """Expected quality, 0..1, with all of the examples: `alone` of shape (...), `with_one` of shape (..., examples).

    No examples (a last axis of length 0) gives `alone`, within EPSILON.
    """
    parts = effects(alone, with_one)
    missed = (1 - np.asarray(parts.alone)) * parts.misses.prod(axis=-1)
    return np.asarray((1 - missed) * parts.keeps.prod(axis=-1))
