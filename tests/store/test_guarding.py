"""A guard stands in the context of what it guards, and nowhere else."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from store.guarding import check_here, checked, guarded


class Refusing:
    def __init__(self, error: Exception) -> None:
        self.error: Exception | None = error

    def check(self, connection: Any) -> None:
        self.check_here()

    def check_here(self) -> None:
        if self.error is not None:
            raise self.error


def job(connection: Any) -> int:
    return 7


def test_what_was_handed_over_in_the_block_is_refused_when_it_is_run() -> None:
    guard = Refusing(OSError())
    with guarded(guard):
        run = checked(job)
        with pytest.raises(OSError):
            check_here()
    with pytest.raises(OSError):
        run(None)
    guard.error = None
    assert run(None) == 7
    assert checked(job) is job, "outside nothing is in the way"
    check_here()


def test_each_of_several_is_asked() -> None:
    with guarded(Refusing(OSError())):
        with guarded(Refusing(KeyError())), pytest.raises(OSError):
            checked(job)(None)
        with pytest.raises(OSError):
            checked(job)(None)


async def test_tasks_and_to_thread_are_meant_and_threads_of_their_own_are_not() -> None:
    found: list[bool] = []

    async def task() -> None:
        found.append(checked(job) is job)

    with guarded(Refusing(OSError())):
        async with asyncio.TaskGroup() as group:
            group.create_task(task())
        await asyncio.to_thread(lambda: found.append(checked(job) is job))
        thread = threading.Thread(target=lambda: found.append(checked(job) is job))
        thread.start()
        thread.join()
    assert found == [False, False, True]
