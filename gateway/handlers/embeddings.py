"""`POST /v1/embeddings`: exact repeats from memory, everything else to the upstream as it came."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection
from typing import Any

import orjson
import structlog
from aiohttp import web

from engines.engine import EngineRequest
from engines.finished import Body
from gateway.cache_control import cache_control
from gateway.cache_status import BYPASS, MISS, hit_status
from gateway.controls import read_controls
from gateway.forward import ChunkBuffer
from gateway.journey import Journey
from gateway.keys import Authenticator, outgoing_headers
from gateway.off_loop import LARGE_BYTES, off_loop
from gateway.own_response import own_response
from gateway.passthrough import Passthrough
from gateway.same_request import endpoint
from gateway.wire import is_json, read_body, read_json
from learning.bank.contributor import EndUsers
from router.asked import in_memory_of
from router.finished import Outcome
from store.answers.exact_cache import ExactCache
from store.answers.exact_key import exact_key
from store.records import ExactAnswer

log = structlog.get_logger(__name__)


class Embeddings:
    """The exact cache in front of the default upstream.

    `served_by` tells the upstream's configuration from another's; `ignored_fields` of a body change no answer of its.
    """

    def __init__(
        self,
        exact: ExactCache,
        passthrough: Passthrough,
        keys: Authenticator,
        *,
        served_by: str,
        ignored_fields: Collection[str],
        max_json_bytes: int,
        max_kept_bytes: int,
        end_users: EndUsers,
    ) -> None:
        self._end_users = end_users
        self._exact = exact
        self._passthrough = passthrough
        self._keys = keys
        self._served_by = served_by
        self._ignored_fields = ignored_fields
        self._max_json_bytes = max_json_bytes
        self._max_kept_bytes = max_kept_bytes

    async def __call__(self, request: web.BaseRequest, target: str, journey: Journey) -> web.StreamResponse:
        """See gateway.handlers.handler.Handler."""
        headers = outgoing_headers(request.headers, self._keys)
        body = await read_body(request, self._max_json_bytes)
        fields = await read_json(request, body, self._max_json_bytes) if is_json(request) else None
        outgoing = EngineRequest("POST", target, headers, body)
        if fields is None:
            return await self._passthrough.forward(request, outgoing, journey)
        journey.model = str(fields.get("model", ""))
        if journey.arrival.anonymous:
            return await self._passthrough.forward(request, outgoing, journey, cache_status=BYPASS)
        controls = read_controls(request.headers, fields)
        behind = self._end_users.behind(journey.arrival, request.headers, fields)
        key = await off_loop(
            len(body),
            exact_key,
            in_memory_of(journey.arrival.tenant, behind.end_user),
            endpoint(target, headers),
            self._served_by,
            fields,
            self._ignored_fields,
        )
        hit = None if controls.no_cache else self._remembered(key, journey)
        if hit is not None:
            return _replayed(hit, journey)
        if controls.no_store:
            return await self._passthrough.forward(request, outgoing, journey, cache_status=BYPASS)
        headers["Accept-Encoding"] = "gzip, identity"
        kept = ChunkBuffer(self._max_kept_bytes)
        status = MISS if "exact" in journey.stages_s else BYPASS
        response = await self._passthrough.forward(request, outgoing, journey, kept=kept, cache_status=status)
        if journey.outcome is Outcome.ANSWERED and response.status == 200:
            by = behind.contributor
            if kept.size_bytes <= LARGE_BYTES and "Content-Encoding" not in response.headers:
                self._keep(key, response, kept, journey, by)
            else:
                # Nobody waits for it: who leaves now has been answered.
                asyncio.get_running_loop().run_in_executor(None, self._keep, key, response, kept, journey, by)
        return response

    def _remembered(self, key: bytes, journey: Journey) -> ExactAnswer | None:
        began = time.perf_counter()
        try:
            return self._exact.get(key, time.time())
        except Exception as error:
            journey.bypassed.append(f"exact:{type(error).__name__}")
            return None
        finally:
            journey.stage("exact", began)

    def _keep(
        self, key: bytes, response: web.StreamResponse, kept: ChunkBuffer, journey: Journey, contributor: str
    ) -> None:
        if response.content_type != "application/json" or cache_control(response.headers).forbids_replay:
            return
        content_type, encoded = response.headers["Content-Type"], "Content-Encoding" in response.headers
        try:
            body = Body(kept.chunks, kept.size_bytes, content_type, encoded).decoded()
            if _holds_vectors(body):
                answer = ExactAnswer(body, content_type, journey.engine, time.time())
                self._exact.put(
                    key,
                    journey.arrival.tenant,
                    answer,
                    request_id=journey.arrival.id,
                    contributor=contributor,
                )
        except Exception as error:
            log.warning("store_failed", kind="embedding_answer", error=error)


def _holds_vectors(body: bytes) -> bool:
    """Whether this is an answer with an embedding in every place, as numbers or in base64."""
    try:
        answer = orjson.loads(body)
    except orjson.JSONDecodeError:
        return False
    data = answer.get("data") if isinstance(answer, dict) and "error" not in answer else None
    return isinstance(data, list) and bool(data) and all(map(_is_vector, data))


def _is_vector(item: Any) -> bool:
    vector = item.get("embedding") if isinstance(item, dict) else None
    return isinstance(vector, list | str) and bool(vector)


def _replayed(hit: ExactAnswer, journey: Journey) -> web.Response:
    journey.answered(200, Outcome.HIT)
    journey.policy, journey.reason = "exact", "exact_repeat"
    age_s = max(0, int(time.time() - hit.stored_at_s))
    headers = {
        "Cache-Status": hit_status(hit, age_s),
        "Age": str(age_s),
        "x-understudy-decision-id": journey.arrival.id,
        "x-understudy-overhead-ms": f"{journey.overhead_ms():.2f}",
    }
    return own_response(hit.body, content_type=hit.content_type, headers=headers)
