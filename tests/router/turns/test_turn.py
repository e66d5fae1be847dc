"""A turn costs what its cache does not hold, and leaving an engine is paid anew."""

from __future__ import annotations

from dataclasses import replace

import pytest

from engines.engine import Price
from router.turns.turn import Turn

DEAR = Price(5.0, 25.0, cached_input_usd_per_mtok=0.5, cache_write_usd_per_mtok=6.25)
CHEAP = Price(1.0, 5.0, cached_input_usd_per_mtok=0.1, cache_write_usd_per_mtok=1.25)
BOTH = {"small": 1.0, "large": 1.0}
TURN = Turn(prompt_tokens=20_000, caching=BOTH)


def test_a_turn_that_stands_alone_is_written_and_answered() -> None:
    alone = replace(TURN, caching={})
    assert alone.cost_usd("large", DEAR, 100) == pytest.approx((20_000 * 5.0 + 100 * 25.0) / 1e6)
    assert TURN.cost_usd("large", DEAR, 100) == pytest.approx((20_000 * 6.25 + 100 * 25.0) / 1e6)


def test_what_is_held_costs_the_cached_price() -> None:
    turn = replace(TURN, engine="large", held={"large": 19_000.0})
    expected = (19_000 * 0.5 + 1_000 * 6.25 + 100 * 25.0) / 1e6
    assert turn.cost_usd("large", DEAR, 100) == pytest.approx(expected)
    assert turn.cost_usd("small", CHEAP, 100) > expected, "the cheap engine would write all of it"


def test_a_longer_rest_pays_for_the_switch() -> None:
    turn = replace(TURN, engine="large", held={"large": 19_500.0}, added_tokens=500.0)
    saves = [
        turn.cost_usd("large", DEAR, 100) - replace(turn, ahead=ahead).cost_usd("small", CHEAP, 100)
        for ahead in (0.0, 1.0, 10.0)
    ]
    assert saves[0] < 0 < saves[2]
    assert saves == sorted(saves)


def test_leaving_costs_what_is_forgotten_meanwhile() -> None:
    turn = replace(TURN, engine="large", held={"large": 19_500.0}, leaving_usd=0.1)
    stays = replace(turn, leaving_usd=0.0)
    assert turn.cost_usd("large", DEAR, 100) == stays.cost_usd("large", DEAR, 100)
    assert turn.cost_usd("small", CHEAP, 100) == pytest.approx(stays.cost_usd("small", CHEAP, 100) + 0.1)


def test_costs_are_measured_by_the_reference_that_answered_all_along() -> None:
    turn = replace(TURN, engine="small", held={"small": 19_500.0}, held_at_home=19_500.0)
    assert turn.home_usd("large", DEAR, 100) < turn.cost_usd("large", DEAR, 100) / 5


def test_examples_are_paid_and_change_what_is_held() -> None:
    turn = replace(TURN, held={"small": 20_000.0}, held_with={"small": 1_000.0})
    with_them = turn.cost_usd("small", CHEAP, 0, example_tokens=500)
    assert with_them == pytest.approx((1_000 * 0.1 + 19_500 * 1.25) / 1e6)
