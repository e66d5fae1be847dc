"""Asks one URL of a component for JSON, through the limits, breaker and retries that chat engines have.

The URL is the configuration's. What a workflow gives goes into query values and JSON bodies only. Redirects are not
followed; sizes and times are bounded. Errors name the component and a status, never a URL, a key or what was said.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, unquote_plus, urlsplit

import orjson
from multidict import CIMultiDict

from engines.attempts import Attempts
from engines.candidates import Try
from engines.components.component import ComponentError, ComponentLimits, OverHTTP
from engines.engine import EngineInfo, EngineReply, EngineRequest
from engines.errors import EngineError, Kind, StreamBroken
from engines.openai_http import OpenAIHTTP
from engines.proxies import proxy_for
from engines.retry_after import retry_after_s
from engines.servers.breaker import Breaker
from engines.servers.server import Limits, Server
from engines.servers.servers import Servers
from engines.timeouts import Timeouts

LARGE_BYTES = 64 * 1024
"""What is larger is read and written in a thread."""
_LONGEST_WAIT_S = 60.0
"""For a rate limit: a step can wait, where a client would rather be told."""
_UNTOLD_WAIT_S = 1.0
"""For a rate limit that does not say how long it lasts."""
_LONGEST_TARGET_BYTES = 32 * 1024
"""Few servers take a request line of more than 8 KiB."""
_LAST_STATUS = 299
_TOO_LARGE = 413


@dataclass(frozen=True, slots=True)
class Came:
    """A whole answer of status 2xx."""

    body: bytes

    async def json(self, name: str) -> Any:
        """Reads it as JSON. Raises ComponentError where it is no JSON."""
        try:
            if len(self.body) > LARGE_BYTES:
                return await asyncio.to_thread(orjson.loads, self.body)
            return orjson.loads(self.body)
        except orjson.JSONDecodeError:
            raise ComponentError(
                f"The component '{name}' answered {len(self.body)} bytes that are no JSON.", component=name
            ) from None


class URLAsked:
    """One configured URL, or several that answer the same. `tail` is appended to its path.

    Its query may hold placeholders as `{query}`, as values.
    """

    def __init__(
        self, name: str, http: OverHTTP, limits: ComponentLimits, *, tail: str = "", probed: bool = False
    ) -> None:
        """`probed`: it may be asked for `/models` in the background to see whether it lives."""
        self._target = tail + split_url(http.url)[1]
        self.name = name
        self.probed = probed
        self._limits = limits
        urls = (http.url, *http.further_urls)
        # Its own queue stands before it: here nothing waits but for a place that is about to be free.
        self._engine = Servers([self._server(url, http, alone=len(urls) == 1) for url in urls])
        self.servers = self._engine.servers

    def _server(self, url: str, http: OverHTTP, *, alone: bool) -> Server:
        limits = self._limits
        base, _ = split_url(url)
        engine = OpenAIHTTP(
            EngineInfo(self.name, replica="" if alone else urlsplit(url).netloc, attempts=limits.attempts),
            base,
            timeouts=Timeouts(limits.connect_s, limits.answer_s, limits.answer_s, limits.answer_s),
            authorization=None if http.api_key is None else f"Bearer {http.api_key}",
            extra_headers=http.headers,
            # What has effects is sent once; what has none is asked again by `_asked`, which counts its attempts.
            resends=False,
            proxy=proxy_for(base),
        )
        within = Limits(limits.max_in_flight, limits.max_queued, None, None, None)
        breaker = Breaker(failures=limits.breaker_failures, open_s=limits.breaker_open_s)
        return Server(engine, within, breaker)

    async def post(self, value: Any, *, idempotency_key: str = "", once: bool = False) -> Came:
        """The answer to a JSON body. `once`: it is sent once at most. Raises ComponentError."""
        body = await asyncio.to_thread(_written, value) if is_large(value) else _written(value)
        return await self._asked("POST", self._target, body, idempotency_key, once)

    async def get(
        self,
        values: Mapping[str, str],
        *,
        further: Mapping[str, str] | None = None,
        idempotency_key: str = "",
        once: bool = False,
    ) -> Came:
        """The answer to a GET with the query's placeholders replaced, and further names and values appended."""
        target = filled(self._target, values)
        if further:
            mark = "&" if "?" in target else "?"
            target += mark + "&".join(f"{_quoted(name)}={_quoted(value)}" for name, value in further.items())
        if len(target) > _LONGEST_TARGET_BYTES:
            raise self.error(
                f"was not asked: its query would have {len(target)} bytes, and {_LONGEST_TARGET_BYTES} are allowed",
                Kind.TOO_LONG,
            )
        return await self._asked("GET", target, b"", idempotency_key, once)

    @property
    def names(self) -> frozenset[str]:
        """Names of the values that its query has by itself."""
        pairs = self._target.partition("?")[2].split("&")
        return frozenset(unquote_plus(pair.partition("=")[0]) for pair in pairs)

    async def aclose(self) -> None:
        """Close its connections."""
        await self._engine.aclose()

    # ---- one request

    async def _asked(self, method: str, target: str, body: bytes, key: str, once: bool) -> Came:
        headers = CIMultiDict({"Accept": "application/json", "Accept-Encoding": "identity"})
        if body:
            headers["Content-Type"] = "application/json"
        if key:
            headers["Idempotency-Key"] = key
        request = EngineRequest(method, target, headers, body, plain=True, background=True)
        waited_s, broken = 0.0, 0
        while True:
            try:
                return await self._answer(request, once)
            except ComponentError as error:
                wait_s = error.retry_after_s or 0.0
                limited = error.kind is Kind.LIMITED and 0 < wait_s <= _LONGEST_WAIT_S - waited_s
                broken += error.kind is Kind.BROKEN
                if once or not (limited or 0 < broken < self._limits.attempts):
                    raise
                waited_s += wait_s if limited else 0.0
                await asyncio.sleep(wait_s if limited else 0.0)

    async def _answer(self, request: EngineRequest, once: bool) -> Came:
        asked: AbstractAsyncContextManager[EngineReply]
        asked = self._engine.stream(request) if once else Attempts([Try(self._engine, request)])
        try:
            async with asked as reply:
                if not 200 <= reply.status <= _LAST_STATUS:
                    raise self._refused(reply)
                return Came(await self._body(reply))
        except EngineError as error:
            # A body that broke off after it began was not asked for again.
            kind = Kind.BROKEN if isinstance(error, StreamBroken) else error.kind
            raise ComponentError(
                f"The component '{self.name}': {error.message}",
                component=self.name,
                kind=kind,
                retry_after_s=error.retry_after_s,
            ) from error

    async def _body(self, reply: EngineReply) -> bytes:
        encoding = reply.headers.get("Content-Encoding", "identity").strip().lower()
        if encoding != "identity":
            raise self.error("answered in an encoding that it was not asked for")
        body = bytearray()
        async for chunk in reply.chunks:
            body += chunk
            if len(body) > self._limits.max_answer_bytes:
                raise self.error(
                    f"answered more than {self._limits.max_answer_bytes} bytes (max_answer_bytes)"
                )
        return bytes(body)

    def _refused(self, reply: EngineReply) -> ComponentError:
        if 300 <= reply.status < 400:
            return self.error(f"answered {reply.status}, and redirects are not followed", Kind.REFUSED)
        kind = reply.kind or (Kind.SERVER if reply.status >= 500 else Kind.INVALID)
        if reply.status == _TOO_LARGE:
            kind = Kind.TOO_LONG
        wait_s = reply.limited_s or retry_after_s(reply.headers)
        if kind is Kind.LIMITED:
            wait_s = wait_s or _UNTOLD_WAIT_S
        return self.error(f"answered with status {reply.status}", kind, wait_s)

    def error(
        self, what: str, kind: Kind = Kind.INVALID, retry_after_s: float | None = None
    ) -> ComponentError:
        """The error that says what it did, free of content."""
        return ComponentError(
            f"The component '{self.name}' {what}.",
            component=self.name,
            kind=kind,
            retry_after_s=retry_after_s,
        )


def split_url(url: str, *, placeholders: tuple[str, ...] = ("query", "k")) -> tuple[str, str]:
    """A configured URL as its base (scheme, host, path) and its query with the `?`, for `filled`.

    Raises ValueError with its remedy: another scheme, no host, a user or password, a fragment, a placeholder anywhere but in
    a value of the query, or an unknown one.
    """
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError("must be a whole URL that begins with http:// or https://")
    if parts.username is not None or parts.password is not None:
        raise ValueError("holds a user or password; put the credential into api_key or headers")
    if parts.fragment or url.endswith("#"):
        raise ValueError("holds a fragment (#…), which is never sent; leave it out")
    if _holds_brace(parts.netloc + parts.path):
        raise ValueError("holds a placeholder outside its query; placeholders stand for query values only")
    for pair in parts.query.split("&"):
        _check_value(pair, placeholders)
    base = f"{parts.scheme}://{parts.netloc}{parts.path.rstrip('/')}"
    slash = "/" if parts.path.endswith("/") and parts.path != "/" else ""
    return base, slash + (f"?{parts.query}" if parts.query else "")


def _check_value(pair: str, placeholders: tuple[str, ...]) -> None:
    name, _, value = pair.partition("=")
    if _holds_brace(name):
        raise ValueError(f"holds a placeholder as the name of a query value: {name!r}")
    for placeholder in placeholders:
        value = value.replace(f"{{{placeholder}}}", "")
    if _holds_brace(value):
        known = " and ".join(f"{{{placeholder}}}" for placeholder in placeholders)
        raise ValueError(f"holds a placeholder that is none of {known}, in {name!r}")


def _holds_brace(text: str) -> bool:
    return "{" in text or "}" in text


def filled(target: str, values: Mapping[str, str]) -> str:
    """A target with its placeholders replaced, percent-encoded: what a value holds is always of the value."""
    path, mark, query = target.partition("?")
    if not mark:
        return target
    # In one pass: a value that looks like a placeholder stays a value.
    pieces = []
    for piece in query.split("{"):
        name, closed, rest = piece.partition("}")
        pieces.append(_quoted(values[name]) + rest if closed and name in values else piece)
    return f"{path}?{''.join(pieces)}"


def _written(value: Any) -> bytes:
    try:
        return orjson.dumps(value)
    except TypeError:
        # Half a surrogate pair, which JSON can smuggle in.
        return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")


def _quoted(value: str) -> str:
    return quote(value, safe="", errors="replace")


def is_large(value: Any) -> bool:
    """Tells whether writing a JSON value is a thread's work, as far as its texts tell."""
    if isinstance(value, str):
        return len(value) > LARGE_BYTES
    if isinstance(value, Mapping):
        return any(map(is_large, value.values()))
    if isinstance(value, list | tuple):
        size = sum(len(each) if isinstance(each, str) else 1 for each in value)
        return size > LARGE_BYTES or any(is_large(each) for each in value if not isinstance(each, str))
    return False
