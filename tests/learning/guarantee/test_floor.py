from __future__ import annotations

import dataclasses
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from learning.guarantee.floor import caught_up, judgements
from router.guarantee.floor import FloorSettings, QualityFloor
from store.decisions.choices import Choices
from store.decisions.outcomes import Outcomes
from store.learned.quality_floors import FloorRow, QualityFloors
from store.sqlite.database import Database
from tests.store.rows import choice_record, outcome_record

SETTINGS = FloorSettings(0.05, 0.05, judged_share=0.5, lag_requests=20)


@pytest.fixture
def db(tmp_path: Path) -> Iterator[Database]:
    database = Database.open(tmp_path / "understudy.db")
    yield database
    database.close()


def filled(db: Database, first: int, last: int, *, probability: float = 0.5, tenant: str = "a1") -> None:
    """Every second request offloaded, every second of these judged, one in twenty of these bad."""
    rng = random.Random(first)
    waiting = []
    for number in range(first, last):
        engine = "small" if number % 2 else "large"
        record = choice_record(
            number, engine=engine, at_s=float(number), vector=None, candidate_features=None, tenant=tenant
        )
        waiting.append(Choices(db).record(record))
        if rng.random() < 0.5:
            outcome = outcome_record(
                number,
                engine=engine,
                at_s=number + 5.0,
                source="judge",
                quality=float(rng.random() > 0.05),
                probability=probability,
                tenant=tenant,
            )
            waiting.append(Outcomes(db).note(outcome))
    for each in waiting:
        each.result(30)


def caught(
    db: Database, last: FloorRow | None, settings: FloorSettings = SETTINGS, *, now_s: float = 99.0
) -> tuple[FloorRow, QualityFloor]:
    return caught_up(
        last,
        settings,
        Choices(db),
        Outcomes(db),
        tenant="a1",
        model="gpt-4o",
        reference="large",
        now_s=now_s,
    )


def test_an_account_that_is_continued_says_what_one_from_the_whole_log_says(db: Database) -> None:
    filled(db, 0, 400)
    first, _ = caught(db, None)
    assert QualityFloors(db).put(first).result(30)
    filled(db, 400, 800)
    filled(db, 0, 100, tenant="b2")
    continued, floor = caught(db, QualityFloors(db).get("a1", "gpt-4o"), now_s=5000.0)
    whole, again = caught(db, None)
    assert floor.state()["requests"] == again.state()["requests"] == 800
    assert floor.state()["offloaded"] == 400
    assert floor.state()["judged"] == again.state()["judged"]
    assert continued.cap == pytest.approx(whole.cap, abs=0.05)
    assert (continued.last_choice, continued.last_outcome) == (whole.last_choice, whole.last_outcome)
    assert continued.at_s == 5000.0


def test_the_lag_grows_with_the_pace_of_the_traffic(db: Database) -> None:
    filled(db, 0, 100)
    first, _ = caught(db, None)
    filled(db, 100, 300)
    row, floor = caught(db, dataclasses.replace(first, at_s=89.0))
    assert 100 < floor.state()["lag_requests"] < 1200
    assert row.cap == floor.offload_cap()


def test_nothing_new_changes_nothing(db: Database) -> None:
    filled(db, 0, 100)
    first, _ = caught(db, None)
    second, _ = caught(db, first)
    assert second == first
    assert caught(db, first, now_s=200.0)[0].cap == first.cap


def test_a_row_that_is_broken_or_of_another_promise_is_computed_anew(db: Database) -> None:
    filled(db, 0, 100)
    right, _ = caught(db, None)
    broken = FloorRow("a1", "gpt-4o", 1.0, 0.5, "holds", 50, 20, "{")
    assert caught(db, broken)[0] == right
    # Of a log that was trimmed since, nothing is left to read: it takes the old one's place all the same.
    later = FloorRow("a1", "gpt-4o", 1.0, 0.5, "holds", 5000, 2000, "{")
    assert QualityFloors(db).put(later).result(30)
    assert QualityFloors(db).put(caught(db, later)[0]).result(30)
    _, other = caught(db, right, FloorSettings(0.1, 0.05, judged_share=0.5, lag_requests=20))
    assert other.state()["requests"] == 100
    assert other.state()["x"] == 0.1


def test_judging_that_is_rarer_than_was_said_is_taken_at_what_it_was(db: Database) -> None:
    filled(db, 0, 100, probability=0.25)
    row, floor = caught(db, None)
    assert floor.settings.judged_share == 0.25
    assert floor.state()["requests"] == 100
    filled(db, 100, 120)
    assert caught(db, row)[1].settings.judged_share == 0.25
    assert caught(db, row)[1].state()["requests"] == 120


def test_only_what_a_known_coin_found_of_served_offloaded_answers_counts() -> None:
    fine = outcome_record(1, engine="small", source="judge", quality=0.75, probability=0.5)
    others = [
        outcome_record(2, engine="large", source="judge"),
        outcome_record(3, engine="small", source="user"),
        outcome_record(4, engine="small", source="judge", served=False),
        outcome_record(5, engine="small", source="label", key="review:thumb:1", probability=0.01),
    ]
    [found] = judgements([fine, *others], "large", 0.5)
    assert (found.deficit, found.probability) == (0.25, 0.5)
