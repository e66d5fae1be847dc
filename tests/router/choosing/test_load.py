"""An engine's report reaches the chooser unchanged; the bias of load: nothing when idle, smooth, the dear engine first."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engines.engine import EngineInfo, EngineLoad, Price
from router.choosing.load import bias, engine_state, pressure
from tests.knobs import load_knobs

KNOBS = load_knobs(strength=0.6)
USED = st.floats(0, 3)


@given(st.floats(0, KNOBS.idle_up_to), st.floats(0, 1))
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


INFO = EngineInfo("large", price=Price(2.5, 10.0))


def test_an_engine_that_told_nothing_is_idle_of_unknown_pace_and_healthy() -> None:
    state = engine_state(INFO, EngineLoad())
    assert (state.name, state.price) == ("large", INFO.price)
    assert (state.utilisation, state.first_token_s, state.tokens_per_s, state.healthy) == (0, 0, 0, True)


def test_the_length_of_its_answers_says_how_fast_it_writes_and_what_one_costs() -> None:
    load = EngineLoad(first_chunk_s=0.5, answer_s=2.5, answer_tokens=40.0)
    state = engine_state(INFO, load)
    assert (state.answer_tokens, state.tokens_per_s) == (40.0, pytest.approx(40 / 2.0))


def test_what_it_told_is_what_is_weighed() -> None:
    load = EngineLoad(in_flight=6, queued=4, capacity=8, first_chunk_s=0.5, answer_s=2.5, open=False)
    state = engine_state(INFO, load)
    assert (state.utilisation, state.first_token_s, state.healthy) == (1.25, 0.5, False)
    assert state.tokens_per_s == pytest.approx(256 / 2.0)


def test_an_idle_engine_is_not_called_as_slow_as_a_busy_one() -> None:
    state = engine_state(INFO, EngineLoad(first_chunk_s=3.0, idle_first_chunk_s=0.2, answer_s=4.0))
    assert (state.first_token_s, state.idle_first_token_s) == (3.0, 0.2)
    assert engine_state(INFO, EngineLoad()).idle_first_token_s is None


seconds = st.none() | st.floats(0, 1e4)


@given(seconds, seconds)
def test_no_pace_is_negative_or_endless(first_chunk_s: float | None, answer_s: float | None) -> None:
    state = engine_state(INFO, EngineLoad(first_chunk_s=first_chunk_s, answer_s=answer_s))
    assert state.tokens_per_s >= 0 and math.isfinite(state.tokens_per_s)
    assert state.first_token_s >= 0
