"""The network between a replica and PostgreSQL, as a process: `python -m benchmarks.chaos_postgres.relay PORT TO_PORT`.

Frozen (SIGSTOP), its connections stay open and nothing passes; new ones are taken by the kernel, and nobody speaks on them.
"""

from __future__ import annotations

import asyncio
import sys
from contextlib import suppress

_PIECE_BYTES = 1 << 16


async def _serve(port: int, to_port: int) -> None:
    async def carried(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            try:
                from_server, to_server = await asyncio.open_connection("127.0.0.1", to_port)
                await asyncio.gather(_piped(reader, to_server), _piped(from_server, writer))
            finally:
                writer.close()

    async with await asyncio.start_server(carried, "127.0.0.1", port, reuse_address=True) as server:
        await server.serve_forever()


async def _piped(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while piece := await reader.read(_PIECE_BYTES):
            writer.write(piece)
            await writer.drain()
    writer.close()


if __name__ == "__main__":
    asyncio.run(_serve(int(sys.argv[1]), int(sys.argv[2])))
