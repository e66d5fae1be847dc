"""A client process: takes a plan over its socket, asks, and sends batches of results back. Started by `loadtest.fleet`.

It leaves when its socket closes, so it never outlives the process that started it.
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

from loadtest.asker import Asker
from loadtest.plan import LoadPlan
from loadtest.records import Batch

_LENGTH = struct.Struct("!I")


def frame(message: object) -> bytes:
    """A message with its length in front. Both ends are ours, on one machine: pickle is safe here."""
    data = pickle.dumps(message, protocol=5)
    return _LENGTH.pack(len(data)) + data


class Frames:
    """Cuts a byte stream back into messages."""

    def __init__(self) -> None:
        self._buffer = b""

    def feed(self, data: bytes) -> list[Any]:
        """The messages that have become whole."""
        self._buffer += data
        whole = []
        while len(self._buffer) >= 4:
            end = 4 + _LENGTH.unpack_from(self._buffer)[0]
            if len(self._buffer) < end:
                break
            whole.append(pickle.loads(self._buffer[4:end]))
            self._buffer = self._buffer[end:]
        return whole


class _Line(asyncio.Protocol):
    """The socket to the parent."""

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
        """Send what is still to be sent, then close."""
        if self.transport is not None:
            self.transport.close()
        await self.gone.wait()

    def tell(self, batch: Batch) -> None:
        if self.transport is not None:
            self.transport.write(frame(batch))


async def _work(sock: socket.socket) -> None:
    loop = asyncio.get_running_loop()
    _, line = await loop.create_connection(_Line, sock=sock)
    plan, index = cast("tuple[LoadPlan, int]", (await line.messages.get())[1:])
    try:
        found = await loop.getaddrinfo(plan.target.host, plan.target.port, type=socket.SOCK_STREAM)
        asker = Asker(plan, index, line.tell)
        gc.collect()
        gc.freeze()
        gc.set_threshold(50_000, 50, 1_000)  # a full collection in mid-run would make requests late
        line.tell(Batch(worker=index))
        word = await line.messages.get()
        if word[0] == "go":
            await _ask_until_done(asker, line, (found[0][4][0], plan.target.port), word[1])
    except Exception as error:
        line.tell(Batch(worker=index, final=True, failure=f"{type(error).__name__}: {error}"))
        traceback.print_exc()
    await line.close()


async def _ask_until_done(asker: Asker, line: _Line, address: tuple[Any, int], start_s: float) -> None:
    async with asyncio.TaskGroup() as group:
        asking = group.create_task(asker.run((str(address[0]), address[1]), start_s), name="asker")

        async def obey() -> None:
            while (await line.messages.get())[0] not in ("stop", "gone"):
                pass
            asker.stop()

        obeying = group.create_task(obey(), name="orders from the parent")
        await asking
        obeying.cancel()


def main() -> None:
    """`python -m loadtest.worker FD`."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's affair
    sock = socket.socket(fileno=int(sys.argv[1]))
    sock.setblocking(False)
    uvloop.run(_work(sock))


if __name__ == "__main__":
    main()
