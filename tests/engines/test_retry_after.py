"""When an upstream wants to be asked again, in every way it may say so."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st
from multidict import CIMultiDict

from engines.retry_after import retry_after_s

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def wanted(**headers: str) -> float | None:
    return retry_after_s(CIMultiDict({k.replace("_", "-"): v for k, v in headers.items()}), NOW)


@pytest.mark.parametrize(("value", "seconds"), [("0", 0), ("7", 7), ("1.5", 1.5), (" 3 ", 3)])
def test_seconds(value: str, seconds: float) -> None:
    assert wanted(Retry_After=value) == seconds


def test_a_date_counts_from_now_and_never_below_zero() -> None:
    assert wanted(Retry_After=format_datetime(NOW + timedelta(seconds=90), usegmt=True)) == 90
    assert wanted(Retry_After=format_datetime(NOW - timedelta(seconds=90), usegmt=True)) == 0


def test_milliseconds_come_first() -> None:
    assert wanted(retry_after_ms="250", Retry_After="7") == 0.25


def test_milliseconds_that_make_no_sense_leave_the_seconds() -> None:
    assert wanted(retry_after_ms="soon", Retry_After="7") == 7


@pytest.mark.parametrize("value", ["", "soon", "-1", "nan", "inf", "1e99", "Thu, 99 Foo 2026", "2026-01-01"])
def test_what_makes_no_sense_says_nothing(value: str) -> None:
    assert wanted(Retry_After=value) is None


def test_nothing_said() -> None:
    assert wanted() is None


@given(st.text(max_size=60), st.text(max_size=20))
def test_no_header_ever_raises(value: str, milliseconds: str) -> None:
    seconds = retry_after_s({"Retry-After": value, "retry-after-ms": milliseconds}, NOW)
    assert seconds is None or 0 <= seconds < 1e12
