"""The door of the admin pages: who asks, may they, and did the form come from our own page. Nothing is answered past it.

Every handler is registered with the role it needs; one that is not is for operators only.
"""

from __future__ import annotations

import asyncio
import hmac
import time
from collections.abc import Awaitable, Callable
from urllib.parse import quote, urlsplit

from aiohttp import web

from admin.page import Viewer
from admin.roles import Role
from store.people.audit import AuditLog, AuditOutcome, AuditRecord
from store.people.sessions import AdminSessions

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
VIEWER = web.RequestKey("viewer", Viewer)
"""Who asks; on every request that is past the door, but for public ones."""
TOKEN = web.RequestKey("token", str)
"""The cookie: of a session, or of somebody who is about to sign in."""
FORM_FIELD, FORM_HEADER = "form_token", "X-Form-Token"
LIVE_HEADER = "X-Live"
"""A page that refreshes itself: that keeps nobody signed in."""


class Refused(Exception):
    """The door stays shut: the status, and a sentence that says why."""

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(message)
        self.status, self.code, self.message = status, code, message


class Access:
    """Middleware. Raises Refused; sends who is not signed in to the sign-in page."""

    def __init__(self, sessions: AdminSessions, audit: AuditLog, cookie: str) -> None:
        self._sessions = sessions
        self._audit = audit
        self.cookie = cookie
        self._needed: dict[Handler, Role | None] = {}

    def public(self, handler: Handler) -> Handler:
        """Let anybody ask this handler."""
        self._needed[handler] = None
        return handler

    def needs(self, role: Role, handler: Handler) -> Handler:
        """Let those ask this handler whose role covers `role`."""
        self._needed[handler] = role
        return handler

    @web.middleware
    async def middleware(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """See the module."""
        needed = self._needed.get(request.match_info.handler, Role.OPERATOR)
        token = request.cookies.get(self.cookie, "")
        request[TOKEN] = token
        viewer = await self.viewer(token, touch=LIVE_HEADER not in request.headers) if token else None
        if request.method not in ("GET", "HEAD"):
            await self._check_origin(request, token, viewer)
        if needed is None:
            if viewer is not None:
                request[VIEWER] = viewer
            return await handler(request)
        if viewer is None:
            if wants_json(request) or request.method != "GET" or LIVE_HEADER in request.headers:
                raise Refused(401, "not_signed_in", "Sign in first; sessions end after a while.")
            return redirect("/sign-in?next=" + quote(request.path_qs, safe=""))
        request[VIEWER] = viewer
        if not viewer.role.covers(needed):
            if request.method not in ("GET", "HEAD"):
                await self.note(request, request.path, outcome="refused", detail={"why": "role"})
            raise Refused(
                403,
                "role",
                f"This needs the role {needed.value!r}; yours is {viewer.role.value!r}.",
            )
        return await handler(request)

    async def viewer(self, token: str, *, touch: bool) -> Viewer | None:
        """Who a cookie belongs to."""
        found = await asyncio.to_thread(self._sessions.find, token, touch=touch)
        return None if found is None else Viewer(found.user, Role(found.role))

    def form_token(self, token: str) -> str:
        """What forms of this cookie's holder bring along."""
        return self._sessions.form_token(token)

    async def note(
        self,
        request: web.Request,
        action: str,
        *,
        target: str = "",
        outcome: AuditOutcome = "done",
        detail: dict[str, object] | None = None,
        user: str | None = None,
    ) -> None:
        """A row of the audit log, committed before the answer leaves."""
        if user is None:
            viewer = request.get(VIEWER)
            user = viewer.name if viewer is not None else ""
        record = AuditRecord(time.time(), user, action, target, outcome, request.remote or "", detail or {})
        await asyncio.wrap_future(self._audit.note(record))

    async def _check_origin(self, request: web.Request, token: str, viewer: Viewer | None) -> None:
        """A browser says where a form came from, and only our own pages know the token that follows from the cookie."""
        origin = request.headers.get("Origin")
        same = origin is not None and urlsplit(origin).netloc == request.host
        given = request.headers.get(FORM_HEADER)
        if given is None and same:
            try:
                given = str((await request.post()).get(FORM_FIELD, ""))
            except ValueError:
                given = ""
        if same and token and given and hmac.compare_digest(given, self.form_token(token)):
            return
        await self.note(
            request,
            request.path,
            outcome="refused",
            detail={"why": "form token" if same else "origin"},
            user=viewer.name if viewer else "",
        )
        raise Refused(
            403,
            "foreign_form",
            "This form did not come from a page of this session. Load the page again and repeat what you did.",
        )


def redirect(to: str) -> web.Response:
    """Look there instead, with GET."""
    return web.Response(status=303, headers={"Location": to})


def wants_json(request: web.Request) -> bool:
    """Whether the JSON twin is asked for: by its path, or by the Accept header of something that is no browser."""
    accept = request.headers.get("Accept", "")
    return request.path.endswith(".json") or ("application/json" in accept and "text/html" not in accept)
