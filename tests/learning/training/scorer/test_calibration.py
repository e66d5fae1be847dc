"""Calibration brings predicted qualities of sets to those observed, and stays where nothing is to be corrected."""

from __future__ import annotations

import numpy as np
import pytest

from router.examples.set_quality import set_quality

pytestmark = pytest.mark.train
SLOPE, OFFSET = 0.5, 0.4


def scene(rows: int) -> tuple[list[float], list[list[float]]]:
    generator = np.random.default_rng(3)
    alone = generator.uniform(0.1, 0.9, rows).tolist()
    with_one = [generator.uniform(0.05, 0.95, int(generator.integers(0, 4))).tolist() for _ in range(rows)]
    return alone, with_one


def on_line(quality: float, slope: float, offset: float) -> float:
    return float(1 / (1 + np.exp(-(slope * np.log(quality / (1 - quality)) + offset))))


@pytest.mark.parametrize(("slope", "offset"), [(SLOPE, OFFSET), (1.0, 0.0)])
def test_the_line_by_which_qualities_were_bent_is_found(slope: float, offset: float) -> None:
    import torch

    from learning.training.scorer.calibration import fitted_line

    alone, with_one = scene(800)
    observed = [
        float(set_quality(on_line(a, slope, offset), [on_line(w, slope, offset) for w in ws]))
        for a, ws in zip(alone, with_one, strict=True)
    ]
    found = fitted_line(
        torch.tensor(alone),
        torch.tensor([w for ws in with_one for w in ws]),
        torch.repeat_interleave(torch.arange(len(alone)), torch.tensor([len(ws) for ws in with_one])),
        torch.tensor(observed),
        torch.ones(len(alone)),
    )
    assert found == pytest.approx((slope, offset), abs=0.06)


def test_hardly_any_outcomes_hardly_move_it() -> None:
    import torch

    from learning.training.scorer.calibration import fitted_line

    nobody = torch.zeros(0)
    slope, offset = fitted_line(
        torch.tensor([0.5]), nobody, nobody.long(), torch.tensor([1.0]), torch.ones(1)
    )
    assert slope == pytest.approx(1.0, abs=0.1)
    assert 0 < offset < 0.3
