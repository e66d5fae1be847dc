"""Calibrates predicted qualities by one line through their log-odds, so that they agree with the observed ones.

Platt 1999, "Probabilistic Outputs for Support Vector Machines", section 2; the same line for quality alone and with each
example, so that their difference stays expected gain. Needs torch (extra `train`).
"""

from __future__ import annotations

import math
from typing import Any

import torch

from learning.training.scorer.network import calibrated, set_quality_of

HELD = 2.0
"""How strongly the line is held near slope 1 and offset 0; in units of outcomes."""

Tensor = Any


def fitted_line(
    alone: Tensor, with_one: Tensor, owner: Tensor, quality: Tensor, weight: Tensor
) -> tuple[float, float]:
    """Slope and offset of the log-odds by which the sets' qualities agree best with the observed ones.

    `alone`, `quality`, `weight`: (rows,); `with_one`, `owner`: (examples,), `owner` being the index of a row.
    """
    line = torch.zeros(2, requires_grad=True)
    optimiser = torch.optim.LBFGS([line], lr=0.5, max_iter=60)

    def closure() -> Any:
        optimiser.zero_grad()
        a, w = (calibrated(each, line[0].exp(), line[1]) for each in (alone, with_one))
        found = set_quality_of(a, w, owner).clamp(1e-5, 1 - 1e-5)
        each = torch.nn.functional.binary_cross_entropy(found, quality, reduction="none")
        value = (each * weight).sum() / weight.mean() + HELD * (line**2).sum()
        value.backward()
        return value

    optimiser.step(closure)
    slope, offset = line.detach().tolist()
    return (math.exp(slope), offset) if math.isfinite(slope + offset) else (1.0, 0.0)
