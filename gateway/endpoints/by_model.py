"""Answers of engines, for the APIs that no codec reads: one engine answers, or the next where it fails.

Until an answer begins, another engine is asked as for chat completions (engines.attempts). What the body says is not read,
but for the model it asks for and whether it names something that is stored upstream.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from engines.apis import AT_ROOT, api_of
from engines.attempts import Attempts
from engines.candidates import Try
from engines.chat import tokens_in_bytes
from engines.engine import Engine, EngineReply
from engines.errors import RequestError
from engines.off_loop import off_loop
from engines.servers.servers import Servers
from gateway.booking import Meter
from gateway.controls import named_session
from gateway.encodings import accept_only_readable
from gateway.endpoints.incoming import Incoming
from gateway.forward import ChunkBuffer
from gateway.guardrails.contract import told
from gateway.passthrough import refuse_elsewhere
from gateway.paths import canonical
from gateway.relay import relay_to
from gateway.send import Send
from gateway.stages.unspoken import not_spoken
from router.model_names import ByModelName, plain_names
from router.plan import Attempt
from router.stand_ins import StandIns
from router.turns.naming import named_by

if TYPE_CHECKING:
    from gateway.limits.limiter import Limiter

PATHS = (
    *(
        "/responses/input_tokens",
        "/responses/compact",
        "/embeddings",
        "/messages/count_tokens",
        "/moderations",
        "/images/generations",
    ),
    *("/images/edits", "/images/variations", "/audio/speech", "/audio/transcriptions", "/audio/translations"),
    *AT_ROOT,
)
_SAME_MODEL_ONLY = frozenset({"/embeddings", "/messages/count_tokens", *AT_ROOT}) - {"/rerank"}
"""Where another model's answers would be of no use: beside those that the client has, or as a count of tokens."""


class ByModel:
    """See gateway.endpoints.model_endpoint.Serving. `models`: the engines of each; the largest is asked first."""

    def __init__(
        self,
        engines: Mapping[str, Engine],
        models: Mapping[str, StandIns],
        *,
        limiter: Limiter | None = None,
    ) -> None:
        self._engines = engines
        self._models = ByModelName(models)
        self.serves = self._models.__contains__
        self.serves_models = True
        self.names = plain_names(self._models)
        self._limiter = limiter

    def engines_of(self, model: str) -> tuple[str, ...]:
        """Give who serves a model; nobody where it is none of these."""
        served = self._models.get(model)
        return served.engines if served is not None else ()

    async def answer(
        self,
        asked: Incoming,
        send: Send,
        *,
        kept: ChunkBuffer | None = None,
        cache_status: str | None = None,
    ) -> EngineReply:
        """Ask who serves the model, one after the other. Gives the reply that was sent on. See Serving."""
        journey, headers = asked.journey, asked.headers
        accept_only_readable(headers)
        tries = await off_loop(len(asked.raw), self._tries, asked)
        if self._limiter is not None and journey.admitted.key_id is not None:
            from gateway.limits.passing import reserved

            infos = [one.engine.info for one in tries]
            await reserved(
                self._limiter,
                journey,
                asked.raw,
                infos,
                fields=asked.fields,
                path=asked.target,
                encoding=headers.get("Content-Encoding", ""),
                content_type=headers.get("Content-Type", ""),
            )
        attempts = Attempts(tries)
        journey.asked_at = time.perf_counter()
        try:
            async with attempts as reply:
                journey.waited_s += time.perf_counter() - journey.asked_at
                planned, answering = tries[0].engine.info.name, tries[attempts.index].engine.info.name
                reply.headers["x-understudy-engine"] = answering
                reply.headers["x-understudy-decision-id"] = journey.admitted.id
                told(reply.headers, journey.admitted)
                if answering != planned:
                    failed = next(one for one in attempts.trail if one.engine == planned)
                    journey.failed_over = failed
                    reply.headers["x-understudy-failed-over"] = str(failed)
                if cache_status is not None:
                    reply.headers.add("Cache-Status", cache_status)
                reply.headers["x-understudy-overhead-ms"] = f"{journey.overhead_ms():.2f}"
                # Cut short, one that is not delimited would look whole.
                kept = kept if reply.self_delimiting else None
                meter = Meter(
                    tries[attempts.index].engine.info,
                    reply,
                    method="POST",
                    target=asked.target,
                    model=asked.model,
                    prompt_tokens=lambda: tokens_in_bytes(len(asked.raw)),
                )
                await relay_to(send, reply, journey, kept=kept, meter=meter)
                return reply
        finally:
            journey.trail = tuple(attempts.trail)

    def _tries(self, asked: Incoming) -> list[Try]:
        served, arrival = self._models[asked.model], asked.journey.admitted
        tenant, names = arrival.tenant, served.engines
        forced = asked.request.headers.get("x-understudy-engine")
        if forced is not None and forced not in names:
            raise RequestError(
                f"x-understudy-engine is {forced[:60]!r}; '{asked.model[:100]}' is served by {', '.join(names)}.",
                code="unknown_engine",
                param="x-understudy-engine",
            )
        path = _path(asked.target)
        engines = self._may_answer(asked, path, (forced,) if forced else names[::-1])
        not_at: frozenset[str] = frozenset()
        if asked.names_something_stored and isinstance(holder := engines[0], Servers):
            not_at = holder.only_where_stored(tenant, asked.stored_id)
        session = named_by(named_session(asked.request.headers), asked.fields or {})
        made = partial(
            asked.outgoing,
            tenant=tenant,
            session=session,
            not_at=not_at,
            plain=not asked.streams,
            placement=asked.placement,
        )
        ways = served.ways([Attempt(engine.info.name) for engine in engines])
        return [
            Try(engine, made(engine.info.model), in_outage)
            for engine, in_outage in ((self._engines[way.engine], only) for way, only in ways)
        ]

    def _may_answer(self, asked: Incoming, path: str, names: Sequence[str]) -> list[Engine]:
        """Give the engines of these names that may answer, in this order: by API, region and model.

        Raises RequestError where there is none.
        """
        arrival, api = asked.journey.admitted, api_of(path)
        speaking = [engine for name in names if (engine := self._engines[name]).info.speaks(api)]
        if not speaking:
            raise not_spoken(asked.model, path)
        there = [engine for engine in speaking if arrival.reach.allows_region(engine.info.region)]
        if not there:
            refuse_elsewhere(arrival, speaking[0])
        if asked.names_something_stored:
            return there[:1]
        if path in _SAME_MODEL_ONLY:
            return [engine for engine in there if engine.info.model == there[0].info.model]
        return there


def _path(target: str) -> str:
    return canonical(target.partition("?")[0]).lower()
