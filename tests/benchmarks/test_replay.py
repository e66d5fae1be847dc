"""The benchmark of replay tells a bank that was mended from one that was not, with the very same requests."""

from __future__ import annotations

import pytest

import benchmarks.replay.__main__ as benchmark


def test_money_spent_by_gain_betters_the_bank_and_is_never_more_than_was_given() -> None:
    found = benchmark.seed_of(104, ("none", "gain"), 0.06, (60, 60, 30), 300, 0.2)
    none, gain = found["arms"]["none"], found["arms"]["gain"]
    assert none["usd"] == 0 < gain["usd"] <= 0.06
    assert gain["results"]["replaced"] > 0
    assert gain["right_in_bank"] > none["right_in_bank"] < 1
    assert gain["offloaded"] == none["offloaded"], "the same requests, and the same questions in the bank"


def test_the_largest_share_that_is_good_enough_is_found_nearest_first() -> None:
    served = [
        benchmark.Served(nearest, grade, False, True)
        for nearest, grade in ((0.9, 1.0), (0.8, 1.0), (0.7, 0.7), (0.6, 0.0), (0.0, 1.0))
    ]
    assert benchmark.share_at(served, 0.9) == pytest.approx(3 / 5)
    assert benchmark.share_at(served, 1.1) == 0
