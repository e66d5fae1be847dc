"""Everything below `/v1/responses/ID`: asked of the engine that holds the answer, or read from what is kept here."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import orjson
import structlog
from aiohttp import web

from engines.as_events import EVENTS
from engines.codecs.response_answer import as_events
from engines.engine import Engine, EngineRequest
from engines.errors import EngineError, RequestError
from engines.servers.servers import Servers
from gateway.endpoints.handler import Handler
from gateway.endpoints.responses import PATH, not_found
from gateway.endpoints.store_access import stored
from gateway.keys import Authenticator, outgoing_headers
from gateway.own_response import json_response, own_response
from gateway.paths import canonical
from gateway.query import query_of
from gateway.relay import relay
from gateway.response_owners import KEPT, Asker, ResponseOwners
from gateway.wire import read_body
from router.finished import Journey
from store.answers.responses import KeptResponse
from store.people.owned import Owned

if TYPE_CHECKING:
    from learning.bank.contributor import EndUsers

log = structlog.get_logger(__name__)

_NO_IDS = frozenset({"input_tokens", "compact"})
"""Endpoints of their own, which name no answer."""
_MOST_BODY_BYTES = 2**20
"""What is asked of a stored answer says nearly all in its path."""
_MOST_ITEMS, _USUAL_ITEMS = 100, 20


class StoredResponses:
    """`otherwise` serves what names no answer that is known here: the default upstream; None refuses it."""

    def __init__(
        self,
        engines: Mapping[str, Engine],
        keys: Authenticator,
        owners: ResponseOwners,
        end_users: EndUsers | None,
        otherwise: Handler | None,
    ) -> None:
        self._engines = engines
        self._keys = keys
        self._owners = owners
        self._end_users = end_users
        self._otherwise = otherwise

    async def __call__(self, request: web.BaseRequest, target: str, journey: Journey) -> web.StreamResponse:
        """See gateway.endpoints.handler.Handler."""
        path, _, query = target.partition("?")
        named = canonical(path).split("/")[2:]
        if not named or (named[0].lower() in _NO_IDS and request.method == "POST"):
            return await self._elsewhere(request, target, journey)
        id, below = named[0], "/".join(named[1:])
        arrival = journey.admitted
        end_user = ""
        if self._end_users is not None:
            end_user = self._end_users.behind(arrival, request.headers, {}).end_user
        asker = Asker(arrival.tenant, end_user, arrival.key_id or "")
        owned = await stored(self._owners.find(id, asker.tenant, asker.end_user))
        if owned is None:
            if not arrival.reach.own_account and await stored(self._owners.is_strangers(id, asker)):
                raise not_found(id)
            return await self._elsewhere(request, target, journey)
        kept = await self._owners.kept(id, asker.tenant) if owned.kind == KEPT else None
        if kept is not None:
            return await self._answer_kept(request, id, below, query, kept, asker, owned)
        response = await self._ask_holder(request, target, journey, owned)
        if request.method == "DELETE" and not below and response.status < 300:
            try:
                await stored(self._owners.forget(id, asker, owned))
            except RequestError as error:
                # It is deleted where it was, and the client may have been told so.
                log.warning("response_not_forgotten", error=error.code)
        return response

    async def _elsewhere(self, request: web.BaseRequest, target: str, journey: Journey) -> web.StreamResponse:
        if self._otherwise is not None:
            return await self._otherwise(request, target, journey)
        raise RequestError("There is no such response here.", status=404, code="response_not_found")

    async def _ask_holder(
        self, request: web.BaseRequest, target: str, journey: Journey, owned: Owned
    ) -> web.StreamResponse:
        engine = self._engines.get(owned.engine)
        if engine is None:
            return await self._elsewhere(request, target, journey)
        not_at: frozenset[str] = frozenset()
        if isinstance(engine, Servers) and owned.replica in engine.info.replicas:
            not_at = engine.all_but(owned.replica)
        asked = EngineRequest(
            request.method,
            target,
            outgoing_headers(request.headers, self._keys),
            await read_body(request, _MOST_BODY_BYTES),
            tenant=owned.tenant,
            plain=query_of(target.partition("?")[2]).get("stream") != "true",
            not_at=not_at,
        )
        async with engine.stream(asked) as reply:
            reply.headers["x-understudy-engine"] = owned.engine
            reply.headers["x-understudy-decision-id"] = journey.admitted.id
            return await relay(request, reply, journey)

    # ---- what is kept here

    async def _answer_kept(
        self,
        request: web.BaseRequest,
        id: str,
        below: str,
        query: str,
        kept: KeptResponse,
        asker: Asker,
        owned: Owned,
    ) -> web.StreamResponse:
        if request.method == "GET" and not below:
            return _read(kept, query)
        if request.method == "GET" and below == "input_items":
            return json_response(_page(_with_ids(id, orjson.loads(kept.input)), query))
        if request.method == "DELETE" and not below:
            await stored(self._owners.forget(id, asker, owned))
            await self._delete_at_engine(request, id, owned)
            return json_response({"id": id, "object": "response", "deleted": True})
        if request.method == "POST" and below == "cancel":
            raise RequestError(
                "Only responses with background=true can be cancelled.", code="not_cancellable", param=None
            )
        raise RequestError(
            f"{PATH}/{id[:100]}/{below[:100]} does not take {request.method}.",
            status=405,
            code="method_not_allowed",
        )

    async def _delete_at_engine(self, request: web.BaseRequest, id: str, owned: Owned) -> None:
        """The engine that answered may have stored its answer as well; where it did not, it says so, and that is all."""
        engine = self._engines.get(owned.engine)
        if engine is None:
            return
        headers = outgoing_headers(request.headers, self._keys)
        asked = EngineRequest("DELETE", f"{PATH}/{id}", headers, b"", tenant=owned.tenant, plain=True)
        try:
            async with asyncio.timeout(5.0), engine.stream(asked) as reply:
                async for _ in reply.chunks:
                    pass
        except (EngineError, TimeoutError):
            return


def _read(kept: KeptResponse, query: str) -> web.Response:
    asked = query_of(query)
    if asked.get("stream") != "true":
        return own_response(kept.response)
    after = asked.get("starting_after", "-1")
    number = int(after) if after.lstrip("-").isdecimal() and len(after) < 16 else -1
    return own_response(as_events(orjson.loads(kept.response), after=number), content_type=EVENTS)


def _with_ids(id: str, items: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The input's items as the API lists them: each with a type and an id."""
    found = []
    for number, item in enumerate(items):
        named = hashlib.blake2b(f"{id}/{number}".encode(), digest_size=16).hexdigest()
        content = item.get("content")
        whole = {"type": "message", "id": f"msg_{named}", "status": "completed"} | item
        if isinstance(content, str) and whole["type"] == "message":
            kind = "output_text" if item.get("role") == "assistant" else "input_text"
            whole["content"] = [{"type": kind, "text": content}]
        found.append(whole)
    return found


def _page(items: list[dict[str, Any]], query: str) -> dict[str, Any]:
    asked = query_of(query)
    limit = asked.get("limit", "")
    count = min(_MOST_ITEMS, max(1, int(limit))) if limit.isdecimal() and len(limit) < 6 else _USUAL_ITEMS
    if asked.get("order") != "asc":
        items = items[::-1]
    ids = [item["id"] for item in items]
    if (after := asked.get("after")) in ids:
        items = items[ids.index(after) + 1 :]
    shown = items[:count]
    return {
        "object": "list",
        "data": shown,
        "first_id": shown[0]["id"] if shown else None,
        "last_id": shown[-1]["id"] if shown else None,
        "has_more": len(items) > len(shown),
    }


def mounted(responses: StoredResponses, otherwise: Handler | None) -> Handler:
    """`responses` below its path, everything else as before."""

    async def handle(request: web.BaseRequest, target: str, journey: Journey) -> web.StreamResponse:
        if canonical(target.partition("?")[0]).lower().startswith(PATH + "/"):
            return await responses(request, target, journey)
        if otherwise is not None:
            return await otherwise(request, target, journey)
        raise RequestError(
            "No default upstream is configured, and this endpoint is not one of the gateway's own.",
            status=404,
            code="unknown_url",
        )

    return handle
