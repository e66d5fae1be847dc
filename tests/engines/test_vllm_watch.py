"""A server is watched while it is used, no longer, and what is old is not believed."""

from __future__ import annotations

import asyncio

from engines.vllm_watch import Watch


class Reader:
    """Counts its readings; fails while told to."""

    def __init__(self) -> None:
        self.readings = 0
        self.broken = False
        self.read_again = asyncio.Event()

    async def __call__(self) -> int:
        self.readings += 1
        self.read_again.set()
        if self.broken:
            raise RuntimeError("no reading")
        return self.readings

    async def next(self) -> None:
        self.read_again.clear()
        await self.read_again.wait()


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


async def test_nothing_is_read_before_anybody_asks() -> None:
    reader = Reader()
    watch = Watch(reader, period_s=0.001)
    await asyncio.sleep(0.01)
    assert reader.readings == 0 and watch.latest() is None and not watch.watching


async def test_it_reads_again_and_again_while_in_use_and_only_in_one_task() -> None:
    reader = Reader()
    watch = Watch(reader, period_s=0.001)
    for _ in range(3):
        watch.used()
    for _ in range(3):
        await reader.next()
    assert watch.latest() is not None
    assert len([task for task in asyncio.all_tasks() if task.get_name() == "watch"]) == 1
    await watch.aclose()


async def test_it_ends_when_nobody_asks_any_more_and_begins_anew() -> None:
    reader, clock = Reader(), Clock()
    watch = Watch(reader, period_s=0.001, idle_s=30, clock=clock)
    watch.used()
    await reader.next()
    clock.now += 31
    async with asyncio.timeout(60):
        while watch.watching:
            await asyncio.sleep(0.001)
    watch.used()
    await reader.next()
    await watch.aclose()


async def test_an_old_reading_is_none() -> None:
    reader, clock = Reader(), Clock()
    watch = Watch(reader, period_s=0.001, clock=clock)
    watch.used()
    await reader.next()
    await asyncio.sleep(0)
    assert watch.latest() is not None
    reader.broken = True
    await reader.next()
    clock.now += 0.0031
    assert watch.latest() is None and watch.failures >= 1
    await watch.aclose()


async def test_closing_ends_a_reading_under_way() -> None:
    async def endless() -> int:
        await asyncio.Event().wait()
        return 0

    watch = Watch(endless, period_s=0.001)
    watch.used()
    await asyncio.sleep(0)
    await watch.aclose()
    assert not watch.watching


def test_outside_an_event_loop_nothing_begins() -> None:
    watch = Watch(Reader(), period_s=1)
    watch.used()
    assert not watch.watching
