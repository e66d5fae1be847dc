"""`POST /v1/embeddings`: exact repeats from memory, everything else to an engine, or to the upstream as it came."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Collection
from functools import partial
from typing import NamedTuple

from multidict import CIMultiDict

from engines.answers.answer import Body
from engines.engine import EngineReply
from engines.off_loop import off_loop
from gateway.booking import COST, shown
from gateway.cache_control import cache_control
from gateway.cache_status import BYPASS, COLLAPSED, MISS, hit_status
from gateway.controls import read_controls
from gateway.encodings import accept_only_readable
from gateway.endpoints.by_model import ByModel
from gateway.endpoints.incoming import Incoming
from gateway.forward import ChunkBuffer
from gateway.in_flight import FOLLOWED_AT_MOST, Form, InFlight
from gateway.keepers.embedding import Embedded, EmbeddingKeeper
from gateway.passthrough import Passthrough
from gateway.same_request import SameRequest
from gateway.send import SERVER, Send
from learning.bank.contributor import EndUsers
from router.asked import in_memory_of
from router.finished import Journey, Outcome
from store.answers.exact_cache import ExactCache
from store.answers.exact_key import exact_key
from store.records import ExactAnswer

IN_FLIGHT = "in_flight"
"""Why a request got the answer that it waited for."""
_FORM = Form(stream=False, include_usage=False, accept_encoding=None)
"""All of them wait for the end, and get the answer from memory: it is one object, and only then known to be whole."""


_Ask = Callable[[Send, ChunkBuffer, str], Awaitable[EngineReply]]
"""(where the answer goes, where it is kept, what its Cache-Status says) -> the reply that was sent on."""


class ServedBy(NamedTuple):
    """Who answers."""

    told: str
    """Tells one configuration from another: no answer is replayed under another one."""
    ignored_fields: frozenset[str] = frozenset()
    """Fields of a body that change no answer of theirs."""
    unknown_servers: bool = False
    """Whether some of them may heed headers that nobody here knows."""


class Embeddings:
    """The exact cache in front of the engines that serve a model, and of the default upstream.

    `served_by` says who answers, of the engines' names; none: the default upstream does.
    The same request, asked while it is being answered, waits for that answer and gets it from memory.
    """

    def __init__(
        self,
        exact: ExactCache,
        keeper: EmbeddingKeeper,
        passthrough: Passthrough | None,
        *,
        served_by: Callable[[tuple[str, ...]], ServedBy],
        max_kept_bytes: int,
        end_users: EndUsers,
        by_model: ByModel | None = None,
        same: SameRequest,
    ) -> None:
        """`by_model` answers for the models that engines of ours serve, `passthrough` for all others; None: nobody does."""
        self._by_model = by_model
        self.serves_models = by_model is not None
        self.names: Collection[str] = by_model.names if by_model is not None else ()
        self._same = same
        self._end_users = end_users
        self._in_flight = InFlight()
        self._keeper = keeper
        self._exact = exact
        self._passthrough = passthrough
        self._served_by = served_by
        self._max_kept_bytes = max_kept_bytes

    def serves(self, model: str) -> bool:
        """See gateway.endpoints.model_endpoint.Serving."""
        return self._passthrough is not None or bool(self._engines_of(model))

    async def answer(self, asked: Incoming, send: Send) -> None:
        """See Serving."""
        request, headers, journey, fields = asked.request, asked.headers, asked.journey, asked.fields
        assert fields is not None
        engines = self._engines_of(asked.model)
        ask = self._asking(asked, engines)
        if journey.admitted.anonymous:
            await ask(send, ChunkBuffer(0), BYPASS)
            return
        controls = read_controls(request.headers, fields)
        served_by = self._served_by(engines)
        behind = self._end_users.behind(journey.admitted, request.headers, fields)
        otherwise = await off_loop(
            len(asked.raw),
            exact_key,
            in_memory_of(journey.admitted.tenant, behind.end_user),
            self._same.endpoint(asked.target, headers),
            served_by.told,
            fields,
            served_by.ignored_fields,
        )
        key = self._same.key(otherwise, headers, others=served_by.unknown_servers)
        shared = not (controls.no_cache or controls.no_store)
        hit = None if controls.no_cache else await self._from_memory(key, journey, shared)
        if hit is not None:
            _replay(hit, journey, send)
            return
        if controls.no_store:
            await ask(send, ChunkBuffer(0), BYPASS)
            return
        accept_only_readable(headers)
        flight = self._in_flight.lead_in(key, _FORM) if shared else None
        if flight is None:
            await self._ask(ask, key, journey, behind.contributor, send)
        else:
            await flight.led(send, partial(self._ask, ask, key, journey, behind.contributor))

    def _engines_of(self, model: str) -> tuple[str, ...]:
        return self._by_model.engines_of(model) if self._by_model is not None else ()

    def _asking(self, asked: Incoming, engines: tuple[str, ...]) -> _Ask:
        """How the engines that serve the model are asked, or else the default upstream."""
        by_model, passthrough = self._by_model, self._passthrough

        async def ask_engines(send: Send, kept: ChunkBuffer, status: str) -> EngineReply:
            assert by_model is not None
            return await by_model.answer(asked, send, kept=kept, cache_status=status)

        async def ask_upstream(send: Send, kept: ChunkBuffer, status: str) -> EngineReply:
            assert passthrough is not None
            return await passthrough.forward_to(
                send, asked.outgoing(), asked.journey, kept=kept, cache_status=status
            )

        return ask_engines if engines else ask_upstream

    async def _from_memory(self, key: bytes, journey: Journey, shared: bool) -> ExactAnswer | None:
        """The answer that the very same request was given, also where it has to be waited for."""
        for more in range(FOLLOWED_AT_MOST, -1, -1):
            keeping = self._keeper.under_way(key)
            if keeping is not None:
                await asyncio.wait({asyncio.wrap_future(keeping)})
            hit = await self._remembered(key, journey)
            flight = self._in_flight.leader_of(key, _FORM) if more and shared else None
            if hit is not None or flight is None:
                return hit
            began = time.perf_counter()
            with flight.followed():
                await flight.over(self._max_kept_bytes)
            journey.waited_s += time.perf_counter() - began
            journey.reason = IN_FLIGHT
        return None

    async def _ask(self, ask: _Ask, key: bytes, journey: Journey, contributor: str, send: Send) -> None:
        """Send what an engine or the upstream says, and keep it where it may be kept."""
        journey.reason = ""
        kept = ChunkBuffer(self._max_kept_bytes)
        status = MISS if "exact" in journey.stages_s else BYPASS
        reply = await ask(send, kept, status)
        content_type = reply.headers.get("Content-Type", "")
        if (
            journey.outcome is not Outcome.ANSWERED
            or reply.status != 200
            or content_type.partition(";")[0].strip().lower() != "application/json"
            or cache_control(reply.headers).forbids_replay
        ):
            return
        body = Body(kept.chunks, kept.size_bytes, content_type, "Content-Encoding" in reply.headers)
        arrival = journey.admitted
        self._keeper.keep(Embedded(key, arrival.tenant, contributor, arrival.id, reply.engine, body))

    async def _remembered(self, key: bytes, journey: Journey) -> ExactAnswer | None:
        began = time.perf_counter()
        try:
            return await self._exact.find(key, time.time())
        except Exception as error:
            journey.bypassed.append(f"exact:{type(error).__name__}")
            return None
        finally:
            journey.stage("exact", began)


def _replay(hit: ExactAnswer, journey: Journey, send: Send) -> None:
    journey.answered(200, Outcome.HIT)
    headers = CIMultiDict(
        {
            "Content-Type": hit.content_type,
            "Server": SERVER,
            "x-understudy-decision-id": journey.admitted.id,
            "x-understudy-overhead-ms": f"{journey.overhead_ms():.2f}",
            COST: shown(0.0),
        }
    )
    journey.policy = "exact"
    if journey.reason == IN_FLIGHT:
        headers["Cache-Status"] = COLLAPSED
    else:
        journey.reason = "cache_hit"
        age_s = max(0, int(time.time() - hit.stored_at_s))
        headers["Cache-Status"], headers["Age"] = hit_status(hit, age_s), str(age_s)
    send.whole(200, headers, hit.body)
