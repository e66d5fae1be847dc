"""Signing in and out: a form, a slow password check, a new cookie. Rate-limited, and recorded in the audit log."""

from __future__ import annotations

import asyncio
import secrets

from aiohttp import web
from limits import RateLimitItemPerMinute
from limits.storage import MemoryStorage
from limits.strategies import MovingWindowRateLimiter

from admin.access import TOKEN, VIEWER, Access, Refused, form_of, redirect, wants_json
from admin.oidc import CALLBACK, START, NotSignedIn, OidcSignIn
from admin.passwords import PasswordCheck, hashed, wants_rehash
from admin.rendering import Rendering
from store.people.operators import NO_PASSWORD, AdminUsers
from store.people.sessions import AdminSessions

_PER_NAME = RateLimitItemPerMinute(10)
"""From one address, which behind a proxy is everybody's: who guesses at one account locks nobody out of another."""
_PER_ADDRESS = RateLimitItemPerMinute(60)
"""What comes from other addresses is not counted: strangers lock no operator out."""
_REMEMBERED_S = 86_400
"""For how long a browser keeps the cookie of an ended session: whose a form was that came too late is known by it."""
_OIDC = "_oidc"
"""What the name of the cookie of a sign-in under way ends in."""


class SignIn:
    """Handlers of /sign-in and /sign-out."""

    def __init__(
        self,
        users: AdminUsers,
        sessions: AdminSessions,
        access: Access,
        rendering: Rendering,
        *,
        secure: bool,
        oidc: OidcSignIn | None = None,
    ) -> None:
        """`secure`: browsers reach these pages by HTTPS, so the cookie is never sent otherwise. `oidc`: beside passwords."""
        self._users = users
        self._sessions = sessions
        self._access = access
        self._rendering = rendering
        self._secure = secure
        self._oidc = oidc
        self._passwords = PasswordCheck()
        self._limiter = MovingWindowRateLimiter(MemoryStorage())

    def close(self) -> None:
        """Ends the thread that checks passwords."""
        self._passwords.close()

    async def form(self, request: web.Request) -> web.StreamResponse:
        """GET /sign-in: the form."""
        if VIEWER in request:
            return redirect(_local(request.query.get("next", "")))
        return await self._form(request, 200)

    async def submit(self, request: web.Request) -> web.StreamResponse:
        """POST /sign-in: checks name and password. Access has checked the origin and the form's token."""
        fields = await form_of(request)
        name, password = str(fields.get("name", ""))[:64], str(fields.get("password", ""))
        address = request.remote or ""
        if not (self._limiter.hit(_PER_NAME, address, name) and self._limiter.hit(_PER_ADDRESS, address)):
            await self._access.note_refusal(request, "sign-in", "rate", user=name)
            response = await self._form(request, 429, "Too many attempts. Wait a minute, then try again.")
            response.headers["Retry-After"] = "60"
            return response
        user = await asyncio.to_thread(self._users.get, name)
        if user is not None and user.password_hash == NO_PASSWORD:
            user = None
        right = await self._passwords.matches(user.password_hash if user else None, password)
        if user is None or not right:
            await self._access.note(request, "sign-in", outcome="failed", user=name)
            return await self._form(request, 401, "Wrong name or password.")
        if wants_rehash(user.password_hash):
            await asyncio.to_thread(lambda: self._users.rehash(name, user.password_hash, hashed(password)))
        self._limiter.clear(_PER_NAME, address, name)
        token = await asyncio.to_thread(self._sessions.open, user.name, instead_of=request[TOKEN])
        await self._access.note(request, "sign-in", user=user.name)
        response = redirect(_local(str(fields.get("next", ""))))
        self._set_cookie(response, token, int(self._sessions.longest_s) + _REMEMBERED_S)
        return response

    async def begin_oidc(self, request: web.Request) -> web.StreamResponse:
        """GET /sign-in/oidc: sends the browser to the provider."""
        assert self._oidc is not None
        if not self._limiter.hit(_PER_ADDRESS, request.remote or ""):
            await self._access.note_refusal(request, "sign-in", "rate")
            return await self._form(request, 429, "Too many attempts. Wait a minute, then try again.")
        try:
            begun = await self._oidc.begin(_local(request.query.get("next", "")))
        except NotSignedIn as why:
            await self._access.note_refusal(request, "sign-in", f"oidc: {why.code}")
            return await self._form(request, 503, str(why))
        response = redirect(begun.url)
        # Lax: the browser comes back from another site.
        response.set_cookie(
            self._access.cookie + _OIDC,
            begun.cookie,
            max_age=int(begun.longest_s),
            path=CALLBACK,
            httponly=True,
            samesite="Lax",
            secure=self._secure,
        )
        return response

    async def finish_oidc(self, request: web.Request) -> web.StreamResponse:
        """GET /sign-in/oidc/callback: the browser comes back; opens a session for whom the provider names."""
        assert self._oidc is not None
        try:
            person = await self._oidc.finish(
                request.query, request.cookies.get(self._access.cookie + _OIDC, "")
            )
        except NotSignedIn as why:
            await self._access.note_refusal(request, "sign-in", f"oidc: {why.code}")
            return await self._form(request, 403, str(why))
        await asyncio.to_thread(self._users.put_external, person.name, person.role)
        token = await asyncio.to_thread(self._sessions.open, person.name, instead_of=request[TOKEN])
        await self._access.note(
            request, "sign-in", user=person.name, detail={"by": "oidc", "role": person.role}
        )
        # No redirect: it would still come from the provider's site, and the session's cookie would not go along.
        page = self._rendering.render(
            "signed_in.html",
            {
                "title": "Signed in",
                "viewer": None,
                "section": "",
                "flash": "",
                "form_token": "",
                "to": person.to,
            },
        )
        response = web.Response(text=page, content_type="text/html")
        response.del_cookie(self._access.cookie + _OIDC, path=CALLBACK)
        self._set_cookie(response, token, int(self._sessions.longest_s) + _REMEMBERED_S)
        return response

    async def out(self, request: web.Request) -> web.StreamResponse:
        """POST /sign-out: ends the session."""
        await asyncio.to_thread(self._sessions.end, request[TOKEN])
        await self._access.note(request, "sign-out")
        response = redirect("/sign-in")
        response.del_cookie(self._access.cookie, path="/")
        return response

    async def _form(self, request: web.Request, status: int, problem: str = "") -> web.Response:
        if wants_json(request):
            raise Refused(status, "sign_in", problem or "Sign in with a browser.")
        # Before there is a session the cookie is a random number, from which the form's token is derived all the same.
        token = request[TOKEN] if request[TOKEN] and VIEWER not in request else secrets.token_urlsafe(32)
        fields = await form_of(request) if request.method == "POST" else {}
        page = self._rendering.render(
            "sign_in.html",
            {
                "title": "Sign in",
                "viewer": None,
                "section": "",
                "flash": "",
                "problem": problem,
                "form_token": self._access.form_token(token),
                "next": str(fields.get("next", "")) or request.query.get("next", ""),
                "name": str(fields.get("name", ""))[:64],
                "oidc": START if self._oidc is not None else "",
            },
        )
        response = web.Response(text=page, status=status, content_type="text/html")
        self._set_cookie(response, token, 3600)
        return response

    def _set_cookie(self, response: web.StreamResponse, token: str, max_age_s: int) -> None:
        response.set_cookie(
            self._access.cookie,
            token,
            max_age=max_age_s,
            path="/",
            httponly=True,
            samesite="Strict",
            secure=self._secure,
        )


def _local(target: str) -> str:
    """The path to go to after signing in: only a path of these pages, whatever was asked for."""
    is_ours = target.startswith("/") and not target.startswith(("//", "/\\", "/sign-"))
    return target if is_ours and target.isprintable() and "\\" not in target else "/overview"
