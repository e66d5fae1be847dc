"""Who passes a gate that was shut, in which order, and that nobody who leaves takes a place along."""

from __future__ import annotations

import asyncio

import pytest

from engines.errors import Kind
from engines.servers.gate import PROBE_S, Gate, Pass
from tests.engines.asking import Clock
from tests.patience import PATIENCE_S


@pytest.fixture
def gate(clock: Clock) -> Gate:
    return Gate(clock)


def entered(gate: Gate) -> Pass:
    assert gate.lets_through
    passed = gate.enter()
    assert passed is not None
    return passed


def test_an_open_gate_lets_everybody_through_and_nothing_hangs_on_them(gate: Gate) -> None:
    assert gate.lets_through and gate.enter() is None and gate.opens_in_s == 0


def test_one_enters_when_its_time_has_passed_and_its_success_opens_it(gate: Gate, clock: Clock) -> None:
    gate.shut(Kind.OPEN, 10)
    clock.now = 9.9
    assert not gate.lets_through and gate.opens_in_s == pytest.approx(0.1)
    clock.now = 10
    probe = entered(gate)
    assert not gate.lets_through and gate.tested and gate.probing
    probe.succeeded()
    assert gate.kind is None and gate.lets_through


def test_a_probe_that_is_not_decided_makes_room_for_the_next_one(gate: Gate, clock: Clock) -> None:
    gate.shut(Kind.OPEN, 10)
    clock.now = 10
    slow = entered(gate)
    clock.now = 10 + PROBE_S
    entered(gate)
    assert not gate.lets_through
    slow.succeeded()
    assert gate.kind is None, "late, and yet it answered"


def test_a_probe_whose_client_leaves_is_followed_by_another(gate: Gate, clock: Clock) -> None:
    gate.shut(Kind.OPEN, 10)
    clock.now = 10
    entered(gate).abandoned()
    entered(gate)


def test_an_outcome_from_before_it_was_shut_again_decides_nothing(gate: Gate, clock: Clock) -> None:
    gate.shut(Kind.OPEN, 10)
    clock.now = 10
    late = entered(gate)
    gate.shut(Kind.OPEN, 10)
    assert not late.decides
    late.succeeded()
    assert gate.kind is Kind.OPEN and not gate.lets_through


async def test_those_who_wait_enter_in_doubling_steps() -> None:
    gate = Gate()
    gate.shut(Kind.LIMITED, 0.05)
    inside: list[Pass] = []
    steps: list[int] = []

    async def one() -> None:
        passed = await gate.wait(PATIENCE_S, for_time=True)
        if passed is not None:
            inside.append(passed)

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(one()) for _ in range(14)]
        while not all(task.done() for task in tasks):
            await asyncio.sleep(0.01)
            if inside:
                steps.append(len(inside))
                now, inside[:] = inside[:], []
                for passed in now:
                    passed.succeeded()
    assert steps[0] == 1 and steps[1] == 2 and steps[2] == 4
    assert gate.waiting == 0
    for passed in inside:
        passed.succeeded()
    assert gate.kind is None


async def test_who_waits_is_told_as_soon_as_it_is_in_vain() -> None:
    gate = Gate()
    gate.shut(Kind.LIMITED, 60)
    with pytest.raises(TimeoutError):
        await gate.wait(5, for_time=True)
    gate.shut(Kind.OPEN, 1)
    with pytest.raises(TimeoutError):
        await gate.wait(5, for_time=False)


async def test_those_who_wait_for_a_probe_leave_when_it_fails() -> None:
    gate = Gate()
    gate.shut(Kind.OPEN, 0)
    entered(gate)
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(_waits(gate)) for _ in range(5)]
        while gate.waiting < 5:
            await asyncio.sleep(0.01)
        gate.shut(Kind.OPEN, 10)
    assert [task.result() for task in tasks] == [False] * 5


async def _waits(gate: Gate) -> bool:
    try:
        await gate.wait(PATIENCE_S, for_time=False)
    except TimeoutError:
        return False
    return True


async def test_who_leaves_while_waiting_takes_no_place_along() -> None:
    """Also at the very moment when it was let in."""
    gate = Gate()
    gate.shut(Kind.OPEN, 0)
    probe = entered(gate)
    async with asyncio.TaskGroup() as group:
        first = group.create_task(_waits(gate))
        second = group.create_task(_waits(gate))
        while gate.waiting < 2:
            await asyncio.sleep(0.01)
        probe.abandoned()
        assert gate.waiting == 1, "the first was let in, and has not run yet"
        first.cancel()
    assert first.cancelled() and second.result() is True
