"""The admin application: its routes, and what all answers share: headers, errors, JSON twins."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, tzinfo

import structlog
from aiohttp import web

from admin.access import (
    LIVE_HEADER,
    SENT,
    TOKEN,
    VIEWER,
    Access,
    Handler,
    Refused,
    redirect,
    wants_json,
)
from admin.api.server import AdminApi
from admin.half_written import half_written
from admin.headers import HEADERS
from admin.live import Live, TooManyListeners, events
from admin.menu import menu_of
from admin.oidc import CALLBACK, START, OidcSignIn
from admin.page import ActionFailed, BadParameter, NotThere, Page, Viewer
from admin.page_handlers import PageHandlers
from admin.rendering import Rendering, as_json
from admin.replay_benefits import shared_benefits
from admin.roles import Role
from admin.sign_in import SignIn
from admin.sources import Sources
from admin.static_files import StaticFiles
from admin.summaries.example_map import shared as shared_maps
from admin.summaries.tenant_quality import shared_tenant_quality
from admin.summaries.what_if import shared
from admin.summaries.why_not import shared_why_not
from store.errors import StoreBusy, StoreError

log = structlog.get_logger(__name__)

_MOST_FORM_BYTES = 2 * 2**20
_RETRY_AFTER_S = 5


@dataclass(frozen=True, slots=True)
class Options:
    """How the pages are served."""

    cookie: str = "understudy_admin"
    """Name of the session cookie. Cookies know no port: two gateways on one machine need two names."""
    secure: bool = False
    """Whether browsers reach these pages by HTTPS."""
    oidc: OidcSignIn | None = None
    """Signs people in beside passwords."""
    failed: Callable[[str, BaseException], None] = lambda what, error: None
    """Called with the path of every unexpected exception, for the log."""
    zone: tzinfo = UTC
    """The time zone that times are written and read in; its text is its name."""
    version: str = ""
    """The gateway's, for the foot of every page."""


class AdminApp:
    """The aiohttp application, and the task behind its live updates."""

    def __init__(self, pages: Sequence[Page], sources: Sources, options: Options | None = None) -> None:
        self._sources = sources
        self._options = options or Options()
        self._static = StaticFiles()
        self._pages = tuple(pages)
        zone = self._options.zone
        frame = {"menu": menu_of(self._pages), "zone": str(zone), "version": self._options.version}
        self._rendering = Rendering(self._static, frame, zone)
        self._access = Access(sources.sessions, sources.store.audit, self._options.cookie)
        self._handlers = PageHandlers(sources, self._access, self._rendering, zone)
        self.live = Live(
            lambda: (
                sources.store.version(),
                shared(sources).changes,
                shared_why_not(sources).changes,
                shared_benefits(sources).changes,
                shared_maps(sources).changes,
                shared_tenant_quality(sources).changes,
            )
        )
        self._sign_in = SignIn(
            sources.store.operators,
            sources.sessions,
            self._access,
            self._rendering,
            secure=self._options.secure,
            oidc=self._options.oidc,
        )
        self.app = web.Application(
            middlewares=[self._answers, self._access.middleware], client_max_size=_MOST_FORM_BYTES
        )
        self._route()
        AdminApi(sources, self._access, self._options.failed).add_to(self.app.router)

    def close(self) -> None:
        """Ends its own threads, and background work of the pages."""
        self._sign_in.close()
        self._sources.close()

    async def serve(self, sock: socket.socket, stop: asyncio.Event) -> None:
        """Serves the pages on `sock` with live updates until `stop` is set."""
        runner = web.AppRunner(
            self.app, handle_signals=False, access_log=None, shutdown_timeout=1, handler_cancellation=True
        )
        await runner.setup()
        try:
            await web.SockSite(runner, sock).start()
            host, port = sock.getsockname()[:2]
            log.info("admin_listening", url=f"http://{f'[{host}]' if ':' in host else host}:{port}")
            async with asyncio.TaskGroup() as tasks:
                live = tasks.create_task(self.live.run(), name="live")
                await stop.wait()
                live.cancel()
        finally:
            await runner.cleanup()

    def _route(self) -> None:
        get, post = self.app.router.add_get, self.app.router.add_post
        needs, public = self._access.needs, self._access.public
        get("/", needs(Role.VIEWER, self._home))
        get("/sign-in", public(self._sign_in.form))
        post("/sign-in", public(self._sign_in.submit))
        if self._options.oidc is not None:
            get(START, public(self._sign_in.begin_oidc))
            get(CALLBACK, public(self._sign_in.finish_oidc))
        post("/sign-out", needs(Role.VIEWER, self._sign_in.out))
        get("/live", needs(Role.VIEWER, self._events))
        get("/static/{digest}/{name}", public(self._file))
        self._handlers.add_to(self.app.router, self._pages)

    async def _home(self, request: web.Request) -> web.StreamResponse:
        return redirect(self._pages[0].path)

    async def _file(self, request: web.Request) -> web.StreamResponse:
        found = self._static.get(request.match_info["digest"], request.match_info["name"])
        if found is None:
            raise web.HTTPNotFound
        packed = "gzip" in request.headers.get("Accept-Encoding", "")
        body = await asyncio.to_thread(found.packed if packed else found.plain)
        headers = {"Content-Type": found.content_type, "Vary": "Accept-Encoding"}
        headers["Cache-Control"] = "public, max-age=31536000, immutable"
        if packed:
            headers["Content-Encoding"] = "gzip"
        return web.Response(body=body, headers=headers)

    async def _events(self, request: web.Request) -> web.StreamResponse:
        token = request[TOKEN]

        async def may_listen() -> bool:
            return await self._access.viewer(token, touch=False) is not None

        with self.live.listening() as news:
            response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
            # The middleware that adds these headers runs too late for an answer that has begun.
            response.headers.update(HEADERS)
            await response.prepare(request)
            stream: AsyncIterator[bytes] = events(news, may_listen)
            with suppress(ConnectionError):
                async for event in stream:
                    await response.write(event)
        return response

    @web.middleware
    async def _answers(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Adds the headers of every answer, and turns exceptions into answers."""
        try:
            response = await handler(request)
        except web.HTTPException as answer:
            response = self._problem(request, answer.status, "http", answer.reason)
        except Refused as refused:
            response = self._problem(request, refused.status, refused.code, refused.message)
        except BadParameter as error:
            response = self._problem(request, 400, "bad_parameter", str(error))
        except NotThere as error:
            response = self._problem(request, 404, "not_there", str(error))
        except ActionFailed as error:
            response = self._problem(request, 409, "action_failed", str(error))
        except TooManyListeners as error:
            response = self._problem(request, 503, "too_many_listeners", str(error))
        except (StoreError, TimeoutError) as error:
            self._options.failed(request.path, error)
            response = self._problem(request, 503, "store", _what_to_do(error))
            response.headers["Retry-After"] = str(_RETRY_AFTER_S)
        except Exception as error:
            self._options.failed(request.path, error)
            response = self._problem(
                request, 500, "internal_error", "Something went wrong here; the gateway's log says where."
            )
        if not response.prepared:
            for name, value in HEADERS.items():
                response.headers.setdefault(name, value)
        return response

    def _problem(self, request: web.Request, status: int, code: str, message: str) -> web.Response:
        if wants_json(request) or LIVE_HEADER in request.headers or request.path == "/live":
            error = {"message": message, "type": "admin_error", "code": code}
            return web.Response(
                status=status, body=as_json({"error": error}), content_type="application/json"
            )
        viewer: Viewer | None = request.get(VIEWER)
        text = self._rendering.render(
            "problem.html",
            {
                "title": f"{status}",
                "message": message,
                "viewer": viewer,
                "written": half_written(request.get(SENT, {})),
                "section": "",
                "flash": "",
                "form_token": self._access.form_token(request.get(TOKEN, "")),
            },
        )
        return web.Response(status=status, text=text, content_type="text/html")


def _what_to_do(error: StoreError | TimeoutError) -> str:
    """Why the store did not do what was asked, for the person who asked."""
    if isinstance(error, StoreBusy):
        return "The store has more to write than it can just now, and nothing was changed. Try again in a moment."
    if isinstance(error, TimeoutError):
        return (
            "The store takes too long: another process may have locked it. What was asked may yet be done, so look first"
            " whether it was, and try again then."
        )
    return (
        f"The store cannot be used just now: {error}. Mend that on the gateway's machine (/readyz and the gateway's log tell"
        " of it, too), look whether what you asked for was done, and try again. Requests are answered meanwhile."
    )
