"""Configurations share the engines that are the same for both, and the last one that uses an engine closes it."""

from __future__ import annotations

import pytest

from engines.engine import Engine
from engines.pool import EnginePool
from engines.student import StudentEngine


class Closing(StudentEngine):
    def __init__(self, told: list[str], name: str, *, fails: bool = False) -> None:
        super().__init__()
        self._told, self._name, self._fails = told, name, fails

    async def aclose(self) -> None:
        self._told.append(self._name)
        if self._fails:
            raise OSError("no")


async def test_an_engine_that_did_not_change_is_the_same_one_and_outlives_the_first_that_used_it() -> None:
    told: list[str] = []
    pool = EnginePool()
    before, now = pool.borrow(), pool.borrow()
    first = before.lend("a", ("settings", 1), lambda: Closing(told, "a1"))
    assert now.lend("a", ("settings", 1), lambda: Closing(told, "never")) is first
    other = now.lend("b", ("settings", 2), lambda: Closing(told, "b"))
    assert first in before and first in now and other not in before
    await before.aclose()
    assert told == []
    await before.aclose()
    await now.aclose()
    assert sorted(told) == ["a1", "b"]
    again = pool.borrow().lend("a", ("settings", 1), lambda: Closing(told, "a2"))
    assert again is not first, "a closed one is never lent"


async def test_other_settings_make_another_engine_of_the_same_name() -> None:
    pool = EnginePool()
    before, now = pool.borrow(), pool.borrow()
    first: Engine = before.lend("a", 1, StudentEngine)
    assert now.lend("a", 2, StudentEngine) is not first


async def test_all_are_closed_though_one_fails_to() -> None:
    told: list[str] = []
    borrowed = EnginePool().borrow()
    borrowed.lend("a", 1, lambda: Closing(told, "a", fails=True))
    borrowed.lend("b", 1, lambda: Closing(told, "b", fails=True))
    with pytest.raises(ExceptionGroup):
        await borrowed.aclose()
    assert sorted(told) == ["a", "b"]
