"""Faults and their schedule."""

from __future__ import annotations

import pytest

from loadtest.mock.faults import Fault, Schedule, Window, parse_fault, parse_window


def test_a_window_is_read_whole() -> None:
    assert parse_window("2+3:http=503@0.5") == Window(2.0, 5.0, Fault("http", 503.0), 0.5)
    assert parse_window("0+1:stall") == Window(0.0, 1.0, Fault("stall"), 1.0)


@pytest.mark.parametrize(
    "text", ["", "2:stall", "2+0:stall", "a+1:stall", "1+1:stall@0", "1+1:melt", "1+1:http", "-1+1:cut"]
)
def test_a_window_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        parse_window(text)


@pytest.mark.parametrize("text", ["http=200", "http=abc", "slow", "explode"])
def test_a_fault_that_is_none_is_refused_by_name(text: str) -> None:
    with pytest.raises(ValueError, match="fault") as error:
        parse_fault(text)
    assert repr(text) in str(error.value)


def test_faults_hold_inside_their_window_only() -> None:
    schedule = Schedule((parse_window("1+1:reset"), parse_window("3+1:http=500")))
    assert [schedule.fault_at(t) for t in (0.5, 1.0, 2.0, 3.5)] == [
        None,
        Fault("reset"),
        None,
        Fault("http", 500.0),
    ]


def test_a_stall_of_all_holds_every_byte_to_its_end_and_joins_with_the_next() -> None:
    schedule = Schedule((parse_window("1+1:stall"), parse_window("2+1:stall")))
    assert [schedule.earliest_write(t) for t in (0.9, 1.0, 2.5, 3.0)] == [0.9, 3.0, 3.0, 3.0]
    assert schedule.fault_at(1.5) is None
