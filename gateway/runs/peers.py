"""Passes a request on to the worker that has a run's values in its memory only (no-store).

It goes over a Unix socket in the data folder, as it came, with its credential, and is judged there as at the front door.
Nothing is passed on twice.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path

import aiohttp
import structlog
from aiohttp import web
from multidict import CIMultiDict
from yarl import URL

from engines.headers import HOP_BY_HOP, request_headers
from gateway.relay import relay_for
from gateway.server import ServerLimits, serve

log = structlog.get_logger(__name__)

PASSED_ON = "x-understudy-passed-on"
"""Marks a request that came from another worker. A client that sends it is answered with what its worker has."""
_CONNECT_S = 2.0
_MODE = 0o600


class PeerGone(Exception):
    """The other worker does not answer: it has ended, and with it the values."""


class Peers:
    """`folder`: of the sockets, one for each worker. `start` inside the running loop; `aclose` at the end."""

    def __init__(self, folder: Path, owner: str) -> None:
        self._folder = folder
        self._owner = owner
        self._fd = -1
        self._stop = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._connectors: dict[str, aiohttp.UnixConnector] = {}

    def listen(
        self, handle: Callable[[web.BaseRequest], Awaitable[web.StreamResponse]], limits: ServerLimits
    ) -> None:
        """Take requests of other workers, where sockets can be made in the folder. Inside the running loop."""
        try:
            self._open()
            _clear(self._folder)
            sock = self._bound(Path(self._path(self._owner)))
        except OSError as error:
            log.warning("peers_not_listening", error=error)
            return
        serving = serve(handle, limits, sock=sock, stop=self._stop)
        self._task = asyncio.get_running_loop().create_task(serving, name="peers")

    def _bound(self, name: Path) -> socket.socket:
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        sock.bind(str(name))
        name.chmod(_MODE)
        sock.setblocking(False)
        return sock

    async def aclose(self) -> None:
        """Refuse further ones, and let open ones finish."""
        self._stop.set()
        task, self._task = self._task, None
        if task is not None:
            await asyncio.wait([task])
            _remove(self._folder / self._owner)
        for connector in self._connectors.values():
            await connector.close()
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    async def pass_on(self, request: web.BaseRequest, owner: str, body: bytes | None) -> web.StreamResponse:
        """The answer of the worker `owner`, sent on as it comes. Raises PeerGone before anything is sent."""
        headers = request_headers(request.headers)
        headers[PASSED_ON] = self._owner
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_S)
        connector = self._connector(owner)
        session = aiohttp.ClientSession(connector=connector, connector_owner=False, auto_decompress=False)
        async with session:
            try:
                url = URL(f"http://worker{request.raw_path}", encoded=True)
                answering = session.request(
                    request.method, url, headers=headers, data=body, timeout=timeout, allow_redirects=False
                )
                answer = await answering
            except (aiohttp.ClientError, OSError, TimeoutError) as error:
                raise PeerGone from error
            async with answer:
                kept = [(n, value) for n, value in answer.headers.items() if n.lower() not in HOP_BY_HOP]
                send = relay_for(request)
                write = await send.begin(answer.status, CIMultiDict(kept), answer.reason)
                async for chunk in answer.content.iter_any():
                    await write(chunk)
                return send.response

    def _connector(self, owner: str) -> aiohttp.UnixConnector:
        self._open()
        if owner not in self._connectors:
            self._connectors[owner] = aiohttp.UnixConnector(self._path(owner), limit=0)
        return self._connectors[owner]

    def _open(self) -> None:
        if self._fd < 0:
            self._folder.mkdir(mode=0o700, exist_ok=True)
            self._fd = os.open(self._folder, os.O_RDONLY | os.O_DIRECTORY)

    def _path(self, owner: str) -> str:
        # A socket's path has at most 107 bytes; a data folder's may have more.
        return f"/proc/self/fd/{self._fd}/{owner}"


def _clear(folder: Path) -> None:
    """Remove the sockets of workers that were killed. A socket's name begins with its worker's process id."""
    for found in folder.iterdir():
        pid = found.name.partition("-")[0]
        if pid.isdigit() and not Path(f"/proc/{pid}").exists():
            _remove(found)


def _remove(path: Path) -> None:
    with suppress(OSError):
        path.unlink()


def may_pass_on(request: web.BaseRequest) -> bool:
    """Whether it came from a client, and not from another worker."""
    return PASSED_ON not in request.headers
