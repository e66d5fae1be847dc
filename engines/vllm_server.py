"""vLLM over HTTP: openai_http, plus what only vLLM has: its load, its context window, a cache per tenant, priorities.

Figures come from its own pages, asked in the background and only while the engine is in use. The window comes from
`/v1/models` (max_model_len) where the configuration names none. Refuses to know what the answers mean.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import orjson
from cachetools import LRUCache
from multidict import CIMultiDict

from engines.chat import ChatRequest
from engines.engine import EngineInfo, EngineLoad, EngineRequest
from engines.errors import ConnectFailed, EngineError, StreamBroken, TimedOut
from engines.openai_http import Exchange, OpenAIHTTP, Timeouts
from engines.vllm_metrics import ServerFigures, read_figures
from engines.vllm_watch import Watch

_ASIDE_S = 2.0
"""Limit on everything asked beside answers, in seconds: a server that takes longer tells nothing."""
_LARGEST_BYTES = 8 * 2**20
_LARGE_BYTES = 512 * 1024
"""A page of figures larger than this is read on a thread."""
_OURS = frozenset({"cache_salt", "priority"})
"""Body fields that only the gateway may set: a client could read another's cache by its timing, or jump the queue."""


@dataclass(frozen=True, slots=True)
class Priorities:
    """vLLM's priority of a request, lower is sooner; None sends none (a server without priority scheduling refuses any)."""

    clients: int | None = None
    tenants: Mapping[str, int] | None = None
    """By tenant id, before `clients`."""
    background: int | None = None
    """Of the gateway's own requests, which carry no tenant."""

    def of(self, tenant: str) -> int | None:
        """What to send for a tenant's request; an empty one is the gateway itself."""
        if not tenant:
            return self.background
        return (self.tenants or {}).get(tenant, self.clients)


@dataclass(frozen=True, slots=True)
class ServerState:
    """How a server was at one reading."""

    up: bool
    figures: ServerFigures | None = None


class VLLMServer:
    """One vLLM server. `secret` makes the tenants' salts; None sends none.

    `info.context_tokens`, if None, is filled in from the server once it is in use.
    """

    def __init__(
        self,
        info: EngineInfo,
        base_url: str,
        *,
        server_url: str | None = None,
        authorization: str | None = None,
        extra_headers: Mapping[str, str] | None = None,
        timeouts: Timeouts | None = None,
        secret: bytes | None = None,
        priorities: Priorities | None = None,
        poll_s: float = 1.0,
    ) -> None:
        self.info = replace(info, continues=True, caches_prefixes=True)
        self._http = OpenAIHTTP(
            self.info, base_url, authorization=authorization, extra_headers=extra_headers, timeouts=timeouts
        )
        # Of its own, so that a question aside never waits as long as an answer may.
        self._aside = OpenAIHTTP(
            self.info,
            server_url or base_url.rstrip("/").removesuffix("/v1"),
            authorization=authorization,
            extra_headers=extra_headers,
            timeouts=Timeouts(_ASIDE_S, _ASIDE_S, _ASIDE_S, _ASIDE_S),
        )
        self._priorities = priorities or Priorities()
        self._salt = lru_cache(maxsize=1024)(lambda tenant: _salt(secret, tenant) if secret else "")
        self._watch: Watch[ServerState] = Watch(self._read, period_s=poll_s)
        self._asks_window = info.context_tokens is None
        self._window_known = False
        self._counted: LRUCache[bytes, int] = LRUCache(1024)

    def stream(self, request: EngineRequest) -> Exchange:
        """See engines.engine.Engine.stream. The client's own cache_salt and priority are left out, ours put in."""
        self._watch.used()
        return self._http.stream(self._prepared(request))

    def load(self) -> EngineLoad:
        """What the server said lately of all its requests, ours and others'; before that, ours alone."""
        # Whoever asks is about to choose: from now on it is good to know.
        self._watch.used()
        state = self._watch.latest()
        if state is None:
            return EngineLoad(in_flight=self._http.in_flight)
        if state.figures is None:
            return EngineLoad(in_flight=self._http.in_flight, open=state.up)
        figures = state.figures
        return EngineLoad(figures.running, figures.waiting, kv_use=figures.kv_use, open=state.up)

    async def health(self) -> bool:
        """Whether it lives and its engine too: a dead engine shows as 503 first, and as a refused connection soon after."""
        try:
            return (await self._asked(self._aside, "GET", "/health"))[0] < 500
        except EngineError:
            return False

    async def count_tokens(self, what: str | Sequence[Mapping[str, Any]]) -> int | None:
        """See engines.engine.CountsTokens. Remembered for the last thousand; otherwise a round trip of at most 2 s.

        For work in the background and for the rare moment after a failure, never on every request's way (docs/engines.md).
        """
        asked: dict[str, Any] = {"prompt": what} if isinstance(what, str) else {"messages": list(what)}
        if isinstance(what, str):
            asked["add_special_tokens"] = False
        if self.info.model is not None:
            asked["model"] = self.info.model
        body = json.dumps(asked, ensure_ascii=False).encode("utf-8", "replace")
        key = hashlib.sha256(body).digest()
        if (known := self._counted.get(key)) is not None:
            return known
        try:
            status, said = await self._asked(self._aside, "POST", "/tokenize", body)
        except EngineError:
            return None
        count = _field(said, "count") if status == 200 else None
        if not isinstance(count, int):
            return None
        self._counted[key] = count
        return count

    async def aclose(self) -> None:
        """Stop watching, close all connections."""
        await self._watch.aclose()
        await self._http.aclose()
        await self._aside.aclose()

    def _prepared(self, request: EngineRequest) -> EngineRequest:
        chat = request.chat
        if chat is None or not isinstance(request.body, bytes):
            return request
        ours: dict[str, Any] = {}
        if request.tenant and (salt := self._salt(request.tenant)):
            ours["cache_salt"] = salt
        if (priority := self._priorities.of(request.tenant)) is not None:
            ours["priority"] = priority
        if not ours and chat.fields.keys().isdisjoint(_OURS):
            return request
        headers = request.headers.copy()
        headers.popall("Content-Length", None)
        headers.popall("Content-Encoding", None)
        encoded = request.headers.get("Content-Encoding", "identity").strip().lower() != "identity"
        return replace(request, headers=headers, body=_with(chat, ours, encoded=encoded))

    async def _read(self) -> ServerState:
        """One reading. Raises EngineError when the server is merely slow: then nothing is known."""
        try:
            status, _ = await self._asked(self._aside, "GET", "/health")
        except ConnectFailed:
            status = 503
        if status >= 500:
            self._window_known = False
            return ServerState(up=False)
        if self._asks_window and not self._window_known:
            await self._learn_window()
        status, page = await self._asked(self._aside, "GET", "/metrics")
        if status != 200:
            return ServerState(up=True)
        if len(page) > _LARGE_BYTES:
            return ServerState(True, await asyncio.to_thread(read_figures, page))
        return ServerState(True, read_figures(page))

    async def _learn_window(self) -> None:
        status, said = await self._asked(self._http, "GET", "/models")
        cards = _field(said, "data") if status == 200 else None
        for card in cards if isinstance(cards, list) else ():
            if isinstance(card, dict) and self.info.model in (None, card.get("id")):
                window = card.get("max_model_len")
                if isinstance(window, int) and window > 0:
                    self.info = replace(self.info, context_tokens=window)
                    break
        self._window_known = True

    async def _asked(
        self, http: OpenAIHTTP, method: str, target: str, body: bytes = b""
    ) -> tuple[int, bytes]:
        """Ask beside the answers; the status and the whole body. Raises EngineError."""
        headers: CIMultiDict[str] = CIMultiDict({"Content-Type": "application/json"} if body else {})
        request = EngineRequest(method, target, headers, body)
        try:
            async with asyncio.timeout(_ASIDE_S), http.stream(request) as reply:
                said = bytearray()
                async for chunk in reply.chunks:
                    said += chunk
                    if len(said) > _LARGEST_BYTES:
                        raise StreamBroken("The page has no end.", engine=self.info.name)
                return reply.status, bytes(said)
        except TimeoutError:
            raise TimedOut(
                f"No answer within {_ASIDE_S:g} s.", phase="total", engine=self.info.name
            ) from None


def _salt(secret: bytes, tenant: str) -> str:
    """HMAC-SHA256 (RFC 2104), 128 bits of it in hex: equal for a tenant's requests, and nothing another could guess."""
    return hmac.digest(
        secret, b"vllm cache salt\0" + tenant.encode("utf-8", "surrogatepass"), "sha256"
    ).hex()[:32]


def _with(chat: ChatRequest, ours: Mapping[str, Any], *, encoded: bool) -> bytes:
    """The body with our fields and without the client's own of these names."""
    if encoded or not chat.fields or not chat.fields.keys().isdisjoint(_OURS):
        fields = {name: value for name, value in chat.fields.items() if name not in _OURS}
        return json.dumps(fields | dict(ours), ensure_ascii=False, separators=(",", ":")).encode()
    # Put before the first field: the rest of the body, which may be long, stays the bytes it was.
    return b"{" + orjson.dumps(ours)[1:-1] + b"," + chat.body.lstrip()[1:]


def _field(body: bytes, name: str) -> Any:
    try:
        parsed = orjson.loads(body)
    except orjson.JSONDecodeError:
        return None
    return parsed.get(name) if isinstance(parsed, dict) else None
