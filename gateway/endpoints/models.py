"""`GET /v1/models`: the upstream's list with the model names served here added to it, and `GET /v1/models/NAME` of these."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Collection, Iterable
from typing import Any

import orjson
from aiohttp import web
from multidict import CIMultiDict

from engines.engine import Engine, EngineRequest
from engines.errors import EngineError
from gateway.access.families import endpoint
from gateway.endpoints.handler import Handler
from gateway.keys import Authenticator, outgoing_headers
from gateway.own_response import json_response
from router.asked import Arrival, Reach
from router.finished import Journey
from router.model_names import ByModelName, plain_names

_LIMIT_S = 10.0


class Models:
    """Our aliases, the workflows that the caller may call, and whatever the upstream has."""

    def __init__(
        self,
        aliases: Iterable[str],
        upstream: Engine | None,
        keys: Authenticator,
        workflows: Callable[[str], Awaitable[Iterable[str]]] | None = None,
        otherwise: Handler | None = None,
    ) -> None:
        """`workflows`: the names of those that a tenant may call. `otherwise` answers where there is nothing of ours."""
        self._workflows = workflows
        self._otherwise = otherwise
        self._served = ByModelName(dict.fromkeys(aliases, True))
        self._aliases = sorted(plain_names(self._served))
        self._upstream = upstream
        self._keys = keys
        self._since_s = int(time.time())

    async def __call__(self, request: web.BaseRequest, target: str, journey: Journey) -> web.StreamResponse:
        """See gateway.endpoints.handler.Handler. An upstream that cannot be reached leaves our own names."""
        arrival = journey.admitted
        aliases = dict.fromkeys((*self._aliases, *await self._own(arrival)))
        keyed = arrival.key_id is not None
        if not aliases and not keyed and self._otherwise is not None:
            return await self._otherwise(request, target, journey)
        headers = outgoing_headers(request.headers, self._keys)
        headers["Accept-Encoding"] = "identity"
        listing = await self._upstreams(target, headers, journey)
        known = {m.get("id") for m in listing["data"] if isinstance(m, dict)}
        for alias in aliases:
            if alias not in known:
                listing["data"].append(self._told(alias))
        if keyed:
            listing["data"] = [model for model in listing["data"] if _shown(model, arrival.reach)]
        journey.answered(200)
        return json_response(listing)

    def before(self, otherwise: Handler) -> Handler:
        """A handler that tells of one model of ours, and leaves all else to `otherwise`."""

        async def one(request: web.BaseRequest, target: str, journey: Journey) -> web.StreamResponse:
            asked = endpoint(request.method, target)
            name = asked.model if asked.path.startswith("/models/") and request.method == "GET" else ""
            if name and (name in self._served or name in await self._own(journey.admitted)):
                journey.answered(200)
                return json_response(self._told(name))
            return await otherwise(request, target, journey)

        return one

    def _told(self, name: str) -> dict[str, Any]:
        return {"id": name, "object": "model", "created": self._since_s, "owned_by": "understudy"}

    async def _own(self, arrival: Arrival) -> Collection[str]:
        """The workflows that the caller may call."""
        return (
            tuple(await self._workflows(arrival.tenant)) if self._workflows and not arrival.anonymous else ()
        )

    async def _upstreams(self, target: str, headers: CIMultiDict[str], journey: Journey) -> dict[str, Any]:
        empty: dict[str, Any] = {"object": "list", "data": []}
        arrival = journey.admitted
        if self._upstream is None or not arrival.reach.allows_region(self._upstream.info.region):
            return empty
        tenant = arrival.tenant if arrival.reach.own_account else ""
        asked = EngineRequest("GET", target, headers, b"", tenant=tenant)
        began = time.perf_counter()
        try:
            async with asyncio.timeout(_LIMIT_S):
                async with self._upstream.stream(asked) as reply:
                    body = b"".join([chunk async for chunk in reply.chunks])
        except (EngineError, TimeoutError) as error:
            journey.bypassed.append(f"models:{type(error).__name__}")
            return empty
        finally:
            journey.waited_s = time.perf_counter() - began
        try:
            listing = orjson.loads(body)
        except orjson.JSONDecodeError:
            return empty
        if reply.status != 200 or not isinstance(listing, dict) or not isinstance(listing.get("data"), list):
            journey.bypassed.append(f"models:{reply.status}")
            return empty
        return listing


def _shown(model: object, reach: Reach) -> bool:
    """Whether a key may see a model of the list: those that it may use, and none that was trained for somebody else."""
    name = model.get("id") if isinstance(model, dict) else None
    if not isinstance(name, str) or not reach.allows_model(name):
        return False
    listed = any(glob.startswith("ft:") for globs in reach.models for glob in globs)
    return reach.own_account or listed or not name.startswith("ft:")
