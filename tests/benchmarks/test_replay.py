"""The benchmark of replay tells a bank that was mended from one that was not, with the very same requests."""

from __future__ import annotations

import benchmarks.replay.__main__ as benchmark


def test_money_spent_by_gain_betters_the_bank_and_is_never_more_than_was_given() -> None:
    found = benchmark.seed_of(104, ("none", "gain"), 0.06, (60, 60, 30), 300, 0.2)
    none, gain = found["arms"]["none"], found["arms"]["gain"]
    assert none["usd"] == 0 < gain["usd"] <= 0.06
    assert gain["results"]["replaced"] > 0
    assert gain["right_in_bank"] > none["right_in_bank"] < 1
    assert gain["offloaded"] == none["offloaded"], "the same requests, and the same questions in the bank"
