"""`/v1/variables/{id}` and `/v1/apps/{app}`: values of variables, whole or as they come, and variables that clients set.

Another tenant's variable, an expired one and one that never was are the same 404.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from aiohttp import web

from engines.errors import RequestError
from gateway.endpoints.handler import no_such_path, not_taken
from gateway.endpoints.steps import RunCallers
from gateway.keys import needs_credential
from gateway.limits.headers import lend_place
from gateway.own_response import json_response
from gateway.query import only, query_of
from gateway.runs.events import Events, deltas
from gateway.runs.intake import Intake, absent, refusals, store_refusals, value_not_stored
from gateway.runs.shown import no_value_told, variable
from gateway.wire import read_body, read_json
from router.finished import Journey
from workflows.criteria import Criteria
from workflows.names import is_id, scoped, valid_app, valid_name
from workflows.running.cell import Cell
from workflows.transform import Value, size_bytes

if TYPE_CHECKING:
    from learning.bank.contributor import Behind

_LONGEST_WAIT_S = 600.0


class Variables:
    """Everything below `/variables` and `/apps`."""

    def __init__(self, intake: Intake, callers: RunCallers, *, max_json_bytes: int) -> None:
        self._intake = intake
        self._runs = intake.runs
        self._callers = callers
        self._max_json_bytes = max_json_bytes

    async def __call__(self, request: web.BaseRequest, target: str, journey: Journey) -> web.StreamResponse:
        """See gateway.endpoints.handler.Handler. Raises RequestError."""
        needs_credential(journey.admitted.anonymous)
        with store_refusals():
            return await self._answer(request, target, journey)

    async def _answer(self, request: web.BaseRequest, target: str, journey: Journey) -> web.StreamResponse:
        path, _, query = target.partition("?")
        match request.method, [unquote(part) for part in path.split("/")[1:]]:
            case "GET", ["variables", id]:
                return await self._get(
                    request, journey, await self._by_id(request, journey, id), query_of(query)
                )
            case "GET", ["apps", app, "variables", name]:
                return await self._get(
                    request, journey, await self._named(request, journey, app, name), query_of(query)
                )
            case "PUT", ["apps", app, "variables", name]:
                return await self._put(request, journey, app, name)
            case "DELETE", ["apps", app]:
                return await self._forget(request, journey, app)
            case _, ["variables", _] | ["apps", _, "variables", _] | ["apps", _]:
                raise not_taken(request.method, path)
            case _:
                raise no_such_path()

    # ---- get

    async def _by_id(self, request: web.BaseRequest, journey: Journey, id: str) -> Cell:
        end_user = self._behind(request, journey).end_user
        found = self._runs.find(journey.admitted.tenant, id, end_user) if is_id("var", id) else None
        cell = None if found is None else await found
        if cell is None:
            raise absent()
        return cell

    async def _named(self, request: web.BaseRequest, journey: Journey, app: str, name: str) -> Cell:
        tenant = journey.admitted.tenant
        if valid_app(app) and valid_name(name):
            own = scoped(self._behind(request, journey).end_user, app)
            id = (await self._runs.named(tenant, own, [name])).get(name)
            if id is not None:
                return await self._by_id(request, journey, id)
        raise absent()

    def _behind(self, request: web.BaseRequest, journey: Journey) -> Behind:
        return self._callers.behind(journey.admitted, request.headers)

    async def _get(
        self, request: web.BaseRequest, journey: Journey, cell: Cell, query: dict[str, str]
    ) -> web.StreamResponse:
        only(query, "criteria", "wait_s", "stream", "starting_after")
        lend_place(request)
        stream = _flag(query.get("stream"))
        criteria = _criteria(query.get("criteria"), Criteria.TTFT if stream else Criteria.LATENCY)
        wait_s = _wait(query.get("wait_s", "0"))
        if stream:
            after = _after(query.get("starting_after"))
            return await self._stream(request, journey, cell, criteria, after)
        self._runs.got(cell, criteria)
        cell = await self._ended_within(cell, wait_s)
        if not (cell.ended and cell.kept):
            journey.answered(202)
            return json_response(variable(cell) | {"value": None, "status": _open(cell)}, status=202)
        if cell.state != "ready":
            journey.answered(424)
            return json_response(no_value_told(cell.name or cell.id, cell.failure), status=424)
        if cell.value is None:
            raise value_not_stored()
        journey.answered(200)
        return json_response(variable(cell))

    async def _ended_within(self, cell: Cell, wait_s: float) -> Cell:
        if wait_s <= 0 or (cell.ended and cell.kept):
            return cell
        try:
            async with asyncio.timeout(wait_s):
                return await self._runs.until_ended(cell)
        except TimeoutError:
            # Another process may carry its run on by now.
            return await self._runs.find(cell.tenant, cell.id, cell.end_user) or cell

    async def _stream(
        self, request: web.BaseRequest, journey: Journey, cell: Cell, criteria: Criteria, after: int
    ) -> web.StreamResponse:
        events = Events(request)
        self._runs.got(cell, criteria, stream=True)
        journey.answered(200)
        await events.begin()
        async for event in deltas(cell, after):
            await events.send(event)
        return await events.end()

    # ---- put and forget

    async def _put(
        self, request: web.BaseRequest, journey: Journey, app: str, name: str
    ) -> web.StreamResponse:
        if not valid_app(app):
            raise RequestError("An app's name is 1 to 64 of A-Z a-z 0-9 _ . : -", param="app")
        if not valid_name(name) or is_id("var", name):
            raise RequestError(
                "A variable's name is 1 to 64 of A-Z a-z 0-9 _ . - and begins with a letter or _.",
                param="name",
            )
        body = await read_body(request, self._max_json_bytes)
        fields = await read_json(request, body, self._max_json_bytes) if body.strip() else {}
        value = self._value(fields or {})
        contributor, end_user = self._behind(request, journey)
        with refusals():
            own = scoped(end_user, app)
            id = await self._runs.put(journey.admitted.tenant, own, name, value, contributor, end_user)
        cell = await self._by_id(request, journey, id)
        journey.answered(200)
        return json_response(variable(cell))

    def _value(self, fields: dict[str, Any]) -> Value | None:
        unknown = next((name for name in fields if name != "value"), None)
        if unknown is not None:
            raise RequestError(
                f"There is no field {unknown[:60]!r}; there is value.",
                code="unknown_field",
                param=unknown[:60],
            )
        value = fields.get("value")
        texts = isinstance(value, list) and all(isinstance(item, str) for item in value)
        if value is not None and not isinstance(value, str) and not texts:
            raise RequestError(
                "'value' must be a text, a list of texts, or absent.", code="invalid_type", param="value"
            )
        most = self._runs.knobs.max_value_bytes
        if value is not None and size_bytes(value) > most:
            raise RequestError(
                f"'value' is longer than the {most} bytes that one value may have.",
                status=413,
                code="value_too_large",
                param="value",
            )
        return value

    async def _forget(self, request: web.BaseRequest, journey: Journey, app: str) -> web.StreamResponse:
        if not valid_app(app):
            raise absent("app")
        own = scoped(self._behind(request, journey).end_user, app)
        with refusals():
            gone = await self._runs.forget_app(journey.admitted.tenant, own)
        journey.answered(200)
        return json_response({"id": app, "object": "app.deleted", "deleted": gone > 0})


def _open(cell: Cell) -> str:
    return "streaming" if cell.ended else cell.state


def _criteria(text: str | None, default: Criteria) -> Criteria:
    if text is None:
        return default
    if text in set(Criteria):
        return Criteria(text)
    raise RequestError(
        f"'criteria' is {text[:40]!r}; it must be one of {', '.join(Criteria)}.",
        code="invalid_value",
        param="criteria",
    )


def _wait(text: str) -> float:
    try:
        wait_s = float(text) if len(text) < 20 else -1.0
    except ValueError:
        wait_s = -1.0
    if not 0 <= wait_s <= _LONGEST_WAIT_S:
        raise RequestError(
            f"'wait_s' is {text[:40]!r}; it must be 0 to {_LONGEST_WAIT_S:g} seconds.",
            code="invalid_value",
            param="wait_s",
        )
    return wait_s


def _flag(text: str | None) -> bool:
    if text not in (None, "true", "false", "1", "0"):
        raise RequestError("'stream' must be true or false.", code="invalid_value", param="stream")
    return text in ("true", "1")


def _after(text: str | None) -> int:
    if text is None:
        return -1
    if not (text.isascii() and text.isdigit() and len(text) < 17):
        raise RequestError(
            f"'starting_after' is {text[:40]!r}; it must be the sequence_number of an event.",
            code="invalid_value",
            param="starting_after",
        )
    return int(text)
