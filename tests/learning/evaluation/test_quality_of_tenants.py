"""One bad tenant among hundreds is found within so many judged answers, and of hundreds of good ones none is accused."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from learning.guarantee.quality_alarm import (
    FEWEST,
    QualityStanding,
    quality_of_tenants,
    quality_standings,
    standings_of_tenants,
)
from store import Store
from store.decisions.quality_rollups import EVERYBODY, LatelySums, QualitySums
from store.sums import DAY_S
from tests.learning.guarantee.test_quality_alarm import BAR, NOW, REFERENCES, Log, drawn

TENANTS = 200
SEEDS = 40
NONE: tuple[float, ...] = ()


def sums(values: list[float] | tuple[float, ...]) -> QualitySums:
    """Of answers of which every fifth was judged."""
    w, total, squares = 5.0, sum(values), sum(value * value for value in values)
    count = len(values)
    return QualitySums(
        0,
        "demo",
        "small",
        "judge",
        0,
        count,
        w * count,
        w * total,
        w * w * count,
        w * w * total,
        w * w * squares,
    )


def known(tenant: str, latest: list[float], before: list[float] | tuple[float, ...] = NONE) -> LatelySums:
    return LatelySums(tenant, "demo", "small", "judge", sums(latest), sums(latest), sums(before))


def good_ones(seed: int, share_good: float, count: int) -> list[LatelySums]:
    return [
        known(
            f"t{number}",
            drawn(seed * 1_000 + number, share_good, count),
            drawn(-1 - seed * 1_000 - number, share_good, count),
        )
        for number in range(TENANTS)
    ]


def standings(rows: list[LatelySums]) -> dict[str, QualityStanding]:
    return {one.tenant: one for one in standings_of_tenants(rows, REFERENCES, BAR)}


@pytest.mark.parametrize("count", [FEWEST, 100])
@pytest.mark.parametrize("share_good", [0.96, BAR])
def test_of_two_hundred_good_tenants_none_is_accused_in_forty_seeds(share_good: float, count: int) -> None:
    each_at_95_percent = 0
    for seed in range(SEEDS):
        found = standings(good_ones(seed, share_good, count))
        assert len(found) == TENANTS
        assert {one.level for one in found.values()} == {"good"}, seed
        each_at_95_percent += sum(one.latest.high < BAR for one in found.values())
    if share_good == BAR:
        assert each_at_95_percent > SEEDS, "without the correction each look had accused somebody"


@pytest.mark.parametrize(("share_good", "within"), [(0.3, 30), (0.5, 60), (0.6, 100)])
def test_one_bad_tenant_among_two_hundred_is_critical_within_so_many(share_good: float, within: int) -> None:
    for seed in range(SEEDS):
        rows = good_ones(seed, 0.96, 100)
        rows[seed] = known(f"t{seed}", drawn(77 + seed, share_good, within))
        found = standings(rows)
        assert [one.tenant for one in found.values() if one.level == "critical"] == [f"t{seed}"], seed
        assert next(iter(found)) == f"t{seed}", "the worst comes first"


def test_the_more_are_bad_the_less_it_takes_to_be_warned_of() -> None:
    doubtful = [1.0] * 79 + [0.0] * 21
    assert standings([known("t0", doubtful), *good_ones(1, 0.96, 100)[1:]])["t0"].level == "good"
    bad = [known(f"b{number}", [0.0] * 50 + [1.0] * 50) for number in range(150)]
    found = standings([known("t0", doubtful), *bad, *good_ones(1, 0.96, 100)[151:]])
    assert found["t0"].level == "warning" and found["b3"].level == "critical"


def test_a_tenants_fall_since_last_week_is_a_warning_where_the_intervals_do_not_meet() -> None:
    rows = good_ones(2, 0.98, 100)
    rows[0] = known("t0", [1.0] * 820 + [0.0] * 80, [1.0] * 900)
    rows[1] = known("t1", [1.0] * 94 + [0.0] * 6, [1.0] * 100)
    found = standings(rows)
    assert (found["t0"].level, found["t0"].fallen) == ("warning", True)
    assert (found["t1"].level, found["t1"].fallen) == ("good", False)


def test_a_tenants_feedback_is_held_against_everybodys_where_its_own_on_the_reference_is_too_little() -> None:
    def rated(tenant: str, engine: str, values: list[float]) -> LatelySums:
        return known(tenant, values)._replace(engine=engine, source="user")

    rows = [rated("t0", "small", drawn(1, 0.7, 200))]
    assert standings(rows)["t0"].level == "critical"
    rows.append(rated(EVERYBODY, "large", drawn(2, 0.7, 300)))
    found = standings(rows)["t0"]
    assert found.level == "good" and found.by == "feedback" and found.bar < 0.75


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    opened = Store.open(tmp_path)
    yield opened
    opened.close()


def of_tenants(store: Store) -> dict[str, QualityStanding]:
    found = quality_of_tenants(store.decisions.quality, REFERENCES, BAR, NOW)
    return {one.tenant: one for one in found}


def test_whom_everybody_hides_is_found_and_whoever_is_alone_says_so(store: Store) -> None:
    Log(store, "b1").note([0.0] * 40)
    assert of_tenants(store)["b1"].alone
    Log(store, "g1").note([1.0] * 900, at_s=NOW - 1_000)
    Log(store, "few").note([0.0] * (FEWEST - 1), at_s=NOW - 3 * DAY_S)
    Log(store, "old").note([0.0] * 90, at_s=NOW - 9 * DAY_S)
    (everybody,) = quality_standings(store.decisions.quality, REFERENCES, BAR, NOW)
    assert everybody.level != "critical" and everybody.latest.mean > 0.5
    found = of_tenants(store)
    assert {tenant: one.level for tenant, one in found.items()} == {"b1": "critical", "g1": "good"}
    assert not found["b1"].alone


def test_each_tenants_figures_are_those_of_its_own_overview(store: Store) -> None:
    rng = random.Random(5)
    for tenant, share in (("t1", 0.95), ("t2", 0.6), ("t3", 0.8)):
        log = Log(store, tenant)
        for days in (13, 8, 5, 1, 0.3, 0.01):
            apart_s = rng.choice([1.0, 20.0, 400.0])
            log.note(
                drawn(rng.randrange(999), share, 45), at_s=NOW - days * DAY_S, apart_s=min(apart_s, 15 * days)
            )
    found = of_tenants(store)
    assert set(found) == {"t1", "t2", "t3"}
    for tenant, one in found.items():
        (own,) = quality_standings(store.decisions.quality, REFERENCES, BAR, NOW, tenant=tenant)
        assert (own.latest, own.week, own.week_before, own.bar) == (
            one.latest,
            one.week,
            one.week_before,
            one.bar,
        )
