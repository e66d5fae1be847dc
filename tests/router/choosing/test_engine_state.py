"""What an engine never told must not look like news of it, and what it told must reach the chooser unchanged."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engines.engine import EngineInfo, EngineLoad, Price
from router.choosing.engine_state import engine_state

INFO = EngineInfo("large", price=Price(2.5, 10.0))


def test_an_engine_that_told_nothing_is_idle_of_unknown_pace_and_healthy() -> None:
    state = engine_state(INFO, EngineLoad())
    assert (state.name, state.price) == ("large", INFO.price)
    assert (state.utilisation, state.first_token_s, state.tokens_per_s, state.healthy) == (0, 0, 0, True)


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
