"""A deadline follows what the work takes on this machine, and is no shorter for an event loop that is held up."""

import asyncio
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor

import pytest

from router.deadline import LEAST_S, MOST_S, Deadline


@pytest.fixture
def threads() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(1) as made:
        yield made


def test_it_is_a_multiple_of_what_nearly_all_took_within_its_bounds() -> None:
    deadline = Deadline()
    assert deadline.measured_s == LEAST_S
    for n in range(4000):
        deadline.took(0.005 if n % 20 else 0.030)
    assert LEAST_S <= deadline.measured_s <= 0.030 * 8
    for _ in range(100):
        deadline.took(0.030)
    assert 0.2 < deadline.measured_s < 0.3
    for _ in range(100):
        deadline.took(2.0)
    assert deadline.measured_s == MOST_S
    for _ in range(2000):
        deadline.took(0.001)
    assert deadline.measured_s == LEAST_S


async def test_what_ran_alone_is_measured(threads: ThreadPoolExecutor) -> None:
    deadline = Deadline()
    for _ in range(3):
        await deadline.run(threads, time.sleep, 30.0, 0.02)
    assert deadline.measured_s >= 8 * 0.02 * 0.9


async def test_who_waits_beside_another_is_not_measured(threads: ThreadPoolExecutor) -> None:
    deadline, first = Deadline(), threading.Event()
    waiting = asyncio.create_task(deadline.run(threads, first.wait, 30.0))
    while not deadline._waiting:
        await asyncio.sleep(0)
    slow = asyncio.create_task(deadline.run(threads, time.sleep, 30.0, 0.2))
    waiting.cancel()
    first.set()
    await slow
    assert deadline.measured_s == LEAST_S


async def test_a_set_deadline_stands_whatever_was_measured(threads: ThreadPoolExecutor) -> None:
    deadline, hang = Deadline(), threading.Event()
    try:
        with pytest.raises(TimeoutError, match="within 10 ms"):
            await deadline.run(threads, hang.wait, 0.01)
    finally:
        hang.set()


async def test_work_that_is_late_is_not_begun_any_more(threads: ThreadPoolExecutor) -> None:
    deadline, hang, begun = Deadline(), threading.Event(), threading.Event()
    busy = threads.submit(hang.wait)
    with pytest.raises(TimeoutError):
        await deadline.run(threads, begun.set, 0.01)
    hang.set()
    await asyncio.wrap_future(busy)
    await asyncio.wrap_future(threads.submit(int))
    assert not begun.is_set()


async def test_work_done_while_the_loop_was_held_up_is_not_late() -> None:
    deadline, work = Deadline(), Future[str]()
    waiting = asyncio.create_task(deadline.wait(work, 0.01))
    await asyncio.sleep(0)
    time.sleep(0.05)
    work.set_result("done")
    assert await waiting == "done"


async def test_work_gets_the_time_that_the_loop_was_held_up() -> None:
    deadline, work = Deadline(), Future[str]()
    waiting = asyncio.create_task(deadline.wait(work, 0.01))
    await asyncio.sleep(0)
    time.sleep(0.5)
    asyncio.get_running_loop().call_later(0.05, work.set_result, "done")
    assert await waiting == "done"


async def test_what_the_work_raises_is_raised(threads: ThreadPoolExecutor) -> None:
    with pytest.raises(ValueError, match="invalid literal"):
        await Deadline().run(threads, int, None, "no number")
