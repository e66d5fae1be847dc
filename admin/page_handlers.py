"""Handlers of pages and actions: a page with its twins, an action's redirect, a refused form that comes back, downloads."""

from __future__ import annotations

import asyncio
import inspect
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, tzinfo
from typing import Any
from urllib.parse import unquote, urlsplit

from aiohttp import web
from aiohttp.web_request import FileField
from yarl import URL

from admin.access import (
    LIVE_HEADER,
    SENT,
    TOKEN,
    VIEWER,
    Access,
    Handler,
    form_of,
    redirect,
    texts_in,
    wants_json,
)
from admin.as_csv import as_csv
from admin.flashes import Flashes
from admin.half_written import half_written
from admin.headers import HEADERS
from admin.kept import Results
from admin.page import Action, ActionFailed, Asked, BadParameter, Done, Download, NotThere, Page, Viewer
from admin.refused_forms import RefusedForm, holds, refilled
from admin.rendering import Rendering, as_json
from admin.roles import Role, revealed
from admin.sources import Sources
from admin.unknown import UNKNOWN
from store.errors import StoreError

SHOWN, KEPT = "/shown/{id}", "/kept/{id}"
_SHOWN_ONCE = "This result was shown once, to whoever asked for it, and is not kept any longer."
_NOT_KEPT = "Nothing of yours is kept here, or not any longer."
_LATE = "Your session had ended when you sent this, so nothing was done. Look through it, and send it again."


class Twin(str):
    """Address of a page's JSON twin, and of its CSV."""

    __slots__ = ("csv",)
    csv: str
    """Empty for a page without one."""

    @classmethod
    def of(cls, path: str, query: str, *, csv: bool) -> Twin:
        """The twins of the page at this path, with the same query."""
        asked = f"?{query}" if query else ""
        made = cls(f"{path}.json{asked}")
        made.csv = f"{path}.csv{asked}" if csv else ""
        return made


@dataclass(frozen=True, slots=True)
class Place:
    """A page as it was asked for."""

    page: Page
    path: str
    match: Mapping[str, str]
    query: Mapping[str, str]
    query_string: str = ""
    lists: Mapping[str, tuple[str, ...]] | None = None

    @property
    def here(self) -> str:
        """Its address."""
        return f"{self.path}?{self.query_string}" if self.query_string else self.path


class PageHandlers:
    """Makes the handlers of every page and action."""

    def __init__(self, sources: Sources, access: Access, rendering: Rendering, zone: tzinfo = UTC) -> None:
        """`zone`: the time zone that times are written and read in."""
        self._sources = sources
        self._access = access
        self._rendering = rendering
        self._zone = zone
        self._flashes = Flashes()
        self._results = Results()
        self._patterns: list[tuple[re.Pattern[str], Page]] = []

    def add_to(self, router: web.UrlDispatcher, pages: Sequence[Page]) -> None:
        """Routes every page, its twins and its actions."""
        needs = self._access.needs
        router.add_get(SHOWN, needs(Role.VIEWER, self._result))
        router.add_get(KEPT, needs(Role.VIEWER, self._written))
        for page in pages:
            handler = needs(page.role, self._shows(page))
            self._patterns.append((_pattern(page), page))
            # The twins first, so that an {id} does not match their endings.
            router.add_get(page.path + ".json", handler)
            if page.csv:
                router.add_get(page.path + ".csv", handler)
            router.add_get(page.path, handler)
            for download in page.downloads:
                router.add_get(download.path, needs(download.role, self._sends(download, page)))
            for action in page.actions:
                router.add_post(action.path, needs(action.role, self._does(action, page)))
        self._patterns.sort(key=lambda one: one[1].path.count("{"))

    # ---- pages

    def _shows(self, page: Page) -> Handler:
        async def show(request: web.Request) -> web.StreamResponse:
            place = Place(
                page,
                request.path,
                dict(request.match_info),
                dict(request.query),
                request.query_string,
                _lists(request.query),
            )
            itself = LIVE_HEADER in request.headers
            asked = self._asked(request, place, by_itself=itself)
            kind = "json" if wants_json(request) else "csv" if _wants_csv(request, page) else "html"
            flash = "" if itself or kind != "html" else self._flashes.take(request[TOKEN])

            def make() -> bytes | str:
                summary = revealed(page.summary(self._sources, asked), asked.viewer.role)
                if kind == "html" and page.follow and summary[page.follow]:
                    return str(summary[page.follow])
                if kind == "html":
                    return self._html(request, place, page.template, summary, flash)
                return as_json(summary) if kind == "json" else as_csv(summary[page.csv])

            made = await asyncio.to_thread(make)
            return redirect(made) if isinstance(made, str) else _response(made, kind)

        return show

    async def _again(
        self, request: web.Request, place: Place, form: RefusedForm, status: int
    ) -> web.Response:
        """The page with a form filled as it was sent. Raises what the summary raises."""
        asked = self._asked(request, place)

        def make() -> bytes:
            summary = revealed(place.page.summary(self._sources, asked), asked.viewer.role)
            return self._html(request, place, place.page.template, summary, form=form)

        response = _response(await asyncio.to_thread(make), "html")
        response.set_status(status)
        return response

    def _asked(self, request: web.Request, place: Place, *, by_itself: bool = False) -> Asked:
        return Asked(
            request[VIEWER],
            time.time(),
            place.match,
            place.query,
            by_itself=by_itself,
            zone=self._zone,
            lists=place.lists or {},
        )

    # ---- downloads

    def _sends(self, download: Download, page: Page) -> Handler:
        async def send(request: web.Request) -> web.StreamResponse:
            place = Place(
                page, request.path, dict(request.match_info), dict(request.query), lists=_lists(request.query)
            )
            asked = self._asked(request, place)
            # One thread for all of it: a connection to the store belongs to the thread that reads.
            with ThreadPoolExecutor(1, thread_name_prefix="download") as thread:
                return await self._sent(request, download, asked, thread)

        return send

    async def _sent(
        self, request: web.Request, download: Download, asked: Asked, thread: ThreadPoolExecutor
    ) -> web.StreamResponse:
        loop = asyncio.get_running_loop()
        lines = await loop.run_in_executor(thread, download.lines, self._sources, asked)
        # The first part before the headers: what is wrong with the parameters is an error, not an empty file.
        part = await loop.run_in_executor(thread, _part, lines)
        wanted = {name: value[:100] for name, value in asked.query.items() if value}
        await self._access.note(request, download.path, detail=dict(wanted))
        response = web.StreamResponse(headers={"Content-Type": "application/jsonl"})
        response.headers["Content-Disposition"] = f'attachment; filename="{download.name}"'
        response.headers.update(HEADERS)
        await response.prepare(request)
        while part:
            await response.write(part)
            part = await loop.run_in_executor(thread, _part, lines)
        await response.write_eof()
        return response

    # ---- actions

    def _does(self, action: Action, page: Page) -> Handler:
        name = action.name or action.path

        async def act(request: web.Request) -> web.StreamResponse:
            form = await form_of(request)
            request[SENT] = texts_in(form)
            lists = _lists(form)
            fields = {name: values[-1] for name, values in lists.items()}
            match = dict(request.match_info)
            asked = Asked(request[VIEWER], time.time(), match, fields, zone=self._zone, lists=lists)
            try:
                done = await self._run(action, asked)
            except (ActionFailed, BadParameter, NotThere) as error:
                await self._access.note(request, name, outcome="failed", detail={"why": str(error)})
                if isinstance(error, NotThere) or wants_json(request):
                    raise
                return await self._refused(request, page, lists, error)
            except Exception as error:
                why = type(error).__name__
                # A store that fails may not note it either; the person is told of the first failure.
                with suppress(StoreError, TimeoutError):
                    await self._access.note(request, name, outcome="failed", detail={"why": why})
                raise
            await self._access.note(request, name, target=done.target, detail=dict(done.detail))
            return self._done(request, action, page, done)

        return act

    def _done(self, request: web.Request, action: Action, page: Page, done: Done) -> web.StreamResponse:
        """A redirect, so that loading the page again repeats nothing; JSON for a client that is no browser."""
        if wants_json(request):
            shown = revealed(done.shown or {}, request[VIEWER].role)
            return _response(as_json({"message": done.message, **shown}), "json")
        token = request[TOKEN]
        if done.shown is not None:
            id = self._results.put(token, page, action.template, done.shown, done.message, again=done.again)
            return redirect(SHOWN.format(id=id))
        self._flashes.put(token, done.message)
        return redirect(done.to or page.path)

    async def _run(self, action: Action, asked: Asked) -> Done:
        if inspect.iscoroutinefunction(action.run):
            done = await action.run(self._sources, asked)
        else:
            done = await asyncio.to_thread(action.run, self._sources, asked)
        assert isinstance(done, Done)
        return done

    async def _refused(
        self,
        request: web.Request,
        page: Page,
        lists: Mapping[str, tuple[str, ...]],
        error: ActionFailed | BadParameter,
    ) -> web.StreamResponse:
        place = self._holder(request, request.headers.get("Referer", ""))
        place = place or Place(page, _path(page, request.match_info), dict(request.match_info), {})
        form = RefusedForm(request.path, lists, str(error), error.field)
        try:
            return await self._again(request, place, form, 409 if isinstance(error, ActionFailed) else 400)
        except (BadParameter, NotThere, KeyError):
            # The page that held the form cannot be shown any more: the sentence alone, then.
            raise error from None

    def _holder(self, request: web.Request, referer: str) -> Place | None:
        """The page of ours that a browser names as the one it comes from, if this person may see it."""
        try:
            parts = urlsplit(referer)
        except ValueError:
            return None
        if not parts.path.startswith("/") or (parts.netloc and parts.netloc != request.host):
            return None
        page, match = self._at(parts.path)
        if page is None or not request[VIEWER].role.covers(page.role):
            return None
        query = URL.build(path="/", query_string=parts.query).query
        return Place(page, parts.path, match, dict(query), parts.query, _lists(query))

    def _at(self, path: str) -> tuple[Page | None, dict[str, str]]:
        """The page at a path that a browser wrote, and what stands in its braces."""
        for pattern, page in self._patterns:
            if found := pattern.fullmatch(path):
                return page, {name: unquote(value) for name, value in found.groupdict().items()}
        return None, {}

    # ---- what was kept for somebody

    async def _result(self, request: web.Request) -> web.StreamResponse:
        """GET /shown/{id}: what an action gave to be shown."""
        result = None
        if request.method == "GET" and LIVE_HEADER not in request.headers:
            result = self._results.take(request.match_info["id"], request[TOKEN])
        if result is None:
            raise NotThere(_SHOWN_ONCE)
        summary = revealed(dict(result.summary), request[VIEWER].role)
        place = Place(result.page, request.path, {}, {})
        body = self._html(request, place, result.template, summary, result.message)
        return _response(body, "html")

    async def _written(self, request: web.Request) -> web.StreamResponse:
        """GET /kept/{id}: the page of a form that came when its session had ended, filled with what was written."""
        form = self._access.written.get(request.match_info["id"], request[VIEWER].name)
        place = self._holder(request, form.referer) if form is not None else None
        request[SENT] = dict(form.values) if form is not None else {}
        if form is None or place is None:
            raise NotThere(_NOT_KEPT)
        return await self._again(request, place, RefusedForm(form.action, form.values, _LATE), 200)

    def _html(
        self,
        request: web.Request,
        place: Place,
        template: str,
        summary: Mapping[str, Any],
        flash: str = "",
        form: RefusedForm | None = None,
    ) -> bytes:
        viewer: Viewer = request[VIEWER]
        page = place.page
        values = {
            **summary,
            "page": page,
            "title": page.title,
            "section": page.section or page.path,
            "not_known": UNKNOWN.get(page.section or page.path, ""),
            "viewer": viewer,
            "may_read": viewer.role.reads_content,
            "may_change": viewer.role.covers(Role.OPERATOR),
            "query": place.query,
            "twin": Twin.of(place.path, place.query_string, csv=bool(page.csv)),
            "form_token": self._access.form_token(request[TOKEN]),
            "here": place.here,
            "flash": flash,
            "form": form,
        }
        text = self._rendering.render(template, values)
        if form is None:
            return text.encode()
        if not holds(text, form):
            written = half_written(request.get(SENT, {}))
            return self._rendering.render(template, values | {"written": written}).encode()
        return refilled(text, form).encode()


def _lists(given: Any) -> dict[str, tuple[str, ...]]:
    """Every value by its name; of a file, what is in it."""
    return {name: tuple(_text(value) for value in given.getall(name)) for name in dict.fromkeys(given)}


def _text(value: Any) -> str:
    # Where no file was chosen, a browser sends a part without a name, which is read as bytes.
    data = value.file.read() if isinstance(value, FileField) else value
    return data.decode("utf-8", "replace") if isinstance(data, bytes | bytearray) else str(data)


_PART_BYTES = 128 * 1024


def _part(lines: Iterator[bytes]) -> bytes:
    """The next lines of a download; nothing at its end."""
    found, size = [], 0
    for line in lines:
        found.append(line)
        size += len(line)
        if size >= _PART_BYTES:
            break
    return b"".join(found)


def _path(page: Page, match: Mapping[str, str]) -> str:
    path = page.path
    for name, value in match.items():
        path = path.replace(f"{{{name}}}", value)
    return path


def _pattern(page: Page) -> re.Pattern[str]:
    """What the path of a page looks like; those with their own word stand before those with any."""
    return re.compile(re.sub(r"\\\{(\w+)\\\}", r"(?P<\1>[^/]+)", re.escape(page.path)))


def _wants_csv(request: web.Request, page: Page) -> bool:
    return bool(page.csv) and request.path.endswith(".csv")


_TYPES = {"html": "text/html", "json": "application/json", "csv": "text/csv"}


def _response(body: bytes, kind: str) -> web.Response:
    response = web.Response(body=body, content_type=_TYPES[kind], charset="utf-8")
    if kind == "csv":
        response.headers["Content-Disposition"] = "attachment"
    response.enable_compression()
    return response
