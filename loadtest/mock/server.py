"""Runs the mock as a server: binds, says where, and stops on a signal or after its time is up."""

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
    """Serve until SIGINT, SIGTERM or `max_seconds`. Calls `ready(url)` once it listens.

    Raises OSError where the address cannot be bound.
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
    """`serve` on a fresh uvloop."""
    uvloop.run(serve(settings, host, port, max_seconds, ready))
