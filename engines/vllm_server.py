"""vLLM over HTTP: openai_http, plus what only vLLM has: its load, its context window, a cache per tenant, priorities.

Figures come from its own pages, asked in the background and only while the engine is in use. The window comes from
`/v1/models` (max_model_len) where the configuration names none. Refuses to know what the answers mean.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Unpack

from engines.engine import EngineInfo, EngineLoad, EngineRequest
from engines.errors import ConnectFailed, EngineError
from engines.openai_http import Exchange, HTTPOptions, OpenAIHTTP
from engines.timeouts import Timeouts
from engines.vllm_dialect import Dialect
from engines.vllm_metrics import ServerFigures, read_figures
from engines.vllm_questions import LIMIT_S, TokenCounter, asked, window_tokens
from engines.vllm_watch import Watch

_LARGE_BYTES = 512 * 1024
"""A page of figures larger than this is read on a thread."""


@dataclass(frozen=True, slots=True)
class ServerState:
    """How a server was at one reading."""

    up: bool
    figures: ServerFigures | None = None


class VLLMServer:
    """One vLLM server.

    `info.context_tokens`, if None, is filled in from the server once it is in use.
    """

    def __init__(
        self,
        info: EngineInfo,
        base_url: str,
        *,
        poll_s: float,
        server_url: str | None = None,
        dialect: Dialect | None = None,
        **options: Unpack[HTTPOptions],
    ) -> None:
        self.info = info
        self._http = OpenAIHTTP(info, base_url, **options)
        # Of its own, so that a question aside never waits as long as an answer may.
        options["timeouts"] = Timeouts(LIMIT_S, LIMIT_S, LIMIT_S, LIMIT_S)
        self._aside = OpenAIHTTP(info, server_url or base_url.rstrip("/").removesuffix("/v1"), **options)
        self._dialect = dialect or Dialect()
        self._tokens = TokenCounter(self._aside.stream, info.model)
        self._watch: Watch[ServerState] = Watch(self._read, period_s=poll_s)
        self._asks_window = info.context_tokens is None
        self._window_known = False

    def stream(self, request: EngineRequest) -> Exchange:
        """See engines.engine.Engine.stream. The client's own cache_salt and priority are left out, ours put in."""
        self._watch.used()
        return self._http.stream(self._dialect.prepared(request))

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
        return EngineLoad(
            figures.running,
            figures.waiting,
            kv_use=figures.kv_use,
            kv_tokens=figures.kv_tokens,
            open=state.up,
        )

    async def health(self) -> None:
        """See engines.engine.Engine.health: a dead engine shows as 503 first, and as a refused connection soon after."""
        status, _ = await asked(self._aside.stream, "GET", "/health")
        if status >= 500:
            raise EngineError(f"The health check (GET /health) got {status}.", engine=self.info.name)

    async def count_tokens(self, what: str | Sequence[Mapping[str, Any]]) -> int | None:
        """See engines.engine.CountsTokens. Remembered for the last thousand; otherwise a round trip of at most 2 s.

        For work in the background and for the rare moment after a failure, never on every request's way
        (docs/explanation/engines.md).
        """
        return await self._tokens.count(what)

    async def aclose(self) -> None:
        """Stop watching, close all connections."""
        await self._watch.aclose()
        await self._http.aclose()
        await self._aside.aclose()

    async def _read(self) -> ServerState:
        """One reading. Raises EngineError when the server is merely slow: then nothing is known."""
        try:
            status, _ = await asked(self._aside.stream, "GET", "/health")
        except ConnectFailed:
            status = 503
        if status >= 500:
            self._window_known = False
            return ServerState(up=False)
        if self._asks_window and not self._window_known:
            window = await window_tokens(self._http.stream, "/models", self.info.model)
            if window is not None:
                self.info = replace(self.info, context_tokens=window)
            self._window_known = True
        status, page = await asked(self._aside.stream, "GET", "/metrics")
        if status != 200:
            return ServerState(up=True)
        if len(page) > _LARGE_BYTES:
            return ServerState(True, await asyncio.to_thread(read_figures, page))
        return ServerState(True, read_figures(page))
