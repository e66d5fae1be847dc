"""The latest turn is in force until it is taken back, and what no dial has is refused."""

from __future__ import annotations

import pytest

from store import Store
from store.errors import ValueRefused
from store.learned.dials import TurnedDials


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
