"""What every endpoint is: a handler of one request."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from aiohttp import web

from router.finished import Journey

Handler = Callable[[web.BaseRequest, str, Journey], Awaitable[web.StreamResponse]]
"""(request, raw target below the prefix, journey) -> answer."""
