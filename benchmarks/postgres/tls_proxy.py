"""TLS in front of a PostgreSQL server that has none: `with tls_proxy(port, certificate) as listening: ...`.

A client asks for TLS with eight bytes (PostgreSQL, Message Formats, SSLRequest), and is told S or N. Only bytes pass here.
"""

from __future__ import annotations

import asyncio
import ssl
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

_REQUEST = (8).to_bytes(4, "big") + (80877103).to_bytes(4, "big")
_PIECE_BYTES = 1 << 16


@dataclass(frozen=True)
class Certificate:
    """Signed by itself: files of the certificate, which clients trust as `sslrootcert`, and of its key."""

    file: Path
    key: Path


def certificate(folder: Path, name: str) -> Certificate:
    """A new one for a host's name. Needs the program openssl. Raises CalledProcessError, FileNotFoundError."""
    made = Certificate(folder / f"{name}.pem", folder / f"{name}.key")
    command = (
        "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 "
        f"-subj /CN={name} -addext subjectAltName=DNS:{name} -keyout {made.key} -out {made.file}"
    )
    subprocess.run(command.split(), check=True, capture_output=True)
    return made


@contextmanager
def tls_proxy(port: int, shown: Certificate | None) -> Iterator[int]:
    """The port of 127.0.0.1 that leads to `port` over TLS, while the block runs. None: one that refuses TLS."""
    context = None
    if shown is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(shown.file, shown.key)
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="tls-proxy", daemon=True)
    thread.start()
    try:
        listening = asyncio.run_coroutine_threadsafe(_listening(port, context), loop).result(10)
        try:
            yield int(listening.sockets[0].getsockname()[1])
        finally:
            asyncio.run_coroutine_threadsafe(_ended(listening), loop).result(10)
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


async def _listening(port: int, context: ssl.SSLContext | None) -> asyncio.Server:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            try:
                await _carried(reader, writer, port, context)
            finally:
                writer.close()

    return await asyncio.start_server(serve, "127.0.0.1", 0)


async def _carried(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, port: int, context: ssl.SSLContext | None
) -> None:
    first = await reader.readexactly(len(_REQUEST))
    if first == _REQUEST:
        writer.write(b"N" if context is None else b"S")
        await writer.drain()
        if context is not None:
            await writer.start_tls(context)
        first = b""
    to_server, from_client = await asyncio.open_connection("127.0.0.1", port)
    from_client.write(first)
    try:
        async with asyncio.TaskGroup() as both:
            both.create_task(_piped(reader, from_client))
            both.create_task(_piped(to_server, writer))
    finally:
        from_client.close()


async def _piped(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Until one side ends; the other direction ends with it."""
    while piece := await reader.read(_PIECE_BYTES):
        writer.write(piece)
        await writer.drain()
    writer.close()


async def _ended(listening: asyncio.Server) -> None:
    listening.close()
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)
