"""Which browser pages may ask the gateway (CORS, fetch.spec.whatwg.org): `listen.cors`. Knows no key and no endpoint."""

from __future__ import annotations

from aiohttp import web
from multidict import CIMultiDict

from gateway.send import SERVER
from router.finished import Journey

ORIGINS = web.RequestKey("origins", frozenset[str])
"""Where a request keeps the origins whose pages may read its answer."""
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


def tell_browsers(request: web.BaseRequest, headers: CIMultiDict[str]) -> None:
    """Add to the head of an answer which pages may read it; nothing where no origins are configured."""
    allowed: frozenset[str] | None = request.get(ORIGINS)
    if not allowed:
        return
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
