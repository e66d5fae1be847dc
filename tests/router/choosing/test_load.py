"""The bias of load: nothing when idle, smooth, and against the dear engine first."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from router.choosing.load import bias, pressure
from tests.knobs import load_knobs

KNOBS = load_knobs(strength=0.6)
USED = st.floats(0, 3)


@given(st.floats(0, KNOBS.threshold), st.floats(0, 1))
def test_below_the_threshold_load_changes_nothing(used: float, price: float) -> None:
    assert bias(used, price, KNOBS) == 0.0


@given(USED, USED)
def test_pressure_never_falls_as_load_rises_and_never_exceeds_one(a: float, b: float) -> None:
    assert 0.0 <= pressure(min(a, b), 0.7) <= pressure(max(a, b), 0.7) <= 1.0


@given(st.floats(0.05, 0.95), USED)
def test_pressure_has_neither_steps_nor_kinks(threshold: float, used: float) -> None:
    step = 1e-4 * (1 - threshold)
    before, here, after = (pressure(used + d, threshold) for d in (-step, 0.0, step))
    assert abs(after - here) < 2e-4
    # The slope changes by no more than a bounded curvature allows: none at the threshold either.
    assert abs((after - here) - (here - before)) < 4 * 1e-8 * 2


def test_at_full_use_pressure_is_what_the_docstring_says() -> None:
    assert pressure(1.0, 0.7) == pytest.approx(0.7616, abs=1e-3)


def test_the_dear_engine_is_left_first_and_the_cheap_one_pushes_back_last() -> None:
    assert bias(1.2, 1.0, KNOBS) < bias(1.2, 0.05, KNOBS) < 0.0
