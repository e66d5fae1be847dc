"""`/v1/collections`: the texts that a tenant's workflows keep, by collection: how many there are, and their end.

Another tenant's collection and one that never was are the same 404.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import unquote

from aiohttp import web

from engines.errors import RequestError
from gateway.journey import Journey
from gateway.keys import needs_credential
from gateway.own_response import json_response
from gateway.runs.intake import absent, refusals
from gateway.runs.saving import done
from store.workflows.assets import Assets, Collection


class Collections:
    """Everything at and below `/collections`."""

    def __init__(self, assets: Assets) -> None:
        self._assets = assets

    async def __call__(self, request: web.BaseRequest, target: str, journey: Journey) -> web.StreamResponse:
        """See gateway.handlers.handler.Handler. Raises RequestError."""
        needs_credential(journey.admitted.anonymous)
        tenant, path = journey.admitted.tenant, target.partition("?")[0]
        with refusals():
            match request.method, [unquote(part) for part in path.split("/")[1:]]:
                case "GET", ["collections"]:
                    data = [
                        _shown(each) for each in await self._assets.reads(self._assets.collections, tenant)
                    ]
                    content: dict[str, Any] = {"object": "list", "data": data}
                case "GET", ["collections", name]:
                    content = _shown(await self._one(tenant, name))
                case "DELETE", ["collections", name]:
                    if not await done(self._assets.remove_collection(tenant, name)):
                        raise absent("collection")
                    content = {"id": name, "object": "collection.deleted", "deleted": True}
                case _, ["collections"] | ["collections", _]:
                    raise RequestError(
                        f"{path[:100]} does not take {request.method}.", status=405, code="method_not_allowed"
                    )
                case _:
                    raise RequestError("There is no such path.", status=404, code="unknown_url")
        journey.answered(200)
        return json_response(content)

    async def _one(self, tenant: str, name: str) -> Collection:
        found = [
            each for each in await self._assets.reads(self._assets.collections, tenant) if each.name == name
        ]
        if not found:
            raise absent("collection")
        return found[0]


def _shown(collection: Collection) -> dict[str, Any]:
    return {
        "id": collection.name,
        "object": "collection",
        "texts": collection.texts,
        "bytes": collection.size_bytes,
        "created_at": int(collection.created_at_s),
    }
