"""A worker's capacity follows from what its requests took of a core."""

import pytest

from understudy.background.capacity import BREAKS_AT, Capacity


def looked(capacity: Capacity, seconds: int, per_s: int, cpu_s: float, **more: bool) -> None:
    """Each second so many requests, and so much CPU."""
    now_s, used_s, ended = capacity._at
    for n in range(1, seconds + 1):
        capacity.look(now_s + n, used_s + n * cpu_s, ended + n * per_s, **more)


def test_nothing_is_known_before_the_first_request() -> None:
    capacity = Capacity(0.0, 0.0, 0)
    looked(capacity, 60, 0, 0.02)
    assert capacity.per_s == 0.0 and capacity.core_share == pytest.approx(0.02)


def test_it_is_a_share_of_a_core_by_what_a_request_takes() -> None:
    capacity = Capacity(0.0, 0.0, 0)
    looked(capacity, 60, 50, 50 * 0.004)
    assert capacity.per_s == pytest.approx(BREAKS_AT / 0.004)
    assert capacity.core_share == pytest.approx(0.2)


def test_what_is_used_without_requests_is_not_theirs() -> None:
    capacity = Capacity(0.0, 0.0, 0)
    looked(capacity, 60, 0, 0.1)
    looked(capacity, 60, 1, 0.1 + 0.004)
    assert capacity.per_s == pytest.approx(BREAKS_AT / 0.004)


def test_it_follows_requests_that_become_dearer() -> None:
    capacity = Capacity(0.0, 0.0, 0)
    looked(capacity, 600, 50, 50 * 0.004)
    looked(capacity, 600, 50, 50 * 0.008)
    assert capacity.per_s == pytest.approx(BREAKS_AT / 0.008, rel=0.02)


def test_requests_of_which_work_is_shed_are_no_measure() -> None:
    capacity = Capacity(0.0, 0.0, 0)
    looked(capacity, 60, 50, 50 * 0.004)
    looked(capacity, 60, 300, 300 * 0.002, shed=True)
    assert capacity.per_s == pytest.approx(BREAKS_AT / 0.004)
    assert capacity.core_share == pytest.approx(0.6)
