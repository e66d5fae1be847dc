"""The benefit of a run is what changed beyond what changed anyway, and unknown where few were judged."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from learning.replay.benefit import FEWEST, Uses, benefit
from store.jobs.replay_records import ChargedUse, JudgedUse

CHANGED = frozenset({1, 2})


def judged(rng: np.random.Generator, count: int, mean: float, ids: tuple[int, ...]) -> list[JudgedUse]:
    qualities = rng.binomial(1, mean, count).astype(float)
    return [JudgedUse(n, ids, quality, 0.5) for n, quality in enumerate(qualities.tolist())]


def uses(rng: np.random.Generator, *, count: int, changed_to: float, all_to: float) -> Uses:
    """From 0.5: all examples change to `all_to`, those that were replaced to `changed_to`."""
    return Uses(
        [*judged(rng, count, 0.5, (1, 9)), *judged(rng, count, 0.5, (9,))],
        [*judged(rng, count, changed_to, (7, 2)), *judged(rng, count, all_to, (9, 8))],
        [],
        [],
    )


def test_what_the_unchanged_ones_gained_too_is_no_benefit() -> None:
    rng = np.random.default_rng(1)
    found = benefit(CHANGED, uses(rng, count=2000, changed_to=0.8, all_to=0.7))
    assert found.quality == pytest.approx(0.1, abs=0.05)
    assert (found.changed_after.judged, found.unchanged_before.judged) == (2000, 2000)
    nothing = benefit(CHANGED, uses(rng, count=2000, changed_to=0.7, all_to=0.7))
    assert nothing.quality_interval is not None and nothing.quality_interval.low < 0
    assert nothing.quality_interval.high > 0


def test_the_interval_holds_what_is_true_in_9_of_10_seeds_and_more() -> None:
    held = 0
    for seed in range(40):
        rng = np.random.default_rng(seed)
        interval = benefit(CHANGED, uses(rng, count=60, changed_to=0.9, all_to=0.5)).quality_interval
        assert interval is not None
        held += interval.low <= 0.4 <= interval.high
    assert held >= 36


def test_below_thirty_in_any_group_nothing_is_known() -> None:
    rng = np.random.default_rng(2)
    enough = uses(rng, count=FEWEST, changed_to=1.0, all_to=0.5)
    assert benefit(CHANGED, enough).quality is not None
    few = Uses(enough.judged_before, enough.judged_after[1:], [], [])
    found = benefit(CHANGED, few)
    assert (found.quality, found.quality_interval, found.fewest_judged) == (None, None, FEWEST - 1)
    none = benefit(CHANGED, Uses([], [], [], []))
    assert (none.quality, none.usd, none.changed_after.value) == (None, None, None)


def test_all_alike_is_no_certainty() -> None:
    same = [JudgedUse(0.0, ids, 1.0, 1.0) for ids in ((1,), (9,)) for _ in range(FEWEST)]
    interval = benefit(CHANGED, Uses(same, same, [], [])).quality_interval
    assert interval is not None and interval.low < -0.05 and interval.high > 0.05


def charged(count: int, saved: float, ids: tuple[int, ...]) -> list[ChargedUse]:
    return [ChargedUse(float(n), ids, saved) for n in range(count)]


def both(with_changed: int, others: int) -> Sequence[ChargedUse]:
    return [*charged(with_changed, 0.01, (1,)), *charged(others, 0.01, (9,))]


def test_dollars_are_those_saved_beyond_what_grown_traffic_would_have() -> None:
    # Twice the traffic, and three times the requests that a changed example was good for.
    found = benefit(CHANGED, Uses([], [], both(400, 2000), both(1200, 4000)))
    assert found.usd == pytest.approx(0.01 * (1200 - 800)) and found.requests == 1200
    assert found.usd_interval is not None and found.usd_interval.low > 0
    as_before = benefit(CHANGED, Uses([], [], both(400, 2000), both(800, 4000)))
    assert as_before.usd == pytest.approx(0) and as_before.usd_interval is not None
    assert as_before.usd_interval.low < 0 < as_before.usd_interval.high
    assert benefit(CHANGED, Uses([], [], both(29, 2000), both(800, 4000))).usd is None
