from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from learning.reuse.curve import SCEPTICAL, fit, scaled

points = st.lists(
    st.tuples(st.floats(-1, 1), st.integers(0, 50), st.integers(0, 50)).map(
        lambda p: (p[0], float(p[1]), float(p[2]))
    ),
    max_size=12,
)


@given(points)
def test_no_observations_whatever_break_a_fit(points: list[tuple[float, float, float]]) -> None:
    line = fit(SCEPTICAL, points)
    for similarity in (0.0, 0.5, 0.9, 1.0):
        lower, middle = line.lower(similarity, 2.0), line.lower(similarity, 0.0)
        assert 0.0 <= lower <= middle <= 1.0
    assert line.var_a > 0 and line.var_b > 0
    assert line.var_a * line.var_b > line.cov_ab**2


@given(points)
def test_the_fit_is_never_off_the_summit(points: list[tuple[float, float, float]]) -> None:
    line = fit(SCEPTICAL, points)

    def height(a: float, b: float) -> float:
        total = -((a - SCEPTICAL.a) ** 2) / SCEPTICAL.var_a / 2 - (b - SCEPTICAL.b) ** 2 / SCEPTICAL.var_b / 2
        for similarity, right, wrong in points:
            logit = a + b * scaled(similarity)
            total -= right * math.log1p(math.exp(-logit)) + wrong * math.log1p(math.exp(logit))
        return total

    top = height(line.a, line.b)
    for a, b in ((0.3, 0.0), (-0.3, 0.0), (0.0, 0.2), (0.0, -0.2)):
        assert height(line.a + a, line.b + b) <= top + 1e-6


def test_nothing_observed_is_never_taken_for_right() -> None:
    assert SCEPTICAL.lower(0.99, 1.0) < 0.75


def test_a_wrong_answer_never_raises_trust_and_more_right_ones_do() -> None:
    for similarity in (0.85, 0.95):
        good = fit(SCEPTICAL, [(0.95, 10.0, 0.0)]).lower(similarity, 1.0)
        assert fit(SCEPTICAL, [(0.95, 10.0, 1.0)]).lower(similarity, 1.0) < good
        assert fit(SCEPTICAL, [(0.95, 30.0, 0.0)]).lower(similarity, 1.0) > good


def test_entries_that_differ_are_never_trusted_as_much_as_their_tenant() -> None:
    tenant = fit(SCEPTICAL, [(0.95, 500.0, 5.0), (0.85, 100.0, 100.0)])
    assert tenant.widened(1.5, 0.5).lower(0.95, 1.0) < tenant.lower(0.95, 1.0)
