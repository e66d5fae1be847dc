"""Access control of the admin pages: session, role and the origin of forms are checked before any handler runs.

Every handler is registered with the role it needs; a handler without one is for operators only.
"""

from __future__ import annotations

import asyncio
import hmac
import time
from collections.abc import Awaitable, Callable
from urllib.parse import quote, urlsplit

from aiohttp import web
from aiohttp.http_exceptions import BadHttpMessage
from aiohttp.web_request import FileField
from limits import RateLimitItemPerMinute
from limits.storage import MemoryStorage
from limits.strategies import MovingWindowRateLimiter
from multidict import MultiDictProxy

from admin.kept import WrittenForms
from admin.page import Viewer
from admin.roles import Role
from store.people.audit import AuditLog, AuditOutcome, AuditRecord
from store.people.sessions import AdminSessions

Form = MultiDictProxy[str | bytes | bytearray | FileField]
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
VIEWER = web.RequestKey("viewer", Viewer)
"""The signed-in person; set on every request that passed the checks, except for public handlers."""
TOKEN = web.RequestKey("token", str)
"""The cookie's value: of a session, or of a browser that has not signed in yet."""
SENT = web.RequestKey("sent", dict[str, tuple[str, ...]])
"""The texts of a form that an action was asked with: whatever the answer is, they are not lost."""
FORM_FIELD, FORM_HEADER = "form_token", "X-Form-Token"
LIVE_HEADER = "X-Live"
"""Set by a page that refreshes itself, which does not keep a session alive."""


_STRANGERS = RateLimitItemPerMinute(20)
"""Refusals of people who are not signed in that are noted: any web page can make a browser send more."""
_NOTED_WITHIN_S = 5.0
"""Then the person is told that the store takes too long; the row may yet be written."""
_UNREADABLE_FORM = (ValueError, LookupError, RuntimeError, AssertionError, BadHttpMessage)
"""What aiohttp raises of a form's body that is not what its headers say."""


class Refused(Exception):
    """The request is refused with this status, code and sentence."""

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(message)
        self.status, self.code, self.message = status, code, message


class Access:
    """The middleware. Raises Refused; redirects a browser that is not signed in to the sign-in page."""

    def __init__(self, sessions: AdminSessions, audit: AuditLog, cookie: str) -> None:
        self._sessions = sessions
        self._audit = audit
        self.cookie = cookie
        self.written = WrittenForms()
        """Forms that came when their sessions had ended."""
        self._noted = MovingWindowRateLimiter(MemoryStorage())
        self._needed: dict[Handler, Role | None] = {}
        self._by_token: set[Handler] = set()

    def public(self, handler: Handler) -> Handler:
        """Registers a handler for everybody."""
        self._needed[handler] = None
        return handler

    def needs(self, role: Role, handler: Handler) -> Handler:
        """Registers a handler for persons whose role covers `role`."""
        self._needed[handler] = role
        return handler

    def by_token(self, handler: Handler) -> Handler:
        """Registers a handler that checks a token itself; no cookie opens it, so no form of another page can."""
        self._by_token.add(handler)
        return handler

    @web.middleware
    async def middleware(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Checks the session, the form's origin and the role, in this order."""
        if request.match_info.handler in self._by_token:
            return await handler(request)
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
            to = request.path_qs if request.method == "GET" else await self._kept(request, token)
            if wants_json(request) or not to or LIVE_HEADER in request.headers:
                raise Refused(401, "not_signed_in", "Sign in first; sessions end after a while.")
            return redirect("/sign-in?next=" + quote(to, safe=""))
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
        """The person a cookie belongs to; None without a session. `touch` prolongs the session."""
        found = await asyncio.to_thread(self._sessions.find, token, touch=touch)
        return None if found is None else Viewer(found.user, Role(found.role))

    async def _kept(self, request: web.Request, token: str) -> str:
        """Keeps a form for the account whose session has ended, and gives where it is shown again; empty if nobody's."""
        user = await asyncio.to_thread(self._sessions.whose, token) if token else ""
        if request.method != "POST" or not user or wants_json(request):
            return ""
        values = texts_in(await form_of(request))
        id = self.written.put(user, request.path, request.headers.get("Referer", ""), values)
        return f"/kept/{id}" if id else ""

    def form_token(self, token: str) -> str:
        """The token that forms of this cookie's holder must send back."""
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
        """Adds a row to the audit log, committed before the answer leaves. Raises StoreError and TimeoutError."""
        if user is None:
            viewer = request.get(VIEWER)
            user = viewer.name if viewer is not None else ""
        record = AuditRecord(time.time(), user, action, target, outcome, request.remote or "", detail or {})
        async with asyncio.timeout(_NOTED_WITHIN_S):
            await asyncio.shield(asyncio.wrap_future(self._audit.note(record)))

    async def note_refusal(self, request: web.Request, action: str, why: str, user: str = "") -> None:
        """The same for a refusal of somebody who is not signed in; beyond a rate nothing is noted."""
        if self._noted.hit(_STRANGERS):
            await self.note(request, action, outcome="refused", detail={"why": why}, user=user)

    async def _check_origin(self, request: web.Request, token: str, viewer: Viewer | None) -> None:
        """Refuses a form whose Origin header or form token is not ours: only our pages know the token of a cookie."""
        same = _comes_from(request.headers.get("Origin", ""), request.host)
        given = request.headers.get(FORM_HEADER)
        if given is None and same:
            given = str((await form_of(request)).get(FORM_FIELD, ""))
        if same and token and given and hmac.compare_digest(given, self.form_token(token)):
            return
        why = "form token" if same else "origin"
        if viewer is None:
            await self.note_refusal(request, request.path, why)
        else:
            await self.note(request, request.path, outcome="refused", detail={"why": why}, user=viewer.name)
        raise Refused(
            403,
            "foreign_form",
            "This form did not come from a page of this session. Load the page again and repeat what you did.",
        )


def texts_in(form: Form) -> dict[str, tuple[str, ...]]:
    """Every field's values but files: a browser would not choose one again by itself."""
    return {
        name: tuple(each for each in form.getall(name) if isinstance(each, str))
        for name in dict.fromkeys(form)
    }


async def form_of(request: web.Request) -> Form:
    """The fields of a form. Raises Refused (400)."""
    try:
        return await request.post()
    except _UNREADABLE_FORM as error:
        raise Refused(400, "bad_form", "This form cannot be read.") from error


def _comes_from(origin: str, host: str) -> bool:
    try:
        return urlsplit(origin).netloc == host
    except ValueError:
        return False


def redirect(to: str) -> web.Response:
    """A redirect to another page, requested with GET."""
    return web.Response(status=303, headers={"Location": to})


def wants_json(request: web.Request) -> bool:
    """Whether JSON is wanted instead of HTML: by the path, or by the Accept header of a client that is no browser."""
    accept = request.headers.get("Accept", "")
    return request.path.endswith(".json") or ("application/json" in accept and "text/html" not in accept)
