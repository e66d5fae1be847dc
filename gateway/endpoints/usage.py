"""`GET /v1/usage/{decision-id}`: what one request used and cost, for whoever sent it.

A plain answer says it in a header; of a stream it is known at its end only. While the request is under way the answer is
202.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from aiohttp import web

from engines.errors import RequestError
from gateway.endpoints.handler import Handler
from gateway.endpoints.store_access import stored
from gateway.keys import needs_credential
from gateway.own_response import json_response
from gateway.paths import canonical
from router.asked import Arrival
from router.finished import Finished, Journey
from store.records import RequestRecord

_RECENT = 1_000
_ID_CHARACTERS = 64
_ASKED_AGAIN_S = (0.1, 0.3, 0.6)
"""Another worker may be writing it just now."""


class Bills:
    """Which requests of this worker are under way, and what the latest were billed of which no row is kept. For any thread.

    `rows`: whether there is a log at all.
    """

    def __init__(self, *, rows: bool = True, most: int = _RECENT) -> None:
        self.rows = rows
        self._most = most
        self._open: dict[str, Arrival] = {}
        self._ended: OrderedDict[str, Journey | RequestRecord] = OrderedDict()

    def opened(self, arrival: Arrival) -> None:
        """A request is under way."""
        self._open[arrival.id] = arrival

    def ended(self, ended: Journey) -> None:
        """It has ended, and what it cost is known."""
        stored = ended.row_allowed if isinstance(ended, Finished) else ended.stored
        if not (stored and self.rows):
            # What came to the pipeline holds bodies. Of all others hardly any is ever asked for: their rows are made then.
            self._ended[ended.arrival.id] = _row(ended) if isinstance(ended, Finished) else ended
        self._open.pop(ended.arrival.id, None)
        while len(self._ended) > self._most:
            self._ended.popitem(last=False)

    def under_way(self, id: str) -> Arrival | None:
        """The request, while it is not known what it cost."""
        return self._open.get(id)

    def of(self, id: str) -> RequestRecord | None:
        """What it cost, if it ended lately, and here, and has no row."""
        found = self._ended.get(id)
        return _row(found) if isinstance(found, Journey) else found


class UsageOfOne:
    """The endpoint, before `otherwise`. `kept`: a request's row by its id and tenant; blocks."""

    def __init__(
        self, bills: Bills, kept: Callable[[str, str], RequestRecord | None], otherwise: Handler | None
    ) -> None:
        self._bills = bills
        self._kept = kept
        self._otherwise = otherwise

    async def __call__(self, request: web.BaseRequest, target: str, journey: Journey) -> web.StreamResponse:
        """See gateway.endpoints.handler.Handler. Raises RequestError."""
        segments = canonical(target.partition("?")[0]).split("/")
        if request.method not in ("GET", "HEAD") or len(segments) != 3 or segments[1].lower() != "usage":
            if self._otherwise is None:
                raise RequestError("This endpoint is not served here.", status=404, code="unknown_url")
            return await self._otherwise(request, target, journey)
        needs_credential(journey.admitted.anonymous)
        asks, id = journey.admitted, segments[2]
        under_way = self._bills.under_way(id)
        if under_way is not None and _same(asks, under_way.tenant, under_way.key_id or ""):
            journey.answered(202)
            response = json_response(
                {"object": "usage", "decision_id": id, "status": "in_progress"}, status=202
            )
            response.headers["Retry-After"] = "1"
            return response
        row = await self._found(id, asks)
        if row is None:
            raise RequestError(
                "There is no such request of yours; or it is under way in another worker, and known when it has ended.",
                status=404,
                code="usage_not_found",
            )
        journey.answered(200)
        return json_response(_shown(row))

    async def _found(self, id: str, asks: Arrival) -> RequestRecord | None:
        if len(id) > _ID_CHARACTERS:
            return None
        for wait_s in (*_ASKED_AGAIN_S, 0.0):
            row = self._bills.of(id) or await stored(asyncio.to_thread(self._kept, id, asks.tenant))
            if row is not None:
                return row if _same(asks, row.tenant, row.key_id) else None
            await asyncio.sleep(wait_s)
        return None


def _row(ended: Journey) -> RequestRecord:
    # Imported here: what it stands on weighs, and a mere pass-through must not carry it.
    from gateway.keepers.request import row_of

    return row_of(ended)


def _same(asks: Arrival, tenant: str, key_id: str) -> bool:
    """Whether it is the same key's, or where there are no keys the same credential's."""
    return tenant == asks.tenant and key_id == (asks.key_id or "")


def _shown(row: RequestRecord) -> dict[str, Any]:
    # What a call of a workflow cost is charged with its steps: the run tells it.
    cost_usd = None if row.sums_up else row.cost_usd
    return {
        "object": "usage",
        "decision_id": row.id,
        "status": "completed" if row.outcome in ("hit", "answered") else "failed",
        "outcome": row.outcome,
        "created_at": int(row.started_at_s),
        "api": row.api,
        "model": row.model,
        "engine": row.engine or None,
        "run": row.run or None,
        "prompt_tokens": row.prompt_tokens,
        "cached_tokens": row.cached_tokens,
        "cache_write_tokens": row.cache_write_tokens,
        "completion_tokens": row.completion_tokens,
        "images": row.images,
        "service_tier": row.service_tier or None,
        "estimated": row.usage_estimated,
        "cost_usd": cost_usd,
        "priced": cost_usd is not None,
        "examples": {"tokens": row.example_tokens, "cost_usd": row.examples_usd},
        "reference_cost_usd": row.reference_cost_usd,
    }
