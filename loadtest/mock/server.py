"""Runs the mock as a server: binds, reports its URL, and stops on a signal or after a given time."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import Callable

import uvloop

from loadtest.clock import Alarm
from loadtest.mock.protocol import MockProtocol
from loadtest.mock.service import Service
from loadtest.mock.settings import MockSettings


async def serve(
    settings: MockSettings,
    host: str,
    port: int,
    max_seconds: float | None,
    ready: Callable[[str], None],
) -> None:
    """Serves until SIGINT, SIGTERM or `max_seconds`. Calls `ready(url)` once it listens.

    Raises OSError if the address cannot be bound.
    """
    loop = asyncio.get_running_loop()
    alarm = Alarm(loop)
    service = Service(settings, alarm)
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    server = await loop.create_server(lambda: MockProtocol(service), host, port, backlog=4096)
    try:
        bound = server.sockets[0].getsockname()
        name = f"[{bound[0]}]" if ":" in bound[0] else bound[0]
        ready(f"http://{name}:{bound[1]}")
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(stop.wait(), max_seconds)
    finally:
        server.close()
        alarm.close()


def run(
    settings: MockSettings, host: str, port: int, max_seconds: float | None, ready: Callable[[str], None]
) -> None:
    """Runs `serve` on a new uvloop."""
    uvloop.run(serve(settings, host, port, max_seconds, ready))
