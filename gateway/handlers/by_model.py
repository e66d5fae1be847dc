"""Endpoints other than chat completions, for models that are configured: one engine answers, or the next where it fails.

Until an answer begins, another engine is asked as for chat completions (engines.attempts). What the body says is not read,
but for the model it asks for and whether it names something that is stored upstream. What names another model goes to the
default upstream as it came.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import orjson
from aiohttp import web
from multidict import CIMultiDict

from engines.apis import AT_ROOT, api_of
from engines.attempts import Attempts
from engines.candidates import Try
from engines.chat import tokens_in_bytes
from engines.engine import Engine, EngineReply, EngineRequest
from engines.errors import RequestError
from engines.replicas import Replicas
from gateway.azure import for_deployment
from gateway.booking import Meter
from gateway.controls import named_session, session_of
from gateway.encodings import accept_only_readable
from gateway.forms import Form
from gateway.forward import ChunkBuffer
from gateway.guardrails.contract import told
from gateway.keys import Authenticator, outgoing_headers
from gateway.off_loop import off_loop
from gateway.passthrough import Passthrough, refuse_elsewhere
from gateway.paths import canonical
from gateway.pipeline import not_spoken
from gateway.relay import relay_for, relay_to
from gateway.send import Send
from gateway.wire import is_form, is_json, read_body, read_form_once, read_json
from router.asked import Arrival
from router.finished import Journey
from router.model_names import ByModelName
from router.plan import Attempt
from router.stand_ins import StandIns

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
_STORED = re.compile(
    rb'(?<!\\)"(?:previous_response_id|conversation|file_id|file_ids|vector_store_ids|container|container_id)"'
    rb'\s*:\s*(?!null\b)|(?<!\\)"item_reference"'
)
_HOLDERS = ("previous_response_id", "conversation")
"""Of these it may be known which replica stored what they name."""
_PROMPT_ID = re.compile(rb'(?<!\\)"prompt"\s*:\s*\{')


@dataclass(frozen=True, slots=True)
class _Body:
    """A body that was read."""

    raw: bytes
    model: str
    fields: dict[str, Any] | None
    """As JSON; None where it is a form."""
    form: Form | None = None

    @property
    def streams(self) -> bool:
        """Whether the answer is to be a stream, or may be one."""
        return self.fields is None or bool(self.fields.get("stream"))

    @property
    def names_something_stored(self) -> bool:
        """Whether it names what only the upstream has that stored it."""
        if self.fields is None:
            return False
        plain = orjson.dumps(self.fields)
        return bool(_STORED.search(plain) or _PROMPT_ID.search(plain))

    @property
    def stored_id(self) -> str:
        """What it names that an engine stored; empty where that is something else than an answer."""
        for name in _HOLDERS:
            given = (self.fields or {}).get(name)
            given = given.get("id") if isinstance(given, dict) else given
            if isinstance(given, str):
                return given
        return ""

    def for_model(self, model: str | None) -> bytes:
        """It as an engine wants it that calls the model otherwise."""
        model = self.model if model is None else model
        said = self.fields if self.form is None else self.form.fields
        if said is None or model == str(said.get("model", "")):
            return self.raw
        return orjson.dumps(said | {"model": model}) if self.form is None else self.form.with_model(model)


class ByModel:
    """One of these endpoints. `models`: the engines of each served model; the largest is asked first.

    `passthrough`: for what names no such model; None refuses it.
    """

    def __init__(
        self,
        engines: Mapping[str, Engine],
        models: Mapping[str, StandIns],
        passthrough: Passthrough | None,
        keys: Authenticator,
        *,
        max_json_bytes: int,
        limiter: Limiter | None = None,
    ) -> None:
        self._engines = engines
        self._models = ByModelName(models)
        self._passthrough = passthrough
        self._keys = keys
        self._max_json_bytes = max_json_bytes
        self._limiter = limiter

    async def __call__(self, request: web.BaseRequest, target: str, journey: Journey) -> web.StreamResponse:
        """See gateway.handlers.handler.Handler."""
        form = is_form(request)
        if self._passthrough is not None and not (form or is_json(request)):
            return await self._passthrough(request, target, journey)
        raw = await read_body(request, self._max_json_bytes)
        headers = outgoing_headers(request.headers, self._keys)
        body = await self._read(request, raw, headers, journey.deployment, form=form)
        if body is None or body.model not in self._models:
            if self._passthrough is None:
                raise unknown_model(body.model if body is not None else "")
            body = body or _Body(raw, "", None)
            outgoing = await off_loop(len(raw), _request, target, headers, body, None, below=journey.below)
            # How long the default upstream may take is not told by what is asked of it.
            return await self._passthrough.forward(request, replace(outgoing, plain=False), journey)
        send = relay_for(request)
        await self._answer(send, request, target, body, headers, journey)
        return send.response

    def engines_of(self, fields: Mapping[str, Any]) -> tuple[str, ...]:
        """Who serves the model that a body asks for; nobody where it is none of these."""
        model = fields.get("model")
        served = self._models.get(model) if isinstance(model, str) else None
        return served.engines if served is not None else ()

    async def answer_read(
        self,
        send: Send,
        request: web.BaseRequest,
        outgoing: EngineRequest,
        fields: dict[str, Any],
        journey: Journey,
        *,
        kept: ChunkBuffer,
        cache_status: str,
    ) -> EngineReply:
        """Answer a request that was read already, for one of these models. Gives the reply that was sent on."""
        assert isinstance(outgoing.body, bytes)
        body = _Body(outgoing.body, str(fields["model"]), fields)
        return await self._answer(
            send,
            request,
            outgoing.target,
            body,
            outgoing.headers,
            journey,
            kept=kept,
            cache_status=cache_status,
        )

    async def _answer(
        self,
        send: Send,
        request: web.BaseRequest,
        target: str,
        body: _Body,
        headers: CIMultiDict[str],
        journey: Journey,
        *,
        kept: ChunkBuffer | None = None,
        cache_status: str | None = None,
    ) -> EngineReply:
        """Ask who serves the model, one after the other. Raises EngineError where no answer began."""
        journey.model = body.model
        accept_only_readable(headers)
        tries = await off_loop(len(body.raw), self._tries, request, target, body, headers, journey)
        if self._limiter is not None and journey.admitted.key_id is not None:
            from gateway.limits.passing import reserved

            infos = [one.engine.info for one in tries]
            await reserved(
                self._limiter,
                journey,
                body.raw,
                infos,
                fields=body.fields,
                path=target,
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
                    target=target,
                    model=body.model,
                    prompt_tokens=lambda: tokens_in_bytes(len(body.raw)),
                )
                await relay_to(send, reply, journey, kept=kept, meter=meter)
                return reply
        finally:
            journey.trail = tuple(attempts.trail)

    async def _read(
        self, request: web.BaseRequest, raw: bytes, headers: CIMultiDict[str], deployment: str, *, form: bool
    ) -> _Body | None:
        """None where it cannot be told which model it asks for. `headers` are made to fit a body that was changed."""
        if form:
            read = await read_form_once(request, raw, self._max_json_bytes)
            return read and _Body(raw, deployment or read.fields.get("model", ""), None, read)
        fields = await read_json(request, raw, self._max_json_bytes) if is_json(request) else None
        if fields is None:
            return None
        raw, fields = for_deployment(deployment, raw, fields, headers)
        return _Body(raw, str(fields.get("model", "")), fields)

    def _tries(
        self, request: web.BaseRequest, target: str, body: _Body, headers: CIMultiDict[str], journey: Journey
    ) -> list[Try]:
        served, tenant = self._models[body.model], journey.admitted.tenant
        arrival, names = journey.admitted, served.engines
        forced = request.headers.get("x-understudy-engine")
        if forced is not None and forced not in names:
            raise RequestError(
                f"x-understudy-engine is {forced[:60]!r}; '{body.model[:100]}' is served by {', '.join(names)}.",
                code="unknown_engine",
                param="x-understudy-engine",
            )
        path = _path(target)
        api = api_of(path)
        engines = [self._engines[name] for name in ([forced] if forced else reversed(names))]
        engines = [engine for engine in engines if engine.info.speaks(api)]
        if not engines:
            raise not_spoken(body.model, path)
        there = [one for one in engines if arrival.reach.allows_region(one.info.region)]
        if not there:
            refuse_elsewhere(arrival, engines[0])
        engines = there
        planned = engines[0].info.model
        not_at: frozenset[str] = frozenset()
        if body.names_something_stored:
            engines = engines[:1]
            if isinstance(holder := engines[0], Replicas):
                not_at = holder.only_where_stored(tenant, body.stored_id)
        elif path in _SAME_MODEL_ONLY:
            engines = [engine for engine in engines if engine.info.model == planned]
        session = session_of(named_session(request.headers), body.fields or {})
        made = partial(
            _request,
            *(target, headers, body),
            below=journey.below,
            tenant=tenant,
            session=session,
            not_at=not_at,
        )
        ways = served.ways([Attempt(engine.info.name) for engine in engines])
        return [
            Try(engine, made(engine.info.model), in_outage)
            for engine, in_outage in ((self._engines[way.engine], only) for way, only in ways)
        ]


def _path(target: str) -> str:
    return canonical(target.partition("?")[0]).lower()


def _request(
    target: str,
    headers: CIMultiDict[str],
    body: _Body,
    model: str | None,
    *,
    below: str | None,
    tenant: str = "",
    session: str = "",
    not_at: frozenset[str] = frozenset(),
) -> EngineRequest:
    raw = body.for_model(model)
    if raw is not body.raw:
        headers = headers.copy()
        headers.popall("Content-Length", None)
        headers.popall("Content-Encoding", None)
    return EngineRequest(
        "POST",
        target,
        headers,
        raw,
        tenant=tenant,
        plain=not body.streams,
        session=session,
        model=model or body.model,
        not_at=not_at,
        below=below,
    )


def unknown_model(model: str, arrival: Arrival | None = None, models: Iterable[str] = ()) -> RequestError:
    """The error for a model that nobody serves. With `arrival` it names which of `models` that one may use."""
    known = (name for name in models if arrival is not None and arrival.reach.allows_model(name))
    listed = ", ".join(sorted(known)[:20])
    return RequestError(
        f"The model '{model[:100]}' is not served here, and no default upstream is configured."
        + (f" Served: {listed}." if listed else ""),
        status=404,
        code="model_not_found",
        param="model",
    )
