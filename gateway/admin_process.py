"""The process that serves the admin pages, beside the workers: heavy pages never touch a request.

It may die at any moment: nothing of it is needed to answer, and the supervisor starts it again.
"""

from __future__ import annotations

import asyncio
import socket
import sys
import time

import click
from aiohttp import web

from admin.app import AdminApp
from admin.passwords import hashed, new_password
from gateway.admin_setup import admin
from gateway.config import Config
from gateway.config_admin import AdminSettings
from gateway.log import log
from store.admin_users import AdminUsers

FIRST_USER = "operator"
_TRY_AGAIN_S = 10.0


def serve_admin(config: Config, gateway_port: int) -> int:
    """Serve the pages until SIGTERM or SIGINT. Returns the process's exit status."""
    sock = _bound(config.admin)
    gateway_url = f"http://{config.listen.host}:{gateway_port}"
    with sock, admin(config, sock.getsockname()[1], gateway_url) as (app, sources):
        _first_password(sources.users)
        asyncio.run(_serve(app, sock))
    return 0


def _bound(settings: AdminSettings) -> socket.socket:
    """The socket; where the address is taken (another gateway's pages, say) it waits until it is free. Requests go on."""
    from gateway.run import bind

    told = False
    while True:
        try:
            return bind(settings.host, settings.port)
        except (OSError, OverflowError) as error:
            if not told:
                remedy = "set admin.port to a free one, or admin.enabled to false"
                where = f"{settings.host}:{settings.port}"
                log("warning", "admin_cannot_listen", where=where, error=error, remedy=remedy)
            told = True
            time.sleep(_TRY_AGAIN_S)


async def _serve(app: AdminApp, sock: socket.socket) -> None:
    from gateway.server import stop_on_signals

    stop = asyncio.Event()
    stop_on_signals(stop)
    runner = web.AppRunner(
        app.app, handle_signals=False, access_log=None, shutdown_timeout=1, handler_cancellation=True
    )
    await runner.setup()
    try:
        await web.SockSite(runner, sock).start()
        host, port = sock.getsockname()[:2]
        log("info", "admin_listening", url=f"http://{f'[{host}]' if ':' in host else host}:{port}")
        async with asyncio.TaskGroup() as tasks:
            live = tasks.create_task(app.live.run(), name="live")
            await stop.wait()
            live.cancel()
    finally:
        await runner.cleanup()


def _first_password(users: AdminUsers) -> None:
    """On the terminal and nowhere else: a log is read by many, and kept."""
    if users.any():
        return
    if not sys.stderr.isatty():
        log("warning", "admin_without_users", remedy="run: understudy admin password --data DIR")
        return
    password = new_password()
    if users.add_first(FIRST_USER, hashed(password)):
        click.echo(
            f"\n  The admin pages' first account, shown this once:\n    name      {FIRST_USER}\n    password  {password}\n",
            err=True,
        )
