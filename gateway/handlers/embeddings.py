"""`POST /v1/embeddings`: exact repeats from memory, everything else to the upstream as it came."""

from __future__ import annotations

import time
import zlib

import structlog
from aiohttp import web

from engines.engine import EngineRequest
from gateway.cache_status import BYPASS, MISS, hit_status
from gateway.controls import read_controls
from gateway.forward import ChunkBuffer
from gateway.journey import Journey
from gateway.keys import Authenticator, outgoing_headers
from gateway.own_response import own_response
from gateway.passthrough import Passthrough
from gateway.wire import is_json, read_body, read_json
from learning.bank.contributor import EndUsers
from router.asked import in_memory_of
from router.finished import Outcome
from store.answers.exact_cache import ExactCache
from store.answers.exact_key import exact_key
from store.records import ExactAnswer

log = structlog.get_logger(__name__)


class Embeddings:
    """The exact cache in front of the default upstream."""

    def __init__(
        self,
        exact: ExactCache,
        passthrough: Passthrough,
        keys: Authenticator,
        *,
        max_json_bytes: int,
        max_kept_bytes: int,
        end_users: EndUsers,
    ) -> None:
        self._end_users = end_users
        self._exact = exact
        self._passthrough = passthrough
        self._keys = keys
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
        key = exact_key(in_memory_of(journey.arrival.tenant, behind.end_user), target, "upstream", fields)
        began = time.perf_counter()
        hit = None if controls.no_cache else self._exact.get(key, time.time())
        journey.stage("exact", began)
        if hit is not None:
            return _replayed(hit, journey)
        if controls.no_store:
            return await self._passthrough.forward(request, outgoing, journey, cache_status=BYPASS)
        headers["Accept-Encoding"] = "gzip, identity"
        kept = ChunkBuffer(self._max_kept_bytes)
        status = BYPASS if controls.no_cache else MISS
        response = await self._passthrough.forward(request, outgoing, journey, kept=kept, cache_status=status)
        if journey.outcome is Outcome.ANSWERED and response.status == 200 and kept.chunks:
            self._keep(key, response, kept, journey)
        return response

    def _keep(self, key: bytes, response: web.StreamResponse, kept: ChunkBuffer, journey: Journey) -> None:
        try:
            body = b"".join(kept.chunks)
            if "Content-Encoding" in response.headers:
                body = zlib.decompress(body, 47)
            answer = ExactAnswer(
                body, response.headers.get("Content-Type", "application/json"), journey.engine, time.time()
            )
            self._exact.put(key, journey.arrival.tenant, answer)
        except Exception as error:
            log.warning("store_failed", kind="embedding_answer", error=error)


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
