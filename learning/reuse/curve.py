"""Estimates how likely a remembered answer is right at a similarity: a logistic line, with its uncertainty.

One line per entry (after vCache, arXiv 2502.03771, section 4: a logistic fit of "was it right?" over similarity, per
remembered prompt), shrunk towards the tenant's line, because an entry sees a handful of observations and a line
needs hundreds. Refuses to know what is done with the probability, and proves nothing: its order is used, its
calibration is checked elsewhere (learning/reuse/ledger.py).
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

_CENTRE, _UNIT = 0.9, 0.05
_LOWEST_X, _HIGHEST_X = -6.0, 2.0
_STEPS = 12


@dataclass(frozen=True, slots=True)
class Line:
    """Belief about logit P(right) = a + b * x, with x = (similarity - 0.9) / 0.05: means and covariance."""

    a: float
    b: float
    var_a: float
    cov_ab: float
    var_b: float

    def lower(self, similarity: float, z: float) -> float:
        """The lower edge, `z` standard deviations down, of the band around P(right) at `similarity`."""
        x = scaled(similarity)
        variance = self.var_a + x * (2.0 * self.cov_ab + x * self.var_b)
        return _sigmoid(self.a + self.b * x - z * math.sqrt(max(variance, 0.0)))

    def widened(self, sd_a: float, sd_b: float) -> Line:
        """Return the line of one more entry, if entries differ from this line by these standard deviations."""
        return Line(self.a, self.b, self.var_a + sd_a * sd_a, self.cov_ab, self.var_b + sd_b * sd_b)


SCEPTICAL = Line(a=-1.0, b=1.0, var_a=4.0, cov_ab=0.0, var_b=0.25)
"""Before anything was observed: at 0.9 an answer is right about one time in four, give or take a lot."""


def scaled(similarity: float) -> float:
    """The similarity as the line's x. Bounded, so that one odd vector cannot bend a line."""
    return min(max((similarity - _CENTRE) / _UNIT, _LOWEST_X), _HIGHEST_X)


def fit(prior: Line, points: Iterable[tuple[float, float, float]]) -> Line:
    """The posterior line: Newton's method to the mode, the curvature there as precision (Laplace).

    `points` are (similarity, how often right, how often wrong). Concave, so there is one mode; steps are halved until
    they climb. With a proper prior it exists also when all are right or all wrong.
    """
    data = [(scaled(similarity), right, right + wrong) for similarity, right, wrong in points]
    determinant = prior.var_a * prior.var_b - prior.cov_ab * prior.cov_ab
    p_aa, p_ab, p_bb = prior.var_b / determinant, -prior.cov_ab / determinant, prior.var_a / determinant
    a, b = prior.a, prior.b

    def height(a: float, b: float) -> float:
        da, db = a - prior.a, b - prior.b
        total = -0.5 * (p_aa * da * da + 2.0 * p_ab * da * db + p_bb * db * db)
        for x, right, count in data:
            logit = a + b * x
            total += right * logit - count * _softplus(logit)
        return total

    at = height(a, b)
    for _ in range(_STEPS):
        g_a = -p_aa * (a - prior.a) - p_ab * (b - prior.b)
        g_b = -p_ab * (a - prior.a) - p_bb * (b - prior.b)
        h_aa, h_ab, h_bb = p_aa, p_ab, p_bb
        for x, right, count in data:
            p = _sigmoid(a + b * x)
            error, weight = right - count * p, count * p * (1.0 - p)
            g_a += error
            g_b += error * x
            h_aa += weight
            h_ab += weight * x
            h_bb += weight * x * x
        determinant = h_aa * h_bb - h_ab * h_ab
        step_a, step_b = (h_bb * g_a - h_ab * g_b) / determinant, (h_aa * g_b - h_ab * g_a) / determinant
        size = 1.0
        while (then := height(a + size * step_a, b + size * step_b)) < at and size > 1e-4:
            size /= 2.0
        if then < at:
            break
        a, b, at = a + size * step_a, b + size * step_b, then
        if abs(step_a) + abs(step_b) < 1e-3:
            break
    return Line(a, b, h_bb / determinant, -h_ab / determinant, h_aa / determinant)


def _sigmoid(logit: float) -> float:
    return 1.0 / (1.0 + math.exp(-logit)) if logit > -700.0 else 0.0


def _softplus(logit: float) -> float:
    return max(logit, 0.0) + math.log1p(math.exp(-abs(logit)))
