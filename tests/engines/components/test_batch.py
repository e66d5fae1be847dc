"""The effective batch is doubled until throughput gains less than 5 %."""

from __future__ import annotations

from engines.components.batch import MOST, EffectiveBatch


def measured(fixed_s: float, item_s: float) -> EffectiveBatch:
    batch = EffectiveBatch()
    while not batch.known:
        items = batch.to_send
        batch.took(items, fixed_s + item_s * items)
    return batch


def test_it_is_doubled_until_throughput_gains_less_than_5_percent() -> None:
    # From 16 to 32: 16/26 -> 32/42, 24 % more; 64 -> 128: 128/138 against 64/74, 7 %; 256: 4 %.
    assert measured(0.010, 0.001).size == 128
    assert measured(0.0, 0.01).size == 1
    assert measured(1.0, 0.0).size == MOST


def test_only_full_requests_count_and_the_median_of_three() -> None:
    batch = EffectiveBatch()
    for seconds in (1.0, 9.0, 1.0):
        batch.took(7, 0.001)
        batch.took(1, seconds)
    assert (batch.size, batch.to_send) == (1, 2)
    for seconds in (1.9, 1.0, 9.0):
        batch.took(2, seconds)
    assert (batch.size, batch.to_send) == (2, 4), "two in 1.9 s are 5 % more than one in 1 s"


def test_one_slow_moment_does_not_settle_it() -> None:
    batch = EffectiveBatch()
    for seconds in (1.0, 9.0, 1.0):
        for _ in range(3):
            batch.took(batch.to_send, seconds)
    assert (batch.size, batch.to_send) == (4, 8)
    for _ in range(6):
        batch.took(batch.to_send, 99.0)
    assert (batch.size, batch.known) == (4, True)


def test_one_that_is_set_is_not_measured() -> None:
    batch = EffectiveBatch(24)
    batch.took(24, 0.001)
    assert (batch.size, batch.to_send, batch.known) == (24, 24, True)


def test_a_size_that_is_refused_is_not_tried_again() -> None:
    batch = EffectiveBatch()
    for _ in range(3):
        batch.took(1, 1.0)
    batch.refused()
    assert (batch.size, batch.to_send, batch.known) == (1, 1, True)
