"""Asks guardrails: about requests before anything answers them, memory included, and about answers before they are sent.

An answer from memory is asked about like any other. What one replaces is what the next one sees.
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import aiohttp
from aiohttp import web

from engines.answers.answer import Assembled
from engines.as_events import EVENTS
from engines.chat import ChatRequest
from engines.codecs.codec import Codec
from engines.codecs.table import CODECS, codec_of
from engines.errors import RequestError
from engines.large_json import dumped
from engines.off_loop import off_loop
from gateway.guardrails.contract import (
    STAGE,
    NoVerdict,
    asked_after,
    asked_before,
    replaced_answer,
    replaced_request,
)
from gateway.guardrails.guardrail import Guarding, Guardrail, GuardrailMetrics
from gateway.guardrails.held import HeldAnswer
from gateway.send import ClientGone, Send
from gateway.wire import is_json, read_ahead, read_json_ahead, replace_body
from router.asked import Arrival, Asked, Guarded
from router.finished import Journey

_DEPLOYMENT = re.compile(r"/deployments/([^/]+)/")


class Guardrails:
    """Asks all of them, in order. `aclose` at the end."""

    def __init__(
        self, guardrails: Sequence[Guarding], metrics: GuardrailMetrics, *, max_json_bytes: int
    ) -> None:
        made = [Guardrail(one, metrics, self._open_session) for one in guardrails]
        self._before = tuple(one for one in made if one.guarding.before)
        self._after = tuple(one for one in made if not one.guarding.before)
        self._max_json_bytes = max_json_bytes
        self._session: aiohttp.ClientSession | None = None

    async def aclose(self) -> None:
        """Close all connections."""
        if self._session is not None:
            await self._session.close()

    # ---- requests

    async def arrived(self, request: web.BaseRequest, target: str, journey: Journey) -> web.BaseRequest:
        """The request as it is to be answered. Raises Withheld for one that is blocked, or that a guardrail must judge and
        does not; RequestError 400 and 413 for a body that cannot be read."""
        journey.arrival = journey.admitted = replace(journey.admitted, guarded=Guarded())
        if request.method != "POST" or not request.body_exists:
            return request
        if not self._before and journey.arrival.api not in CODECS:
            return request
        began = time.perf_counter()
        fields, raw = None, b""
        if is_json(request):
            raw = await read_ahead(request, self._max_json_bytes)
            fields = await read_json_ahead(request, raw, self._max_json_bytes) if raw.strip() else {}
        journey.stored = journey.stored and (fields or {}).get("store") is not False
        asked = self._concerned(self._before, journey.arrival, _model(target, fields))
        if not asked:
            return request
        bypassed: list[str] = []
        try:
            changed, by = await self._judged(asked, journey.arrival, fields, raw, bypassed)
        finally:
            journey.stage(STAGE, began)
            journey.bypassed.extend(bypassed)
        spent_s = journey.stages_s[STAGE]
        guarded = Guarded(spent_s, tuple(bypassed), by)
        journey.arrival = journey.admitted = replace(journey.admitted, guarded=guarded)
        if changed is fields or changed is None:
            return request
        return replace_body(request, await off_loop(len(raw), dumped, changed, like=raw), changed)

    async def step(self, asked: Asked, journey: Journey) -> Asked:
        """The same for a step of a run, whose prompt was made of templates and values. Raises Withheld."""
        chat, arrival = asked.chat, asked.arrival
        concerned = self._concerned(self._before, arrival, chat.model)
        if not concerned:
            return asked
        began = time.perf_counter()
        fields = dict(chat.own_fields)
        try:
            changed, by = await self._judged(concerned, arrival, fields, chat.body, journey.bypassed)
        finally:
            journey.stage(STAGE, began)
        if changed is fields or changed is None:
            return asked
        headers = asked.headers.copy()
        headers.popall("Content-Length", None)
        headers.popall("Content-Encoding", None)
        body = await off_loop(len(chat.body), dumped, changed, like=chat.body)
        read = await off_loop(len(body), codec_of(chat).read, body, changed)
        journey.arrival = replace(arrival, guarded=Guarded(by=by))
        return replace(asked, chat=replace(read, state=chat.state), headers=headers)

    async def _judged(
        self,
        guardrails: Sequence[Guardrail],
        arrival: Arrival,
        fields: dict[str, Any] | None,
        raw: bytes,
        bypassed: list[str],
    ) -> tuple[dict[str, Any] | None, str]:
        """The body's fields as they may be answered, and who replaced some of them. Raises Withheld."""
        by = ""
        for guardrail in guardrails:
            try:
                question = await off_loop(len(raw), asked_before, arrival, fields, like=raw)
                instead = partial(replaced_request, arrival.api, fields)
                changed = await guardrail.rules(question, "request", instead)
            except NoVerdict:
                bypassed.append(guardrail.missed())
                continue
            if changed is not None:
                fields, by = changed, guardrail.guarding.name
        return fields, by

    # ---- answers

    def hold(
        self,
        arrival: Arrival,
        model: str | None,
        fields: Mapping[str, Any] | None,
        send: Send,
        limit_bytes: int,
    ) -> HeldAnswer | None:
        """What holds the answer back; None where nobody is asked about it. `model`, `fields`: of the request, where known.
        Raises RequestError (400) for one that would come where nobody can judge it."""
        concerned = self._concerned(self._after, arrival, model)
        if not concerned:
            return None
        _refuse_background(fields or {}, concerned[0])
        return HeldAnswer(send, concerned, limit_bytes)

    async def release(
        self,
        held: HeldAnswer,
        codec: Codec,
        arrival: Arrival,
        fields: Mapping[str, Any] | None,
        chat: ChatRequest | None,
        journey: Journey,
    ) -> str:
        """Send what was held on, as the guardrails have it. Returns who replaced it, or nothing.

        Raises Withheld, and the EngineError that it broke off with. `chat`: the request; None where it could not be read.
        """
        if held.passed_unjudged:
            journey.bypassed.extend(guardrail.missed() for guardrail in held.guardrails)
            return ""
        if held.broken is not None:
            raise held.broken
        by = ""
        if held.status == 0:
            return ""
        if held.status < 400:
            began = time.perf_counter()
            try:
                by = await self._answer_judged(held, codec, arrival, fields, chat, journey)
            finally:
                journey.stage(STAGE, began)
        if journey.first_chunk_at is not None:
            journey.first_chunk_at = time.perf_counter()
        try:
            await held.release()
        except ConnectionError as error:
            raise ClientGone from error
        return by

    async def _answer_judged(
        self,
        held: HeldAnswer,
        codec: Codec,
        arrival: Arrival,
        fields: Mapping[str, Any] | None,
        chat: ChatRequest | None,
        journey: Journey,
    ) -> str:
        size = held.size_bytes + (len(chat.body) if chat is not None else 0)
        assembled = await off_loop(held.size_bytes, codec.assembled, held.body())
        by = ""
        for guardrail in held.guardrails:
            try:
                if assembled is None:
                    guardrail.counted("failed")
                    raise NoVerdict
                question = await off_loop(size, asked_after, arrival, fields, assembled, like=b" " * size)
                # What nobody here reads cannot be said otherwise.
                known = assembled if chat is not None else None
                said = await guardrail.rules(question, "answer", partial(replaced_answer, codec.api, known))
            except NoVerdict:
                journey.bypassed.append(guardrail.missed())
                continue
            if said is not None:
                assembled, by = said, guardrail.guarding.name
        if by and assembled is not None and chat is not None:
            body, content_type = await off_loop(size, _as_asked, codec, assembled, chat)
            held.replace(body, content_type, by)
        return by

    # ---- both

    @staticmethod
    def _concerned(
        guardrails: Sequence[Guardrail], arrival: Arrival, model: str | None
    ) -> tuple[Guardrail, ...]:
        return tuple(one for one in guardrails if one.guarding.concerns(arrival, model))

    def _open_session(self) -> aiohttp.ClientSession:
        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=0, ttl_dns_cache=60),
                cookie_jar=aiohttp.DummyCookieJar(),
                trust_env=False,
            )
        return self._session


def _model(target: str, fields: dict[str, Any] | None) -> str | None:
    """Which model is asked for; None where nobody can tell."""
    found = _DEPLOYMENT.match(target)
    if found is not None:
        return found[1]
    model = fields.get("model") if fields is not None else None
    return model if isinstance(model, str) else None


def _as_asked(codec: Codec, assembled: Assembled, chat: ChatRequest) -> tuple[bytes, str]:
    stored = codec.stored(assembled)
    if chat.stream:
        return codec.events(stored, chat), EVENTS
    return codec.replayed(stored, chat), "application/json"


def _refuse_background(fields: Mapping[str, Any], guardrail: Guardrail) -> None:
    if fields.get("background"):
        raise RequestError(
            f"An answer in the background cannot be judged by the guardrail '{guardrail.guarding.name}': ask without it.",
            code="unsupported_with_guardrail",
            param="background",
        )
