"""Which browser pages may ask the gateway (CORS, fetch.spec.whatwg.org): `listen.cors`. Knows no key and no endpoint."""

from __future__ import annotations

from collections.abc import Sequence

from aiohttp import web

from gateway.journey import Journey
from gateway.send import SERVER

ANY = "*"
_ASKS = "Access-Control-Request-Method"
_ASKS_HEADERS = "Access-Control-Request-Headers"
_METHODS = "GET, HEAD, POST, PUT, PATCH, DELETE"
_EXPOSED = ("x-", "cache-status", "retry-after", "request-id")
_MAX_AGE_S = 600


def is_preflight(request: web.BaseRequest) -> bool:
    """Whether a browser asks by it what a page may ask. It carries no credential."""
    return request.method == "OPTIONS" and _ASKS in request.headers and "Origin" in request.headers


async def preflight(request: web.BaseRequest, target: str, journey: Journey) -> web.StreamResponse:
    """The answer; what it allows is added as to any other answer. Without that the browser asks nothing."""
    journey.answered(204)
    return web.Response(status=204, headers={"Server": SERVER})


def requests_of(origins: Sequence[str]) -> type[web.BaseRequest]:
    """The class of requests whose answers tell browsers which of these origins may read them; none: aiohttp's own."""
    if not origins:
        return web.BaseRequest
    allowed = frozenset(origins)

    class Request(web.BaseRequest):
        async def _prepare_hook(self, response: web.StreamResponse) -> None:
            _tell(self, response, allowed)

    return Request


def _tell(request: web.BaseRequest, response: web.StreamResponse, allowed: frozenset[str]) -> None:
    headers = response.headers
    for name in [name for name in headers if name.lower().startswith("access-control-")]:
        # The upstream's word is on its own pages.
        headers.popall(name, None)
    if ANY not in allowed:
        headers.add("Vary", "Origin")
    origin = request.headers.get("Origin", "")
    if ANY not in allowed and origin.lower() not in allowed:
        return
    headers["Access-Control-Allow-Origin"] = ANY if ANY in allowed else origin
    if is_preflight(request):
        headers["Access-Control-Allow-Methods"] = _METHODS
        headers["Access-Control-Allow-Headers"] = request.headers.get(_ASKS_HEADERS, ANY)
        headers["Access-Control-Max-Age"] = str(_MAX_AGE_S)
    else:
        exposed = dict.fromkeys(name.lower() for name in headers if name.lower().startswith(_EXPOSED))
        headers["Access-Control-Expose-Headers"] = ", ".join(exposed)
