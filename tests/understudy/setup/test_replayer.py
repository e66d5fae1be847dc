"""The gate's limit follows the log of requests, between the floor and the ceiling of the settings."""

from __future__ import annotations

from datetime import UTC

import pytest

from learning.replay.off_peak_gate import Quiet
from store.decisions.hourly_load import HOUR_S
from store.decisions.requests import DecisionLog
from store.sqlite.database import Database
from tests.store.conftest import db
from tests.store.rows import request_record
from understudy.settings.replay import ReplayAdvanced
from understudy.setup.replayer import Habits

__all__ = ["db"]
T = 500_000 * HOUR_S


@pytest.mark.parametrize(
    ("settings", "limit"),
    [
        (ReplayAdvanced(), 18),
        (ReplayAdvanced(max_in_flight=7), 7),
        (ReplayAdvanced(min_in_flight=40), 40),
    ],
)
def test_the_limit_is_learnt_and_bounded(db: Database, settings: ReplayAdvanced, limit: int) -> None:
    log = DecisionLog(db)
    # Twelve in flight all day long, for three days; the first hour on record is not whole.
    for hour in range(72):
        at_s = T + hour * HOUR_S + 600
        log.record(request_record(hour, started_at_s=at_s, total_ms=12 * HOUR_S * 1000.0)).result(30)
    quiet = Quiet(settings.min_in_flight, 0)
    week = Habits(db, settings, UTC, quiet).learn(T + 72 * HOUR_S + 1)
    assert week.observed_hours == 71
    assert week.quiet_in_flight == pytest.approx(12, rel=0.1)
    assert quiet.limit == limit


def test_without_a_log_the_floor_holds(db: Database) -> None:
    quiet = Quiet(0, 0)
    week = Habits(db, ReplayAdvanced(), UTC, quiet).learn(T)
    assert (week.observed_hours, quiet.limit) == (0, 2)
