"""A useless engine is reported within so many outcomes, a good one never, whoever says how good it is."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from learning.guarantee.quality_alarm import FEWEST, QualityStanding, quality_standings
from store import Store
from store.records import OutcomeRecord
from store.sums import DAY_S
from tests.store.rows import request_record

NOW = 1_700_000_000.0
REFERENCES = {"demo": "large"}
BAR = 0.9


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    opened = Store.open(tmp_path)
    yield opened
    opened.close()


class Log:
    """Outcomes of requests to one model."""

    def __init__(self, store: Store, tenant: str = "a1") -> None:
        self._store = store
        self._tenant = tenant
        self.count = 0

    def note(
        self,
        qualities: list[float],
        source: str = "judge",
        engine: str = "small",
        *,
        at_s: float = NOW - 600,
        apart_s: float = 1.0,
        probability: float = 0.2,
        failed_over: str = "",
    ) -> None:
        outcomes = []
        for quality in qualities:
            self.count += 1
            id = f"{self._tenant}-{self.count}"
            row = request_record(
                self.count,
                id=id,
                tenant=self._tenant,
                model="demo",
                policy="fixed",
                engine=engine,
                failed_over=failed_over,
            )
            self._store.decisions.requests.record(row)
            when_s = at_s + len(outcomes) * apart_s
            outcomes.append(
                OutcomeRecord(
                    *(id, self._tenant, when_s, source, "k", engine, (), True, quality),  # type: ignore[arg-type]
                    probability=probability if source == "judge" else 1.0,
                )
            )
        self._store.outcomes.note_many(outcomes).result(60)
        while self._store.decisions.quality.catch_up():
            pass

    def standings(self, now_s: float = NOW, tenant: str | None = None) -> list[QualityStanding]:
        return quality_standings(self._store.decisions.quality, REFERENCES, BAR, now_s, tenant=tenant)


def drawn(seed: int, share_good: float, count: int) -> list[float]:
    rng = random.Random(seed)
    return [float(rng.random() < share_good) for _ in range(count)]


@pytest.mark.parametrize(("source", "within"), [("judge", 100), ("user", 200)])
@pytest.mark.parametrize("share_good", [0.0, 0.3])
def test_a_useless_engine_is_critical_within_so_many_outcomes(
    store: Store, source: str, within: int, share_good: float
) -> None:
    log = Log(store)
    log.note(drawn(1, share_good, within), source)
    (found,) = log.standings()
    assert found.level == "critical" and found.latest.count == within
    assert found.latest.low <= found.latest.mean <= found.latest.high < BAR
    assert found.by == ("judge" if source == "judge" else "feedback")


def test_one_that_becomes_useless_is_critical_within_so_many_however_long_it_was_good(store: Store) -> None:
    log = Log(store)
    log.note([1.0] * 600, at_s=NOW - 2 * DAY_S, apart_s=60)
    assert [one.level for one in log.standings()] == ["good"]
    log.note([0.0] * 100)
    (found,) = log.standings()
    assert found.level == "critical" and found.latest.count == 100 and found.week.count == 700


@pytest.mark.parametrize("source", ["judge", "user"])
def test_a_good_engine_never_is_in_twenty_seeds_at_any_look(store: Store, source: str) -> None:
    for seed in range(20):
        tenant = f"t{seed}"
        log = Log(store, tenant)
        values = drawn(seed, 0.96, 300)
        for look in range(10):
            log.note(values[30 * look : 30 * look + 30], source, at_s=NOW - 9_000 + 840 * look)
            levels = [one.level for one in log.standings(NOW - 8_900 + 840 * look, tenant)]
            assert levels in (["good"], ["warning"]), (seed, look)
    assert [one.level for one in log.standings()] == ["good"]


def test_below_the_bar_is_a_warning_and_so_is_a_fall_since_last_week(store: Store) -> None:
    log = Log(store)
    log.note([1.0] * 88 + [0.0] * 12)
    (found,) = log.standings()
    assert found.level == "warning" and not found.fallen

    fallen = Log(store, "b2")
    fallen.note([1.0] * 300, at_s=NOW - 10 * DAY_S)
    fallen.note(([1.0] * 14 + [0.0]) * 20, at_s=NOW - 2 * DAY_S)
    (found,) = fallen.standings(tenant="b2")
    assert found.level == "warning" and found.fallen
    assert found.latest.mean > BAR and found.week_before is not None and found.week_before.mean == 1.0


def test_few_outcomes_claim_nothing_and_none_are_not_listed(store: Store) -> None:
    log = Log(store)
    assert log.standings() == []
    log.note([0.0] * (FEWEST - 1))
    assert [one.level for one in log.standings()] == ["not known yet"]
    assert log.standings(NOW + 30 * DAY_S) == []


def test_the_references_own_and_failed_over_answers_are_not_offloaded(store: Store) -> None:
    log = Log(store)
    log.note([0.0] * 50, "user", "large")
    log.note([0.0] * 50, failed_over="large; server")
    assert log.standings() == []


def test_people_who_praise_nobody_do_not_condemn_an_engine_that_is_no_worse_than_the_reference(
    store: Store,
) -> None:
    log = Log(store)
    log.note(drawn(3, 0.7, 150), "user")
    assert [one.level for one in log.standings()] == ["critical"]
    log.note(drawn(4, 0.7, 150), "user", "large")
    (found,) = log.standings()
    assert found.level != "critical" and found.bar < 0.75


def test_judges_people_and_reviewers_are_told_apart_and_the_worst_comes_first(store: Store) -> None:
    log = Log(store)
    for source, value in (("judge", 1.0), ("user", 0.0), ("label", 0.85)):
        log.note([value] * 60, source)
    assert [(one.by, one.level) for one in log.standings()] == [
        ("feedback", "critical"),
        ("review", "warning"),
        ("judge", "good"),
    ]
