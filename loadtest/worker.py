"""A client process: gets a plan over its socket, sends requests, and returns batches of results.

Started by loadtest.client_processes. It ends when its socket is closed, so it never outlives the process that started it.
"""

from __future__ import annotations

import asyncio
import gc
import pickle
import signal
import socket
import struct
import sys
import traceback
from typing import Any, cast

import uvloop

from loadtest.client import LoadClient
from loadtest.plan import LoadPlan
from loadtest.records import Batch

_LENGTH = struct.Struct("!I")


def frame(message: object) -> bytes:
    """A message with its length in front. Both ends are ours, on one machine: pickle is safe here."""
    data = pickle.dumps(message, protocol=5)
    return _LENGTH.pack(len(data)) + data


class Frames:
    """Splits a byte stream into messages."""

    def __init__(self) -> None:
        self._buffer = b""

    def feed(self, data: bytes) -> list[Any]:
        """The messages completed by `data`."""
        self._buffer += data
        whole = []
        while len(self._buffer) >= 4:
            end = 4 + _LENGTH.unpack_from(self._buffer)[0]
            if len(self._buffer) < end:
                break
            whole.append(pickle.loads(self._buffer[4:end]))
            self._buffer = self._buffer[end:]
        return whole


class _ParentConnection(asyncio.Protocol):
    """The socket to the parent process."""

    def __init__(self) -> None:
        self.messages: asyncio.Queue[Any] = asyncio.Queue()
        self._frames = Frames()
        self.gone = asyncio.Event()
        self.transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        for message in self._frames.feed(data):
            self.messages.put_nowait(message)

    def connection_lost(self, exc: Exception | None) -> None:
        self.gone.set()
        self.messages.put_nowait(("gone",))

    async def close(self) -> None:
        """Sends what is buffered, then closes."""
        if self.transport is not None:
            self.transport.close()
        await self.gone.wait()

    def send(self, batch: Batch) -> None:
        if self.transport is not None:
            self.transport.write(frame(batch))


async def _work(sock: socket.socket) -> None:
    loop = asyncio.get_running_loop()
    _, parent = await loop.create_connection(_ParentConnection, sock=sock)
    plan, index = cast("tuple[LoadPlan, int]", (await parent.messages.get())[1:])
    try:
        found = await loop.getaddrinfo(plan.target.host, plan.target.port, type=socket.SOCK_STREAM)
        client = LoadClient(plan, index, parent.send)
        gc.collect()
        gc.freeze()
        gc.set_threshold(50_000, 50, 1_000)  # a full collection during the run would make requests late
        parent.send(Batch(worker=index))
        word = await parent.messages.get()
        if word[0] == "go":
            await _run_until_done(client, parent, (found[0][4][0], plan.target.port), word[1])
    except Exception as error:
        parent.send(Batch(worker=index, final=True, failure=f"{type(error).__name__}: {error}"))
        traceback.print_exc()
    await parent.close()


async def _run_until_done(
    client: LoadClient, parent: _ParentConnection, address: tuple[Any, int], start_s: float
) -> None:
    async with asyncio.TaskGroup() as group:
        running = group.create_task(client.run((str(address[0]), address[1]), start_s), name="client")

        async def stop_when_told() -> None:
            while (await parent.messages.get())[0] not in ("stop", "gone"):
                pass
            client.stop()

        stopping = group.create_task(stop_when_told(), name="orders from the parent")
        await running
        stopping.cancel()


def main() -> None:
    """`python -m loadtest.worker FD`: runs on the socket with this file descriptor."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is handled by the parent
    sock = socket.socket(fileno=int(sys.argv[1]))
    sock.setblocking(False)
    uvloop.run(_work(sock))


if __name__ == "__main__":
    main()
