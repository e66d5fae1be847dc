"""Live updates: whoever listens hears of news, and nobody else costs anything."""

from __future__ import annotations

import asyncio

import pytest

from admin.live import Live, TooManyListeners, events


async def test_every_listener_hears_of_a_commit_and_of_nothing_else() -> None:
    version = 1
    live = Live(lambda: version, look_every_s=0.001)
    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(live.run())
        with live.listening() as one, live.listening() as other:
            await asyncio.sleep(0.02)
            assert not one.is_set()
            version = 2
            async with asyncio.timeout(5):
                await one.wait()
                await other.wait()
        running.cancel()


async def test_nobody_listening_means_nobody_looking() -> None:
    looked = 0

    def version() -> int:
        nonlocal looked
        looked += 1
        return looked

    live = Live(version, look_every_s=0)
    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(live.run())
        await asyncio.sleep(0.02)
        assert looked == 0
        with live.listening() as news:
            async with asyncio.timeout(5):
                await news.wait()
        running.cancel()


def test_listeners_are_bounded_and_forgotten() -> None:
    live = Live(lambda: 1, most=2)
    with live.listening(), live.listening(), pytest.raises(TooManyListeners):
        with live.listening():
            pass
    with live.listening():
        pass


async def test_news_become_events_and_who_is_not_welcome_any_more_is_told() -> None:
    news, welcome = asyncio.Event(), True

    async def still() -> bool:
        return welcome

    stream = events(news, still, heartbeat_s=0.01)
    assert (await anext(stream)).startswith(b"retry:")
    news.set()
    assert await anext(stream) == b"event: news\ndata: \n\n"
    assert await anext(stream) == b": still here\n\n"
    welcome = False
    assert await anext(stream) == b"event: over\ndata: \n\n"
    assert [event async for event in stream] == []
