"""One aiohttp handler as a server on a free port of this machine."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from aiohttp import web

from understudy.processes.listening import bind


@asynccontextmanager
async def aiohttp_server(
    handle: Callable[[web.Request], Awaitable[web.StreamResponse]],
) -> AsyncIterator[str]:
    """Every path goes to `handle`; gives the server's origin."""
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", handle)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    with bind("127.0.0.1", 0) as sock:
        await web.SockSite(runner, sock).start()
        try:
            yield f"http://127.0.0.1:{sock.getsockname()[1]}"
        finally:
            await runner.cleanup()
