"""`/v1/examples`: demonstrations in, and a tenant's own examples out, listed and deleted.

An example is named by its request: the decision id that its answer carried, or the id a demonstration was given. Whatever
is not the caller's own does not exist here: 404, so that nobody can learn what others have. A request that names an end
user sees that user's only.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import structlog
from aiohttp import web

from engines.chat import ChatRequest
from engines.chat_json import read_chat_request
from engines.errors import RequestError
from gateway.controls import named_scope
from gateway.endpoints.handler import not_taken
from gateway.endpoints.store_access import stored
from gateway.keys import needs_credential
from gateway.own_response import json_response
from gateway.query import only, query_of
from gateway.wire import read_body, read_json
from learning.bank.contributor import Behind, EndUsers
from learning.bank.demonstrations import NotAdmitted, as_chat, content_id, demonstration
from learning.bank.example_store import WRITTEN_WITHIN_S, ExampleStore
from router.asked import in_memory_of
from router.digest import user_scope
from router.finished import Journey
from store.people.secret import derive
from store.records import Example, Kind

if TYPE_CHECKING:
    from learning.bank.forgetting import Forgetter

log = structlog.get_logger(__name__)

PATH = "/examples"
_MAX_PAGE = 100
_MAX_KEY_CHARACTERS = 255
_NEIGHBOURS = 8
_ID_CHARACTERS = 32


class Examples:
    """Everything at and below `/examples`. Without a store, examples are switched off."""

    def __init__(
        self,
        store: ExampleStore | None,
        forgetter: Forgetter | None,
        end_users: EndUsers | None,
        *,
        max_json_bytes: int,
    ) -> None:
        self._store = store
        self._end_users = end_users
        self._forgetter = forgetter
        self._max_json_bytes = max_json_bytes

    async def __call__(self, request: web.BaseRequest, target: str, journey: Journey) -> web.StreamResponse:
        """See gateway.endpoints.handler.Handler. Raises RequestError."""
        if self._store is None or self._end_users is None:
            raise RequestError(
                "This gateway keeps no examples: memory.examples.enabled is off.",
                status=404,
                code="examples_disabled",
            )
        needs_credential(journey.admitted.anonymous)
        path, _, query = target.partition("?")
        name = unquote(path[len(PATH) :].strip("/"))
        store, by = self._store, self._end_users.behind(journey.admitted, request.headers, {})
        match request.method, name:
            case "POST", "":
                status, content = await self._give(store, self._end_users, request, journey)
            case "GET", "":
                status, content = 200, await self._page(store, query_of(query), journey, by)
            case "GET", _:
                status, content = 200, _shown(await self._find(store, name, journey, by))
            case "DELETE", "":
                status, content = 200, await self._forget(self._end_users, query_of(query), journey, by)
            case "DELETE", _:
                status, content = 200, await self._remove(store, name, journey, by)
            case _:
                raise not_taken(request.method, PATH)
        journey.answered(status)
        return json_response(content, status=status)

    async def _give(
        self, store: ExampleStore, end_users: EndUsers, request: web.BaseRequest, journey: Journey
    ) -> tuple[int, dict[str, Any]]:
        body = await read_body(request, self._max_json_bytes)
        fields = await read_json(request, body, self._max_json_bytes)
        if fields is None:
            raise RequestError(
                "This content encoding cannot be read here.", status=415, code="invalid_encoding"
            )
        pinned = _checked(fields)
        chat = as_chat(read_chat_request(body, fields).fields)
        arrival, by = journey.admitted, end_users.behind(journey.admitted, request.headers, fields)
        try:
            # Patterns are looked for in all of the text: milliseconds, which the event loop does not have.
            digest = await stored(
                asyncio.to_thread(
                    store.digest,
                    arrival.tenant,
                    arrival.key_id,
                    chat,
                    fields["answer"],
                    named_scope(request.headers),
                    end_user=by.end_user,
                )
            )
        except NotAdmitted as refused:
            raise RequestError(
                f"This pair cannot become an example: {refused}.", code=f"not_admitted_{refused.reason}"
            ) from None
        new = demonstration(
            digest,
            arrival.tenant,
            _request_id(store.secret, request, chat, fields["answer"], by.end_user),
            by.contributor,
            embedding_version=store.embedder.version,
            pinned=pinned,
        )
        admitted = await stored(asyncio.to_thread(store.keep, new))
        if admitted.outcome == "private":
            # A private tenant's pairs are never shown again, not even to who gave them (docs/explanation/admission.md).
            return 202, {"object": "example.put_aside"}
        kept = admitted.example
        same = (kept.question, kept.answer, kept.scope) == (new.question, new.answer, new.scope)
        if admitted.outcome == "known" and kept.request_id == new.request_id and not same:
            raise RequestError(
                "This Idempotency-Key was used before for another request or answer.",
                status=409,
                code="idempotency_conflict",
                param="Idempotency-Key",
            )
        return 201, _shown(kept)

    async def _page(
        self, store: ExampleStore, query: dict[str, str], journey: Journey, by: Behind
    ) -> dict[str, Any]:
        only(query, "after", "limit", "kind")
        kind = _kind(query.get("kind"))
        limit = _limit(query.get("limit", "20"))
        after_id = 0
        if "after" in query:
            after_id = (await self._find(store, query["after"], journey, by, param="after")).id
        found = await stored(
            asyncio.to_thread(
                store.bank.page,
                journey.admitted.tenant,
                after_id=after_id,
                limit=limit + 1,
                kind=kind,
                end_user=by.end_user,
            )
        )
        shown = [_shown(example) for example in found[:limit]]
        return {
            "object": "list",
            "data": shown,
            "first_id": shown[0]["id"] if shown else None,
            "last_id": shown[-1]["id"] if shown else None,
            "has_more": len(found) > limit,
        }

    async def _find(
        self, store: ExampleStore, name: str, journey: Journey, by: Behind, *, param: str | None = None
    ) -> Example:
        found = await stored(asyncio.to_thread(store.find, journey.admitted.tenant, name)) if name else None
        if found is None or (by.end_user and user_scope(found.scope) != by.end_user):
            raise RequestError(
                f"No example has the id {name[:100]!r}.", status=404, code="example_not_found", param=param
            )
        return found

    async def _remove(self, store: ExampleStore, name: str, journey: Journey, by: Behind) -> dict[str, Any]:
        found = await self._find(store, name, journey, by)
        removed = await stored(asyncio.to_thread(_removed, store, journey.admitted.tenant, found.id))
        if not removed:
            raise RequestError(f"No example has the id {name[:100]!r}.", status=404, code="example_not_found")
        return {"id": found.request_id, "object": "example.deleted", "deleted": True}

    async def _forget(
        self, end_users: EndUsers, query: dict[str, str], journey: Journey, by: Behind
    ) -> dict[str, Any]:
        only(query, "user", "key")
        user, key_id = query.get("user", ""), query.get("key", "")
        if bool(user) == bool(key_id):
            raise RequestError(
                "Say whose examples to delete: either ?user=... or ?key=... (a key's id, not its secret).",
                code="missing_required_parameter",
                param="user",
            )
        if by.end_user and end_users.digest(journey.admitted.tenant, user) != by.end_user:
            raise RequestError(
                "This request names an end user: it may delete that user's examples only.",
                status=404,
                code="example_not_found",
                param="user",
            )
        assert self._forgetter is not None
        forgotten = await stored(
            asyncio.to_thread(self._forgetter.contributor, journey.admitted.tenant, user=user, key_id=key_id)
        )
        return {
            "object": "examples.deleted",
            "deleted": forgotten.examples,
            "exact_answers_deleted": forgotten.answers,
        }


def _removed(store: ExampleStore, tenant: str, id: int) -> int:
    return store.bank.remove(tenant, [id]).result(WRITTEN_WITHIN_S)


def _checked(fields: dict[str, Any]) -> bool:
    """Whether it is to be pinned. Raises RequestError. Other fields may be those of any chat request."""
    if not isinstance(fields.get("answer"), str):
        raise RequestError("'answer' must be a string.", code="invalid_type", param="answer")
    pinned = fields.get("pinned", False)
    if not isinstance(pinned, bool):
        raise RequestError("'pinned' must be true or false.", code="invalid_type", param="pinned")
    return pinned


def _request_id(
    secret: bytes, request: web.BaseRequest, chat: ChatRequest, answer: str, end_user: str
) -> str:
    key = request.headers.get("Idempotency-Key")
    if key is None:
        return f"demo-{content_id(secret, chat, answer, end_user, named_scope(request.headers))}"
    if not key or len(key) > _MAX_KEY_CHARACTERS:
        raise RequestError(
            f"Idempotency-Key has {len(key)} characters; 1 to {_MAX_KEY_CHARACTERS} are right.",
            code="invalid_idempotency_key",
            param="Idempotency-Key",
        )
    return f"demo-{derive(secret, 'idempotency key', in_memory_of(key, end_user))[:_ID_CHARACTERS]}"


def _shown(example: Example) -> dict[str, Any]:
    return {
        "id": example.request_id,
        "object": "example",
        "created_at": int(example.created_at_s),
        "kind": example.kind,
        "question": example.question,
        "answer": example.answer,
        "scope": example.scope,
        "source": example.source_engine,
        "pinned": example.pinned,
        "flagged": example.flagged,
        "merged": example.merged,
        "uses": example.uses,
        "quality": example.quality,
        "served_from": int(example.served_from_s),
        "prompt_tokens": example.prompt_tokens,
        "completion_tokens": example.completion_tokens,
    }


def _kind(text: str | None) -> Kind | None:
    kinds: dict[str | None, Kind | None] = {
        None: None,
        "observed": "observed",
        "demonstration": "demonstration",
    }
    if text in kinds:
        return kinds[text]
    assert text is not None
    raise RequestError(
        f"'kind' is {text[:40]!r}; it must be observed or demonstration.", code="invalid_value", param="kind"
    )


def _limit(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 4 and 1 <= int(text) <= _MAX_PAGE):
        raise RequestError(
            f"'limit' is {text[:40]!r}; it must be 1 to {_MAX_PAGE}.", code="invalid_value", param="limit"
        )
    return int(text)
