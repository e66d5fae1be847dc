"""Sums of qualities: they say what the log of outcomes says, of everybody, of tenants and of keys."""

from __future__ import annotations

from typing import Any

import pytest

from store import Store
from store.decisions.quality_rollups import EVERYBODY, QualitySums
from store.records import OutcomeRecord
from store.sums import DAY_S, HOUR_S, MINUTE_S
from tests.store.rows import request_record

NOW = 1_700_000_000.0 // DAY_S * DAY_S


def note(store: Store, number: int, quality: float, **changes: Any) -> None:
    """One request of the fixed policy, and what became known of its answer."""
    row = {
        "tenant": "a1",
        "key_id": "k1",
        "policy": "fixed",
        "model": "demo",
        "engine": "small",
        "failed_over": "",
    }
    row |= {name: value for name, value in changes.items() if name in row}
    store.decisions.requests.record(request_record(number, **row)).result(30)
    outcome = {"at_s": NOW + number, "source": "judge", "probability": 1.0, "served": True}
    outcome |= {name: value for name, value in changes.items() if name in outcome}
    store.outcomes.note(
        OutcomeRecord(
            request_id=f"req-{number}",
            tenant=row["tenant"],
            engine=row["engine"],
            key=f"k{number}",
            example_ids=(),
            quality=quality,
            **outcome,
        )
    ).result(30)


def sums(store: Store, **wanted: Any) -> list[QualitySums]:
    while store.decisions.quality.catch_up(3):
        pass
    return store.decisions.quality.sums(DAY_S, NOW, by_time=False, **wanted)


def test_sums_are_those_of_a_weighted_mean_whatever_the_span(store: Store) -> None:
    for number in range(8):
        note(store, 20 * number, 0.5 if number % 2 else 1.0, probability=0.5 if number % 2 else 1.0)
    note(store, 500, 0.0, served=False)
    note(store, 501, 0.0, source="implicit")
    (found,) = sums(store)
    assert found == QualitySums(0, "demo", "small", "judge", 0, 8, 12.0, 8.0, 20.0, 12.0, 8.0)
    for span_s, bars in ((MINUTE_S, 3), (HOUR_S, 1), (DAY_S, 1)):
        rows = store.decisions.quality.sums(span_s, NOW)
        assert len(rows) == bars and sum(row.weight for row in rows) == pytest.approx(12.0)
    assert store.decisions.quality.sums(MINUTE_S, NOW + 60, NOW + 120)[0].outcomes == 3
    assert store.decisions.quality.catch_up() == 0


def test_tenants_keys_models_sources_and_failed_over_answers_stand_apart(store: Store) -> None:
    note(store, 1, 1.0)
    note(store, 2, 0.0, key_id="k2", source="user")
    note(store, 3, 0.5, tenant="b2", failed_over="large; server")
    note(store, 4, 0.5, tenant="b2", model="other", engine="tiny")
    assert {(row.model, row.source, row.failed_over): row.outcomes for row in sums(store)} == {
        ("demo", "judge", 0): 1,
        ("demo", "judge", 1): 1,
        ("demo", "user", 0): 1,
        ("other", "judge", 0): 1,
    }
    assert {row.source for row in sums(store, tenant="a1")} == {"judge", "user"}
    assert [row.source for row in sums(store, tenant="a1", key_id="k2")] == ["user"]
    assert [row.engine for row in sums(store, tenant="b2", model="other")] == ["tiny"]


def test_an_outcome_that_overtook_its_choice_counts_once_and_under_its_model(store: Store) -> None:
    from tests.store.rows import choice_record

    note(store, 1, 1.0, policy="few_shot")
    assert sums(store) == []
    choice = choice_record(1, request_id="req-1", tenant="a1", model="demo")
    store.decisions.choices.record(choice).result(30)
    assert [row.outcomes for row in sums(store)] == [1]


def test_a_forgotten_tenant_leaves_only_what_is_everybodys_and_a_forgotten_key_its_name(store: Store) -> None:
    note(store, 1, 1.0)
    note(store, 2, 0.0, key_id="k2")
    note(store, 3, 0.5, tenant="b2")
    sums(store)
    store.decisions.requests.forget_key("a1", "k2").result(30)
    assert sums(store, tenant="a1", key_id="k2") == []
    assert [row.outcomes for row in sums(store, tenant="a1")] == [2]
    store.outcomes.forget_tenant("a1").result(30)
    assert sums(store, tenant="a1") == []
    assert sum(row.outcomes for row in sums(store)) == 3 and sums(store, tenant=EVERYBODY)


def test_what_is_known_lately_has_the_latest_and_two_periods_of_each_with_enough(store: Store) -> None:
    latest = {"judge": 2, "user": 3, "label": 2}
    for number in range(4):
        note(store, 1_000_000 + 3_600 * number, number / 4, tenant="a1", key_id=f"k{number}")
    note(store, 400_000, 0.5, tenant="a1")
    note(store, 400_001, 0.5, tenant="b2", source="user")
    note(store, 1_010_799, 0.0, tenant="b2", source="user", probability=0.5)
    note(store, 1_010_798, 0.0, tenant="c3", failed_over="large; server")
    sums(store)
    now_s, quality = NOW + 1_010_800, store.decisions.quality

    def told(**wanted: Any) -> dict[tuple[str, str], tuple[tuple[int, float], ...]]:
        return {
            (row.tenant, row.source): tuple((one.outcomes, one.quality) for one in row[4:])
            for row in quality.lately(now_s, 7 * DAY_S, latest, **wanted)
        }

    a1 = ((2, 1.25), (4, 1.5), (1, 0.5))
    b2 = ((1, 0.0), (1, 0.0), (1, 0.5))
    assert told() == {
        (EVERYBODY, "judge"): a1,
        (EVERYBODY, "user"): b2,
        ("a1", "judge"): a1,
        ("b2", "user"): b2,
    }
    assert told(tenants=["b2"]) == {("b2", "user"): b2} and told(tenants=["nobody"]) == {}
    assert set(told(fewest=4)) == {(EVERYBODY, "judge"), ("a1", "judge")} and told(fewest=5) == {}


def test_old_sums_go_in_their_time(store: Store) -> None:
    note(store, 1, 1.0)
    sums(store)
    store.decisions.trim_sums(NOW + 4 * HOUR_S).result(30)
    assert store.decisions.quality.sums(MINUTE_S, NOW) == [] != store.decisions.quality.sums(HOUR_S, NOW)
    store.decisions.trim_sums(NOW + 41 * DAY_S).result(30)
    assert sums(store) and store.decisions.quality.sums(HOUR_S, NOW) == []
