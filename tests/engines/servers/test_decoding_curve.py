"""The cap on tokens in flight that follows from an SLO: a line through what was measured, in virtual time and by itself."""

from __future__ import annotations

import random

from benchmarks.applications.slo import token_s
from benchmarks.batching.batch import ENGINE_OF_2024
from engines.servers.decoding_curve import DecodingCurve


def measured(answers: int, held: tuple[float, float], noise: float = 0.0) -> DecodingCurve:
    """Of an engine that takes 20 ms and 1 us per token held."""
    chance, curve = random.Random(1), DecodingCurve()
    for _ in range(answers):
        tokens = chance.uniform(*held)
        curve.measured(tokens, (0.020 + tokens * 1e-6) * chance.uniform(1 - noise, 1 + noise))
    return curve


def test_nothing_is_said_of_few_answers_nor_where_none_is_too_many() -> None:
    assert measured(19, (10_000, 60_000)).most_tokens(0.04) is None
    assert measured(50, (20_000, 20_001)).most_tokens(0.05) is None


def test_the_line_tells_the_tokens_at_which_a_token_takes_so_long() -> None:
    curve = measured(200, (10_000, 60_000))
    assert abs((curve.most_tokens(0.04) or 0) - 20_000) < 5
    noisy = measured(200, (10_000, 60_000), noise=0.1).most_tokens(0.05)
    assert noisy is not None and 25_000 < noisy < 35_000
    # Beyond twice the most that was measured the line is a guess.
    assert (curve.most_tokens(10.0) or 0) <= 120_000


def test_where_the_slope_is_not_known_the_cap_moves_by_a_quarter_and_stays_one() -> None:
    curve = measured(50, (40_000, 40_001))
    assert abs((curve.most_tokens(0.04) or 0) - 30_000) < 5
    for _ in range(500):
        curve.measured(15_000, 0.035)
    assert abs((curve.most_tokens(0.04) or 0) - 15_000 * 0.04 / 0.035) < 50


def test_what_an_engine_cannot_keep_alone_is_kept_as_nearly_as_may_be() -> None:
    most = measured(200, (10_000, 60_000)).most_tokens(0.005)
    assert most is not None and abs(most - 2_000) < 5


def test_an_engine_is_held_to_its_slo_and_left_alone_where_it_keeps_it() -> None:
    without_s, took_s = token_s(ENGINE_OF_2024, None)
    held_s, _ = token_s(ENGINE_OF_2024, without_s * 700)
    assert held_s < without_s * 0.75
    assert token_s(ENGINE_OF_2024, without_s * 2_000) == (without_s, took_s)
