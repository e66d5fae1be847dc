"""Serves the admin API: checks the token and its role, runs the operation, notes what it changed, tells problems as JSON.

Only `Authorization: Bearer` with an admin token opens it: no cookie, so no form of another page, and no key of the gateway.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from http import HTTPStatus
from typing import Any

import orjson
from aiohttp import web

from admin.access import Access, Handler
from admin.api.openapi import DOCUMENT, document
from admin.api.route import ROUTES, Route
from admin.operations.operation import By, Outcome
from admin.page import ActionFailed, BadParameter, NotThere
from admin.roles import Role
from admin.sources import Sources
from store.errors import StoreError
from store.people.tokens import AdminToken

_MOST_BODY_BYTES = 256 * 1024
_RETRY_AFTER_S = "5"
_IN_PATH = re.compile(r"\{\w+\}")


class Problem(Exception):
    """What was asked cannot be done: told as problem details (RFC 9457)."""

    def __init__(self, status: int, code: str, detail: str) -> None:
        super().__init__(detail)
        self.status, self.code, self.detail = status, code, detail


class AdminApi:
    """The handlers of all routes."""

    def __init__(
        self, sources: Sources, access: Access, failed: Callable[[str, BaseException], None]
    ) -> None:
        """`failed` is called with the path of every unexpected exception."""
        self._sources = sources
        self._access = access
        self._failed = failed

    def add_to(self, router: web.UrlDispatcher) -> None:
        """Add every route, and one for what is none below /api."""
        for route in ROUTES:
            router.add_route(route.method, route.path, self._access.by_token(self._handler(route)))
        router.add_get(DOCUMENT, self._access.by_token(self._document), allow_head=False)
        router.add_route("*", "/api{tail:(/.*)?}", self._access.by_token(self._unknown))

    def _handler(self, route: Route) -> Handler:
        async def handle(request: web.Request) -> web.StreamResponse:
            token: AdminToken | None = None
            try:
                token = await self._token(request)
                await self._check_role(request, route, token)
                sent = await _body(request) if route.takes else {} if route.changes else dict(request.query)
                given = _with_path(sent, request.match_info)
                reads = Role(token.role).reads_content
                by = By(f"token:{token.name}", time.time(), "api", reads_content=reads)
                outcome = await asyncio.to_thread(route.operation.do, self._sources, by, given)
                if route.changes:
                    await self._note(request, route, token, outcome.target, dict(outcome.detail))
                return _told(route, outcome)
            except Exception as error:
                problem = self._problem_of(request, error)
                if route.changes and token is not None and problem.code != "role":
                    # A store that fails may not note it either; the program is told of the first failure.
                    with suppress(StoreError, TimeoutError):
                        await self._note(
                            request, route, token, "", {"why": problem.detail[:300]}, failed=True
                        )
                return _told_problem(problem)

        return handle

    async def _document(self, _: web.Request) -> web.StreamResponse:
        return web.json_response(document(ROUTES))

    async def _unknown(self, request: web.Request) -> web.StreamResponse:
        path = request.rel_url.raw_path
        allowed = sorted(
            {route.method for route in ROUTES if re.fullmatch(_IN_PATH.sub("[^/]+", route.path), path)}
        )
        if allowed:
            response = _told_problem(Problem(405, "method", f"Here {', '.join(allowed)} can be asked."))
            response.headers["Allow"] = ", ".join(allowed)
            return response
        return _told_problem(Problem(404, "not_there", "There is no such path; /api/openapi.json lists all."))

    async def _token(self, request: web.Request) -> AdminToken:
        scheme, _, text = request.headers.get("Authorization", "").partition(" ")
        found = None
        if scheme.lower() == "bearer" and text.strip():
            found = await asyncio.to_thread(self._sources.store.admin_tokens.find, text.strip()[:1000])
        if found is None:
            await self._access.note_refusal(request, request.path, "token")
            raise Problem(
                401,
                "token",
                "Send an admin token as `Authorization: Bearer`; `understudy admin token create` makes one.",
            )
        return found

    async def _check_role(self, request: web.Request, route: Route, token: AdminToken) -> None:
        needed = route.role
        if Role(token.role).covers(needed):
            return
        if route.changes:
            detail: dict[str, object] = {"why": "role", "token": token.id}
            await self._access.note(
                request, route.name, outcome="refused", detail=detail, user=f"token:{token.name}"
            )
        raise Problem(403, "role", f"This needs the role {needed.value!r}; the token's is {token.role!r}.")

    async def _note(
        self,
        request: web.Request,
        route: Route,
        token: AdminToken,
        target: str,
        detail: dict[str, Any],
        *,
        failed: bool = False,
    ) -> None:
        await self._access.note(
            request,
            route.name,
            target=target or next(iter(request.match_info.values()), "")[:200],
            outcome="failed" if failed else "done",
            detail={**detail, "token": token.id},
            user=f"token:{token.name}",
        )

    def _problem_of(self, request: web.Request, error: Exception) -> Problem:
        match error:
            case Problem():
                return error
            case NotThere():
                return Problem(404, "not_there", str(error))
            case ActionFailed():
                return Problem(409, "conflict", str(error))
            case BadParameter():
                return Problem(400, "invalid", str(error))
            case ValueError():
                return Problem(400, "invalid", f"{error}.")
            case web.HTTPRequestEntityTooLarge():
                return Problem(413, "too_large", f"At most {_MOST_BODY_BYTES} bytes are taken.")
            case StoreError() | TimeoutError():
                self._failed(request.path, error)
                return Problem(
                    503,
                    "store",
                    "The store cannot be used just now. Look whether what you asked for was done.",
                )
        self._failed(request.path, error)
        return Problem(500, "internal_error", "Something went wrong here; the gateway's log says where.")


def _with_path(sent: dict[str, Any], path: Mapping[str, str]) -> dict[str, Any]:
    """The input of an operation. Raises ValueError for a body that is of another object than the path."""
    for name, value in path.items():
        if sent.get(name, value) != value:
            raise ValueError(f"{name} cannot be changed")
    return {**sent, **path}


async def _body(request: web.Request) -> dict[str, Any]:
    """The body's JSON object; empty for an empty body. Raises Problem."""
    if (request.content_length or 0) > _MOST_BODY_BYTES:
        raise Problem(413, "too_large", f"At most {_MOST_BODY_BYTES} bytes are taken.")
    raw = await request.read()
    if len(raw) > _MOST_BODY_BYTES:
        raise Problem(413, "too_large", f"At most {_MOST_BODY_BYTES} bytes are taken.")
    try:
        found = orjson.loads(raw) if raw.strip() else {}
    except orjson.JSONDecodeError as error:
        raise Problem(
            400, "bad_json", f"The body is no JSON: {error.msg}, at character {error.pos}."
        ) from None
    if not isinstance(found, dict):
        raise Problem(400, "bad_json", "The body is no JSON object.")
    return found


def _told(route: Route, outcome: Outcome) -> web.Response:
    status = 201 if outcome.made else route.status
    response = web.Response(status=status, body=orjson.dumps(outcome.value), content_type="application/json")
    if route.status == 201:
        response.headers["Location"] = f"{route.path}/{outcome.target}"
    return response


def _told_problem(problem: Problem) -> web.Response:
    body = {
        "type": "about:blank",
        "title": HTTPStatus(problem.status).phrase,
        "status": problem.status,
        "code": problem.code,
        "detail": problem.detail,
    }
    response = web.Response(
        status=problem.status, body=orjson.dumps(body), content_type="application/problem+json"
    )
    if problem.status == 401:
        response.headers["WWW-Authenticate"] = "Bearer"
    if problem.status == 503:
        response.headers["Retry-After"] = _RETRY_AFTER_S
    return response
