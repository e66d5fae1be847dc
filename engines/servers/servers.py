"""An engine: a list of one server or more, each of which tells whether it may be asked now."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from engines.chat import ChatRequest
from engines.closing import close_all
from engines.engine import CountsTokens, EngineInfo, EngineLoad, EngineRequest, Starts
from engines.errors import EngineError, RequestError
from engines.servers.choosing import Choosing
from engines.servers.pace import mean
from engines.servers.server import Server
from engines.servers.sessions import Places, named_key
from engines.servers.stream import ServerStream


class Servers(Choosing):
    """An engine over its servers; itself an Engine."""

    def __init__(self, servers: Sequence[Server], clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(servers, clock)
        self._stored = Places()
        self._info: EngineInfo | None = None
        """Of those that are named."""
        if self.chooses:
            names = tuple(one.name for one in self.servers)
            holds_key = all(one.info.holds_key for one in self.servers)
            self._info = replace(self.servers[0].info, replica="", replicas=names, holds_key=holds_key)

    @property
    def info(self) -> EngineInfo:
        """See engines.engine.Engine. Its context window is the largest of theirs that was known when it was last asked."""
        return self._info or self.servers[0].engine.info

    def stream(self, request: EngineRequest) -> ServerStream:
        """See engines.engine.Engine.stream. Raises Unavailable when none of them is to be asked now."""
        if self._info is not None:
            windows = [tokens for one in self.servers if (tokens := one.info.context_tokens) is not None]
            if windows and max(windows) != self._info.context_tokens:
                self._info = replace(self._info, context_tokens=max(windows))
        return ServerStream(self, request)

    def load(self) -> EngineLoad:
        """All of them together; times are means over those that are asked."""
        if len(self.servers) == 1:
            return self.servers[0].load()
        loads = [one.load() for one in self.servers]
        open_ones = [load for load in loads if load.open]
        up = open_ones or loads
        return EngineLoad(
            in_flight=sum(load.in_flight for load in loads),
            queued=self.line.waiting + sum(load.queued for load in loads),
            capacity=sum(load.capacity or 0 for load in up) or None,
            kv_use=_mean([load.kv_use for load in up]),
            first_chunk_s=_mean([load.first_chunk_s for load in up]),
            idle_first_chunk_s=_mean([load.idle_first_chunk_s for load in up]),
            answer_s=_mean([load.answer_s for load in up]),
            answer_tokens=self.line.answer_tokens,
            limit_left=_mean([load.limit_left for load in up]),
            open=bool(open_ones),
        )

    async def health(self) -> None:
        """See engines.engine.Engine.health: whether one of them lives. Raises the last one's EngineError."""
        found: EngineError | None = None
        for one in self.servers:
            try:
                await one.engine.health()
            except EngineError as error:
                found = error
            else:
                return
        assert found is not None
        raise found

    async def count_tokens(self, what: str | Sequence[Mapping[str, Any]]) -> int | None:
        """See engines.engine.CountsTokens; by one of those that are up, and None where that cannot."""
        up = next((one for one in self.servers if one.breaker.gate.kind is None), self.servers[0])
        return await up.engine.count_tokens(what) if isinstance(up.engine, CountsTokens) else None

    def unsayable(self, chat: ChatRequest) -> RequestError | None:
        """See engines.engine.unsayable: they speak the same."""
        translating = self.servers[0].translating
        asks = translating is not None and chat.api in translating.apis
        return translating.unsayable(chat) if translating is not None and asks else None

    @property
    def problem(self) -> str | None:
        """See engines.engine.Starts; None while one of them has none."""
        problems = [one.problem for one in self.servers]
        return problems[0] if all(problems) else None

    def start(self) -> None:
        """See engines.engine.Starts."""
        for one in self.servers:
            if isinstance(one.engine, Starts):
                one.engine.start()

    async def aclose(self) -> None:
        """Close all of them, also when one fails to."""
        await close_all([one.engine.aclose for one in self.servers])

    def said(self, tokens: int) -> None:
        """Note how long an answer was, in tokens. From any thread."""
        self.line.answer_tokens = mean(self.line.answer_tokens, float(tokens))

    # ---- what only the server has that stored it

    def stored(self, tenant: str, name: str, replica: str) -> None:
        """Note that what has this id is at that server."""
        self._stored.put(named_key(tenant, name), replica)

    def only_where_stored(self, tenant: str, name: str) -> frozenset[str]:
        """The servers that a request must not be asked of which names this; where nobody knows, all but the first."""
        return self.all_but(self._stored.get(named_key(tenant, name)) or self.servers[0].name)

    def all_but(self, replica: str) -> frozenset[str]:
        """The names of the others."""
        return frozenset(self.info.replicas) - {replica}


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None
