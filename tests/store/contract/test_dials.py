"""The latest turn is in force until it is taken back, and what no dial has is refused."""

from __future__ import annotations

import pytest

from store import Store
from store.errors import ValueRefused
from store.learned.dials import ChangedMeanwhile, TurnedDials


def test_taking_back_brings_what_was_in_force_before(store: Store) -> None:
    log = store.dials
    assert log.in_force("m") is None and not log.take_back("m", "ben").result(30)
    first = log.turn(TurnedDials("m", 1.0, "ann", preference=0.25)).result(30)
    second = log.turn(TurnedDials("m", 2.0, "ann", theta=0.9, m=2, max_examples=0)).result(30)
    assert log.in_force("m") == second and log.in_force("other") is None
    assert log.take_back("m", "ben").result(30) and log.in_force("m") == first
    assert log.take_back("m", "ben").result(30) and log.in_force("m") is None
    taken = log.history("m")
    assert [row.id for row in taken] == [second.id, first.id] and {row.taken_back_by for row in taken} == {
        "ben"
    }


@pytest.mark.parametrize("wrong", [{"preference": 1.5}, {"theta": -2.0}, {"m": 0}, {"max_examples": -1}])
def test_what_no_dial_has_is_refused_and_changes_nothing(store: Store, wrong: dict[str, float]) -> None:
    log = store.dials
    with pytest.raises(ValueRefused):
        log.turn(TurnedDials("m", 1.0, "ann", **wrong)).result(30)  # type: ignore[arg-type]
    assert log.in_force("m") is None


def test_a_tenants_own_stand_beside_the_models_and_go_with_the_tenant(store: Store) -> None:
    log = store.dials
    log.turn(TurnedDials("m", 1.0, "ann", preference=0.25)).result(30)
    own = log.turn(TurnedDials("m", 2.0, "ann", preference=0.75, tenant="a1")).result(30)
    log.turn(TurnedDials("m", 3.0, "ann", m=2, tenant="a2")).result(30)
    assert log.in_force("m", "a1") == own and log.in_force("m", "a3") is None
    everybody = log.in_force("m")
    assert everybody is not None and everybody.preference == 0.25
    assert set(log.of_tenants("m")) == {"a1", "a2"} and not log.of_tenants("other")
    assert [row.tenant for row in log.history("m")] == ["a2", "a1", ""]
    assert log.take_back("m", "ben", "a2").result(30) and set(log.of_tenants("m")) == {"a1"}
    store.forget_tenant("a1")
    assert not log.of_tenants("m") and log.in_force("m") == everybody
    assert log.forget_tenant("").result(30) == 0 and log.in_force("m") == everybody


def test_who_decided_on_what_is_no_longer_in_force_is_told(store: Store) -> None:
    log = store.dials
    for tenant in ("", "a1"):
        first = log.turn(TurnedDials("m", 1.0, "ann", m=2, tenant=tenant), instead_of=0).result(30)
        with pytest.raises(ChangedMeanwhile) as told:
            log.turn(TurnedDials("m", 2.0, "ben", m=3, tenant=tenant), instead_of=0).result(30)
        assert told.value.now == first
        second = log.turn(TurnedDials("m", 2.0, "ben", m=3, tenant=tenant), instead_of=first.id).result(30)
        assert log.in_force("m", tenant) == second
