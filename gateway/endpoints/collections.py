"""`/v1/collections`: the texts that a tenant's workflows keep, by collection: how many there are, and their end.

Where each end user has a memory of their own, they have collections of their own, too. Another's collection and one that
never was are the same 404.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import unquote

from aiohttp import web

from gateway.endpoints.handler import no_such_path, not_taken
from gateway.endpoints.steps import RunCallers
from gateway.keys import needs_credential
from gateway.own_response import json_response
from gateway.runs.intake import absent, refusals
from router.finished import Journey
from store.workflows.assets import Assets, Collection
from workflows.names import scoped
from workflows.running.saving import done


class Collections:
    """Everything at and below `/collections`."""

    def __init__(self, assets: Assets, callers: RunCallers) -> None:
        self._assets = assets
        self._callers = callers

    async def __call__(self, request: web.BaseRequest, target: str, journey: Journey) -> web.StreamResponse:
        """See gateway.endpoints.handler.Handler. Raises RequestError."""
        needs_credential(journey.admitted.anonymous)
        tenant, path = journey.admitted.tenant, target.partition("?")[0]
        end_user = self._callers.behind(journey.admitted, request.headers).end_user
        with refusals():
            match request.method, [unquote(part) for part in path.split("/")[1:]]:
                case "GET", ["collections"]:
                    own = await self._own(tenant, end_user)
                    content: dict[str, Any] = {"object": "list", "data": list(own.values())}
                case "GET", ["collections", name]:
                    own = await self._own(tenant, end_user)
                    if name not in own:
                        raise absent("collection")
                    content = own[name]
                case "DELETE", ["collections", name]:
                    whose = scoped(end_user, name)
                    if "/" in name or not await done(self._assets.remove_collection(tenant, whose)):
                        raise absent("collection")
                    content = {"id": name, "object": "collection.deleted", "deleted": True}
                case _, ["collections"] | ["collections", _]:
                    raise not_taken(request.method, path)
                case _:
                    raise no_such_path()
        journey.answered(200)
        return json_response(content)

    async def _own(self, tenant: str, end_user: str) -> dict[str, dict[str, Any]]:
        """Those of one end user, or of nobody in particular, by name."""
        found = {}
        for each in await self._assets.reads(self._assets.collections, tenant):
            whose, _, name = each.name.rpartition("/")
            if whose == end_user:
                found[name] = _shown(name, each)
        return found


def _shown(name: str, collection: Collection) -> dict[str, Any]:
    return {
        "id": name,
        "object": "collection",
        "texts": collection.texts,
        "bytes": collection.size_bytes,
        "created_at": int(collection.created_at_s),
    }
