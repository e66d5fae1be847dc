"""The loop in virtual time: jumps, order, threads, deadlocks."""

from __future__ import annotations

import asyncio
import time

import pytest

from simulation.virtual_time import NothingLeft, run


def test_an_hour_passes_at_once_and_all_clocks_agree() -> None:
    real = time.monotonic()

    async def main() -> tuple[float, float, float]:
        before = time.time()
        await asyncio.sleep(3600)
        return asyncio.get_running_loop().time(), time.monotonic(), time.time() - before

    assert run(main) == (pytest.approx(3600), pytest.approx(3600), pytest.approx(3600))
    assert time.monotonic() - real < 3600


def test_timers_fire_in_the_order_of_their_times() -> None:
    async def main() -> list[str]:
        told: list[str] = []

        async def tell(name: str, after_s: float) -> None:
            await asyncio.sleep(after_s)
            told.append(f"{name} at {time.monotonic():.3f}")

        async with asyncio.TaskGroup() as group:
            group.create_task(tell("late", 2.0))
            group.create_task(tell("early", 0.5))
        return told

    assert run(main) == ["early at 0.500", "late at 2.000"]


def test_a_timeout_is_in_virtual_time() -> None:
    async def main() -> float:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(100):
                await asyncio.sleep(200)
        return time.monotonic()

    assert run(main) == pytest.approx(100)


def test_work_for_threads_is_done_on_the_spot() -> None:
    async def main() -> tuple[int, float]:
        return await asyncio.to_thread(sum, range(10)), time.monotonic()

    assert run(main) == (45, 0.0)


def test_an_error_of_a_thread_is_raised_where_it_is_awaited() -> None:
    async def main() -> None:
        await asyncio.to_thread(int, "x")

    with pytest.raises(ValueError, match="invalid literal"):
        run(main)


def test_a_deadlock_ends_the_run() -> None:
    async def main() -> None:
        await asyncio.Event().wait()

    with pytest.raises(NothingLeft):
        run(main)


def test_the_clocks_are_the_machines_again_after_a_run() -> None:
    clock = time.monotonic

    async def main() -> None:
        assert time.monotonic is not clock

    run(main)
    assert time.monotonic is clock
