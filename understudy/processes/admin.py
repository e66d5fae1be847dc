"""The process that serves the admin pages, beside the workers: heavy pages never touch a request.

It may die at any moment: nothing of it is needed to answer, and the supervisor starts it again.
"""

from __future__ import annotations

import asyncio
import socket
import sys
import time
from pathlib import Path

import click
import structlog

from admin.app import AdminApp
from admin.passwords import hashed, new_password
from admin.sources import Sources
from store.people.operators import AdminUsers
from understudy.background.housekeeping import Chore, Housekeeper
from understudy.processes.listening import bind
from understudy.settings.admin import AdminSettings
from understudy.settings.config import Config
from understudy.setup.admin import admin

log = structlog.get_logger(__name__)

FIRST_USER = "operator"
_TRY_AGAIN_S = 10.0
_ADD_UP_EVERY_S = 2.0
_TRIM_EVERY_S = 1800.0


def serve_admin(config: Config, gateway_port: int, config_file: Path | None = None) -> int:
    """Serve the pages until SIGTERM or SIGINT. Returns the process's exit status."""
    sock = _bound(config.admin)
    gateway_url = f"http://{config.listen.host}:{gateway_port}"
    with sock, admin(config, sock.getsockname()[1], gateway_url, config_file) as (app, sources):
        assert config.memory is not None
        _first_password(sources.store.operators, config.memory.data_dir)
        lease = sources.store.jobs.leases.lease("rollups")
        chores = Housekeeper(_chores(sources, config.admin), lease=lease)
        chores.start()
        try:
            asyncio.run(_serve(app, sock))
        finally:
            chores.stop()
    return 0


def _chores(sources: Sources, settings: AdminSettings) -> list[Chore]:
    def add_up() -> None:
        while sources.rollups.catch_up() + sources.store.decisions.quality.catch_up():
            # Other processes' writes come between.
            time.sleep(0.01)

    def trim() -> None:
        sources.store.audit.trim(time.time() - settings.advanced.audit_days * 86_400).result(60)

    return [Chore("add_up", _ADD_UP_EVERY_S, add_up), Chore("trim", _TRIM_EVERY_S, trim)]


def _bound(settings: AdminSettings) -> socket.socket:
    """The socket; where the address is taken (another gateway's pages, say) it waits until it is free. Requests go on."""
    told = False
    while True:
        try:
            return bind(settings.host, settings.port)
        except (OSError, OverflowError) as error:
            if not told:
                remedy = "set admin.port to a free one, or admin.enabled to false"
                where = f"{settings.host}:{settings.port}"
                log.warning("admin_cannot_listen", where=where, error=error, remedy=remedy)
            told = True
            time.sleep(_TRY_AGAIN_S)


async def _serve(app: AdminApp, sock: socket.socket) -> None:
    from gateway.server import stop_on_signals

    stop = asyncio.Event()
    stop_on_signals(stop)
    await app.serve(sock, stop)


def _first_password(users: AdminUsers, data: Path | None) -> None:
    """On the terminal and nowhere else: a log is read by many, and kept."""
    if users.any():
        return
    if not sys.stderr.isatty():
        log.warning("admin_without_users", remedy=f"run: understudy admin password --data {data}")
        return
    password = new_password()
    if users.add_first(FIRST_USER, hashed(password)):
        click.echo(
            f"\n  The admin pages' first account, shown this once:\n    name      {FIRST_USER}\n    password  {password}\n",
            err=True,
        )
