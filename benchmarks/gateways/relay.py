"""A bare relay on aiohttp: what the least possible Python gateway costs. `python -m loadtest.peers.relay`."""

from __future__ import annotations

import argparse

import aiohttp
import uvloop
from aiohttp import web

_HOP_BY_HOP = frozenset(
    ["connection", "keep-alive", "te", "trailer", "transfer-encoding", "upgrade", "content-length", "host"]
)


class Relay:
    """Bytes in, bytes out, to one upstream."""

    def __init__(self, upstream: str) -> None:
        self._upstream = upstream.rstrip("/")
        self._session: aiohttp.ClientSession | None = None

    async def hold_session(self, app: web.Application) -> object:
        """Keep one connection pool for the life of the server."""
        async with aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0),
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,
            timeout=aiohttp.ClientTimeout(total=600),
        ) as self._session:
            yield

    async def relay(self, request: web.Request) -> web.StreamResponse:
        """Send a request on and its answer back as it comes."""
        assert self._session is not None
        headers = {name: value for name, value in request.headers.items() if name.lower() not in _HOP_BY_HOP}
        body = await request.read()
        async with self._session.request(
            request.method,
            self._upstream + request.path_qs,
            headers=headers,
            data=body or None,
            allow_redirects=False,
        ) as answer:
            kept = {name: value for name, value in answer.headers.items() if name.lower() not in _HOP_BY_HOP}
            if "text/event-stream" not in answer.headers.get("content-type", ""):
                return web.Response(status=answer.status, headers=kept, body=await answer.read())
            response = web.StreamResponse(status=answer.status, headers=kept)
            await response.prepare(request)
            async for piece in answer.content.iter_any():
                await response.write(piece)
            await response.write_eof()
            return response


def main() -> None:
    """Serve until stopped."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--upstream", required=True)
    given = parser.parse_args()
    relay = Relay(given.upstream)
    app = web.Application(client_max_size=64 << 20)
    app.cleanup_ctx.append(relay.hold_session)  # type: ignore[arg-type]
    app.router.add_route("*", "/{path:.*}", relay.relay)
    uvloop.install()
    web.run_app(app, host="127.0.0.1", port=given.port, access_log=None, print=None)


if __name__ == "__main__":
    main()
