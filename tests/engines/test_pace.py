"""One slow answer must not count for ever, and none must count before there is one."""

from __future__ import annotations

import pytest

from engines.pace import Pace


def test_nothing_is_known_before_the_first_answer() -> None:
    assert (Pace().first_chunk_s, Pace().answer_s) == (None, None)


def test_a_slow_answer_is_forgotten_within_some_dozens() -> None:
    pace = Pace()
    pace.ended(10.0)
    assert pace.answer_s == 10.0
    for _ in range(60):
        pace.ended(1.0)
    assert pace.answer_s == pytest.approx(1.0, abs=0.05)


def test_first_chunks_and_whole_answers_are_kept_apart() -> None:
    pace = Pace()
    pace.began(0.2)
    pace.ended(3.0)
    assert (pace.first_chunk_s, pace.answer_s) == (0.2, 3.0)


def test_the_fastest_first_chunk_stands_for_an_idle_engine_until_it_is_slower_for_long() -> None:
    pace = Pace()
    for seconds in (0.2, 2.0, 3.0):
        pace.began(seconds)
    assert pace.idle_first_chunk_s == pytest.approx(0.2, rel=0.02)
    for _ in range(1000):
        pace.began(1.0)
    assert pace.idle_first_chunk_s == pytest.approx(1.0)
