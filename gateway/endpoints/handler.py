"""What every endpoint is: a handler of one request."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

from aiohttp import web

from engines.errors import RequestError
from gateway.paths import canonical
from router.finished import Journey

Handler = Callable[[web.BaseRequest, str, Journey], Awaitable[web.StreamResponse]]
"""(request, raw target below the prefix, journey) -> answer."""


def mounted(handlers: Mapping[str, Handler], otherwise: Handler | None) -> Handler:
    """Each handler at and below the path that begins with its segment, everything else as before."""

    async def handle(request: web.BaseRequest, target: str, journey: Journey) -> web.StreamResponse:
        raw, separator, query = target.partition("?")
        path = canonical(raw)
        handler = handlers.get(path.split("/", 2)[1].lower() if path != "/" else "")
        if handler is not None:
            return await handler(request, path + separator + query, journey)
        if otherwise is not None:
            return await otherwise(request, target, journey)
        raise RequestError(
            "No default upstream is configured, and this endpoint is not one of the gateway's own.",
            status=404,
            code="unknown_url",
        )

    return handle


def not_taken(method: str, path: str) -> RequestError:
    """The refusal of a method at a path that there is."""
    return RequestError(f"{path[:100]} does not take {method}.", status=405, code="method_not_allowed")


def no_such_path() -> RequestError:
    """The refusal of a path below a segment of the gateway's own."""
    return RequestError("There is no such path.", status=404, code="unknown_url")
