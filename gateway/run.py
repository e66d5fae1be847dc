"""Runs a configured gateway in this process until it is told to stop."""

from __future__ import annotations

import asyncio
import gc
import socket

import click
import uvloop

from gateway.build import Gateway
from gateway.config import Config
from gateway.log import WRITER, log, set_level
from gateway.server import bind, serve, stop_on_signals


def run(config: Config) -> int:
    """Serve until SIGTERM or SIGINT. Returns the process's exit status."""
    set_level(config.log.level)
    listen = config.listen
    try:
        sock = bind(listen.host, listen.port)
    except OSError as error:
        click.echo(f"understudy: cannot listen on {listen.host}:{listen.port}: {error.strerror}", err=True)
        return 2
    try:
        uvloop.run(_main(config, sock))
    finally:
        sock.close()
        WRITER.close()
    return 0


async def _main(config: Config, sock: socket.socket) -> None:

    stop = asyncio.Event()
    stop_on_signals(stop)
    gateway = Gateway(config)
    host, port = sock.getsockname()[:2]
    # Everything built so far lives until the end: keep the collector from walking it again and again.
    gc.collect()
    gc.freeze()
    log("info", "listening", url=f"http://{host}:{port}", prefixes=list(config.listen.prefixes))
    try:
        await serve(gateway.handle, config.listen, sock=sock, stop=stop)
    finally:
        await gateway.aclose()
        log("info", "stopped")
