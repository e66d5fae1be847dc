from __future__ import annotations

import dataclasses

import pytest

from store import Store
from store.learned.quality_floors import FloorRow, QualityFloors

ROW = FloorRow("a1", "gpt-4o", 1000.0, 0.4, "limiting", 12, 7, '{"x": 0.05}')


@pytest.fixture
def floors(store: Store) -> QualityFloors:
    return store.quality_floors


def test_an_account_comes_back_as_it_was_kept_and_the_next_takes_its_place(floors: QualityFloors) -> None:
    assert floors.get("a1", "gpt-4o") is None
    assert floors.put(ROW).result(30)
    assert floors.get("a1", "gpt-4o") == ROW
    newer = dataclasses.replace(ROW, at_s=2000.0, cap=1.0, standing="holds", last_choice=20, state="{}")
    assert floors.put(newer).result(30)
    assert floors.all() == [newer]


def test_an_account_that_saw_less_of_the_log_never_takes_anothers_place(floors: QualityFloors) -> None:
    floors.put(ROW).result(30)
    for places in ({"last_choice": 11}, {"last_outcome": 6}):
        assert not floors.put(dataclasses.replace(ROW, cap=0.9, **places)).result(30)
    assert floors.get("a1", "gpt-4o") == ROW


def test_a_tenants_accounts_are_its_own_and_go_with_it(floors: QualityFloors) -> None:
    other = dataclasses.replace(ROW, tenant="b2", cap=0.1)
    floors.put(ROW).result(30)
    floors.put(other).result(30)
    floors.put(dataclasses.replace(ROW, model="o3")).result(30)
    assert [row.model for row in floors.all("a1")] == ["gpt-4o", "o3"]
    assert floors.forget_tenant("a1").result(30) == 2
    assert floors.all() == [other]


@pytest.mark.parametrize(
    "wrong", [{"cap": 1.1}, {"cap": -0.1}, {"cap": float("nan")}, {"at_s": float("inf")}]
)
def test_an_impossible_share_is_refused(floors: QualityFloors, wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="cap"):
        floors.put(dataclasses.replace(ROW, **wrong))  # type: ignore[arg-type]
