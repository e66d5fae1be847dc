"""`/v1/workflows`: the workflows that a caller may call, and a tenant's own, which it keeps, replaces and removes.

A definition names components and models of the configuration; it holds no URL. Another tenant's workflow and one that never
was are the same 404.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import unquote

import orjson
from aiohttp import web

from engines.errors import RequestError
from engines.off_loop import off_loop
from gateway.endpoints.handler import no_such_path, not_taken
from gateway.endpoints.steps import RunCallers
from gateway.keys import needs_credential
from gateway.own_response import json_response
from gateway.query import only, query_of
from gateway.runs.intake import refusals
from gateway.wire import read_body, read_json
from router.finished import Journey
from store.workflows.assets import KeptWorkflow
from workflows.definition import Definition
from workflows.running.catalogue import Catalogue, described, no_workflow
from workflows.running.runs import Runs

_MAX_BYTES = 256 * 1024
"""Of one definition: its templates stand in it, its documents do not."""


class Workflows:
    """Everything at and below `/workflows`."""

    def __init__(self, runs: Runs, catalogue: Catalogue, callers: RunCallers) -> None:
        self._runs = runs
        self._catalogue = catalogue
        self._callers = callers

    async def __call__(self, request: web.BaseRequest, target: str, journey: Journey) -> web.StreamResponse:
        """See gateway.endpoints.handler.Handler. Raises RequestError."""
        needs_credential(journey.admitted.anonymous)
        path, _, query = target.partition("?")
        with refusals():
            match request.method, [unquote(part) for part in path.split("/")[1:]]:
                case "GET", ["workflows"]:
                    content = await self._list(journey.admitted.tenant)
                case "POST", ["workflows"]:
                    content = await self._keep(request, journey)
                case "GET", ["workflows", name]:
                    content = await self._one(journey.admitted.tenant, name, query_of(query))
                case "DELETE", ["workflows", name]:
                    content = await self._remove(journey.admitted.tenant, name)
                case _, ["workflows"] | ["workflows", _]:
                    raise not_taken(request.method, path)
                case _:
                    raise no_such_path()
        journey.answered(200)
        return json_response(content)

    async def _list(self, tenant: str) -> dict[str, Any]:
        own = [_shown(kept) for kept in await self._catalogue.own(tenant)]
        configured = [_described(each) for each in self._catalogue.configured.values()]
        return {"object": "list", "data": [*configured, *own]}

    async def _one(self, tenant: str, name: str, query: dict[str, str]) -> dict[str, Any]:
        only(query, "version")
        configured = self._catalogue.configured.get(name)
        if configured is not None:
            return _described(configured)
        kept = await self._catalogue.kept(tenant, name, query.get("version"))
        if kept is None:
            raise no_workflow(name)
        return _shown(kept)

    async def _keep(self, request: web.BaseRequest, journey: Journey) -> dict[str, Any]:
        body = await read_body(request, _MAX_BYTES)
        fields = await read_json(request, body, _MAX_BYTES)
        if not isinstance(fields, dict) or not isinstance(name := fields.get("name"), str):
            raise RequestError(
                "A workflow is an object with `name`, `inputs`, `steps` or `chain`, and `output`.",
                param="name",
            )
        value = {field: each for field, each in fields.items() if field != "name"}
        definition = await off_loop(len(body), self._catalogue.read, name, value)
        tenant, now_s = journey.admitted.tenant, self._runs.now()
        contributor = self._callers.behind(journey.admitted, request.headers).contributor
        await self._catalogue.put(tenant, definition, now_s=now_s, contributor=contributor)
        kept = await self._catalogue.kept(tenant, name)
        if kept is None:
            raise no_workflow(name)
        return _shown(kept)

    async def _remove(self, tenant: str, name: str) -> dict[str, Any]:
        if name in self._catalogue.configured:
            raise RequestError(
                f"The workflow {name[:100]!r} is the configuration's: it cannot be removed here.",
                status=403,
                code="workflow_configured",
            )
        if not await self._catalogue.remove(tenant, name):
            raise no_workflow(name)
        return {"id": name, "object": "workflow.deleted", "deleted": True}


def _described(definition: Definition) -> dict[str, Any]:
    return described(definition) | {"owned_by": "understudy"}


def _shown(kept: KeptWorkflow) -> dict[str, Any]:
    """A tenant's own, with its definition as it was sent."""
    return {
        "id": kept.name,
        "object": "workflow",
        "version": kept.version,
        "number": kept.number,
        "created_at": int(kept.created_at_s),
        "owned_by": "tenant",
        "definition": orjson.loads(kept.definition),
    }
