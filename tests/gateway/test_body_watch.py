"""A body that somebody waits for must go on coming; one that nobody reads yet may take its time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import cast

import pytest
from aiohttp import StreamReader
from aiohttp.base_protocol import BaseProtocol

from engines.errors import RequestError
from gateway.body_watch import BodyWatch


class Clock:
    """The time of a loop that passes when a test says so."""

    def __init__(self) -> None:
        self.now = 0.0
        self.due: list[tuple[float, Callable[[], None]]] = []

    def time(self) -> float:
        return self.now

    def call_later(self, delay_s: float, call: Callable[[], None]) -> None:
        self.due.append((self.now + delay_s, call))

    async def passes(self, seconds: float) -> None:
        end = self.now + seconds
        while self.due and self.due[0][0] <= end:
            self.now, call = self.due.pop(0)
            call()
            await asyncio.sleep(0)
        self.now = end


def watched(clock: Clock) -> StreamReader:
    loop = asyncio.get_running_loop()
    protocol = BaseProtocol(loop)
    protocol.connection_made(asyncio.Transport())
    body = StreamReader(protocol, 2**16, loop=loop)
    BodyWatch(cast(asyncio.AbstractEventLoop, clock), body, 30.0)
    return body


async def test_who_waits_in_vain_is_told_and_each_byte_begins_a_new_gap() -> None:
    clock = Clock()
    body = watched(clock)
    reading = asyncio.create_task(body.read())
    await asyncio.sleep(0)
    for _ in range(6):
        await clock.passes(29.0)
        assert not reading.done()
        body.feed_data(b"x")
        await asyncio.sleep(0)
    await clock.passes(45.0)
    with pytest.raises(RequestError, match="for 30 s") as told:
        await reading
    assert (told.value.status, told.value.code) == (408, "request_timeout") and not clock.due


async def test_a_whole_body_is_not_looked_at_any_more() -> None:
    clock = Clock()
    body = watched(clock)
    body.feed_data(b"x")
    body.feed_eof()
    await clock.passes(100.0)
    assert await body.read() == b"x" and not clock.due


async def test_while_nobody_reads_it_is_not_the_clients_pause() -> None:
    clock = Clock()
    body = watched(clock)
    await clock.passes(1000.0)
    assert body.exception() is None
