"""Caps on the number of examples, judged from a log in which the cap was drawn, in a world whose truth is known."""

from __future__ import annotations

import functools
import itertools

import numpy as np
import pytest

from learning.evaluation.example_caps import CapUnknown, at_most
from learning.evaluation.logged import Logged, logged
from tests.learning.training.worlds import Met, met

LADDER = {2: 0.2, 3: 0.6, 5: 0.2}
"""Best is 3; the rungs beside it are tried."""
TRUE = {0: 0.3, 1: 0.5, 2: 0.7, 3: 0.8, 4: 0.84, 5: 0.86}
"""Quality by how many examples were sent."""


@functools.cache
def world(n: int, seed: int = 0, *, hard: bool = False, share: float = 0.7) -> tuple[Logged, list[int]]:
    """A log by LADDER, and how many examples each request would have been sent without a cap (0: the reference answers)."""
    rng = np.random.default_rng(seed)
    rows: list[Met] = []
    natural: list[int] = []
    for number in range(n):
        wanted = int(rng.choice([0, 1, 2, 3, 4, 5]))
        natural.append(wanted)
        cap = int(rng.choice(list(LADDER), p=list(LADDER.values())))
        sent = min(wanted, cap)
        quality = 1.0 if not wanted else TRUE[sent] - (0.1 * (wanted - 3) if hard else 0.0)
        outcomes = [{"quality": quality, "probability": share}] if rng.random() < share else []
        rows.append(
            met(
                number,
                1 if wanted else 2,
                *outcomes,
                example_ids=tuple(range(sent)),
                most_examples=cap,
                examples_explored="" if cap == 3 else "count",
                examples_probability=LADDER[cap],
                cost_usd=0.01 * sent if wanted else 0.1,
            )
        )
    return logged(rows), natural


def truth(natural: list[int], most: int, *, hard: bool = False) -> tuple[float, float]:
    """Quality and cost, had the ladder been cut at `most`."""
    quality, cost = [], []
    for wanted in natural:
        for cap, probability in LADDER.items():
            sent = min(wanted, cap, most)
            found = 1.0 if not wanted else TRUE[sent] - (0.1 * (wanted - 3) if hard else 0.0)
            quality.append(probability * found)
            cost.append(probability * (0.01 * sent if wanted else 0.1))
    return sum(quality) / len(natural), sum(cost) / len(natural)


@pytest.mark.parametrize("hard", [False, True])
@pytest.mark.parametrize("most", [2, 3, 5])
def test_a_cap_that_was_drawn_is_estimated_without_bias_also_where_harder_requests_want_more(
    most: int, hard: bool
) -> None:
    found, wanted = [], []
    for seed in range(12):
        log, natural = world(400, seed, hard=hard)
        capped = at_most(log, most, resamples=100)
        found.append((capped.quality.value, capped.cost_usd.value))
        wanted.append(truth(natural, most, hard=hard))
    assert np.mean(found, axis=0) == pytest.approx(np.mean(wanted, axis=0), abs=0.006)


def test_intervals_hold_the_truth_about_as_often_as_they_say() -> None:
    held = 0
    for seed, most in itertools.product(range(12), LADDER):
        log, natural = world(400, seed)
        interval = at_most(log, most, resamples=100).quality.interval
        held += interval.low <= truth(natural, most)[0] <= interval.high
    assert held >= 31, "95 % intervals, of 36"


def test_a_cap_nobody_reached_changes_nothing() -> None:
    log, _ = world(200)
    capped = at_most(log, 8, resamples=100)
    assert capped.shortened == 0.0
    assert capped.cost_usd.value == pytest.approx(log.log.cost_usd.mean())


def test_a_cap_that_was_never_drawn_is_not_guessed() -> None:
    log, _ = world(200)
    with pytest.raises(CapUnknown, match="at most 1"):
        at_most(log, 1, resamples=100)
    with pytest.raises(ValueError, match="cap of 0"):
        at_most(log, 0)


def test_what_is_missing_is_said_and_nothing_that_is_there() -> None:
    """Of requests that all had a chance of the cap, only too few draws of it are named."""
    log, _ = world(12)
    with pytest.raises(CapUnknown) as told:
        at_most(log, 2, resamples=100)
    assert "are needed" in str(told.value) and "100%" not in str(told.value)
    assert "only" not in str(told.value)


def test_without_a_scorer_no_cap_was_drawn_and_what_was_sent_stands_for_nothing() -> None:
    log = logged(
        [
            met(
                n,
                1,
                example_ids=(1, 2, 3)[: 2 + n % 2],
                scorer="",
                most_examples=2 + n % 2,
                examples_probability=1.0,
                examples_explored="",
            )
            for n in range(60)
        ]
    )
    with pytest.raises(CapUnknown):
        at_most(log, 2, resamples=100)


def test_a_set_that_was_changed_on_purpose_stands_for_no_cap() -> None:
    log = logged(
        [
            met(
                n,
                1,
                example_ids=(1, 2) if n % 2 else (1, 2, 3),
                most_examples=2 if n % 2 else 3,
                examples_probability=0.5,
                examples_explored="swap" if n % 2 else "",
            )
            for n in range(60)
        ]
    )
    with pytest.raises(CapUnknown):
        at_most(log, 2, resamples=100)
