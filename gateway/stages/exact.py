"""The stage that answers the very same request with the answer that it was given before."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from engines.large_json import outlined
from engines.off_loop import LARGE_BYTES, off_loop
from gateway.same_request import SameRequest, may_be_replayed, tells_enough
from gateway.served_model import ServedModel
from gateway.stages.replaying import replay
from gateway.stages.stage import Next, UnderWay
from router.asked import Asked
from store.answers.exact_key import exact_key
from store.records import ExactAnswer

if TYPE_CHECKING:
    from store.answers.exact_cache import ExactCache

Stands = Callable[[Asked, ExactAnswer], Awaitable[bool]]
"""Whether what a remembered answer names is still there."""


class ExactStage:
    """See gateway.stages.stage.Stage."""

    def __init__(self, cache: ExactCache, same: SameRequest, stands: Stands, *, sampled: bool) -> None:
        """`sampled`: also requests that want another answer each time are answered."""
        self._sampled = sampled
        self._cache = cache
        self._same = same
        self._stands = stands

    async def answer(self, request: UnderWay, next: Next) -> Next | None:
        """See Stage."""
        asked, model = request.record.asked, request.model
        steers = asked.controls.steers or not model.repeatable
        if not steers and may_be_replayed(asked.chat, sampled=self._sampled):
            where = self._same.endpoint(asked.target, asked.headers)
            otherwise = await off_loop(len(asked.chat.body), _key, asked, where, model)
            request.record.exact_key = self._same.key(otherwise, asked.headers, others=model.unknown_servers)
        return None if await self.replayed(request) else next

    async def replayed(self, request: UnderWay) -> bool:
        """Send the remembered answer, if there is one."""
        record = request.record
        if record.exact_key is None or record.asked.controls.no_cache:
            return False
        began = time.perf_counter()
        try:
            hit = await self._cache.find(record.exact_key, time.time())
            if hit is None or not tells_enough(hit, record.asked.chat):
                return False
            if not await self._stands(record.asked, hit):
                return False
        except Exception as error:
            record.bypassed.append(f"exact:{type(error).__name__}")
            return False
        finally:
            record.stage("exact", began)
        record.decided("exact", reason="cache_hit")
        await replay(hit, request)
        return True


def _key(asked: Asked, endpoint: str, model: ServedModel) -> bytes:
    chat, arrival = asked.chat, asked.arrival
    same = asked.remembered_for, endpoint, model.served_by(arrival.key_id)
    fields = outlined(chat.own_fields) if len(chat.body) > LARGE_BYTES else chat.own_fields
    try:
        return exact_key(*same, fields, model.ignored_fields)
    except TypeError:
        # It holds what only the slow way of writing it can write.
        return exact_key(*same, chat.own_fields, model.ignored_fields)
