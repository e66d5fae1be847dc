"""A bare relay, what gateways are compared with: the least that aiohttp and uvloop need to pass a request on.

    python -m benchmarks.overhead.relay_bare UPSTREAM PORT

Tuned (low-level server, no access log, no cookies, no decompression, bodies as bytes, chunks as they arrive) and good for
nothing else: it checks no input, times nothing out, translates no error, notices no client that leaves, and writes no log.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping

import aiohttp
import uvloop
from aiohttp import web
from multidict import CIMultiDict
from yarl import URL

STOPS_HERE = {"host", "connection", "keep-alive", "transfer-encoding", "upgrade", "te", "trailer"}
WHOLE_BYTES = 64 * 1024


def end_to_end(headers: Mapping[str, str]) -> CIMultiDict[str]:
    return CIMultiDict((n, v) for n, v in headers.items() if n.lower() not in STOPS_HERE)


async def main(upstream: str, port: int) -> None:
    session = aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0), cookie_jar=aiohttp.DummyCookieJar(), auto_decompress=False
    )
    base = URL(upstream)

    async def handle(request: web.BaseRequest) -> web.StreamResponse:
        url = base.join(URL(request.raw_path, encoded=True))
        headers = end_to_end(request.headers)
        body = await request.read()
        async with session.request(
            request.method, url, headers=headers, data=body, allow_redirects=False
        ) as reply:
            headers = end_to_end(reply.headers)
            if reply.content_length is not None and reply.content_length <= WHOLE_BYTES:
                return web.Response(status=reply.status, headers=headers, body=await reply.read())
            response = web.StreamResponse(status=reply.status, headers=headers)
            await response.prepare(request)
            async for chunk in reply.content.iter_any():
                await response.write(chunk)
            return response

    server = web.Server(handle, access_log=None, auto_decompress=False)
    await asyncio.get_running_loop().create_server(server, "127.0.0.1", port)
    await asyncio.Event().wait()


if __name__ == "__main__":
    uvloop.run(main(sys.argv[1], int(sys.argv[2])))
