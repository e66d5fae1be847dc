"""The stage of keys with limits: their requests ask for no more than those allow, and set aside what they may take."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from engines.candidates import Try
from engines.large_json import dumped
from gateway.limits.bounding import bounded
from gateway.off_loop import LARGE_BYTES, off_loop
from gateway.stages.stage import Next, UnderWay
from router.asked import Asked
from router.bill import Bill

if TYPE_CHECKING:
    from gateway.limits.limiter import Limiter
    from gateway.limits.scopes import Scope


class LimitStage:
    """See gateway.stages.stage.Stage."""

    def __init__(self, limiter: Limiter) -> None:
        self._limiter = limiter

    async def answer(self, request: UnderWay, next: Next) -> Next | None:
        """See Stage. Raises RequestError."""
        record, limiter = request.record, self._limiter
        scopes = limiter.scopes_of(record.asked.arrival)
        if scopes:
            chat = record.asked.chat
            changes = limiter.bounded(scopes, chat.own_fields, chat.api)
            if changes:
                record.came, record.asked = chat, bounded(record.asked, changes)
            request.spends = any(scope.spends for scope in scopes)
            asked = record.asked

            async def reserve(tries: Sequence[Try]) -> Bill | None:
                return await self._reserved(tries, asked, scopes)

            request.reserve = reserve
        return next

    async def _reserved(self, tries: Sequence[Try], asked: Asked, scopes: Sequence[Scope]) -> Bill | None:
        """What any of these may cost is set aside. Raises LimitReached."""
        chat = asked.chat
        size_bytes = max(len(one.request.body) for one in tries if isinstance(one.request.body, bytes))
        if "Content-Encoding" in asked.headers:
            # What was packed is paid for unpacked.
            size_bytes = max(
                size_bytes, await off_loop(LARGE_BYTES, lambda: len(dumped(chat.own_fields, like=chat.body)))
            )
        # A student's answer is no engine's, and costs nothing.
        prices = [one.engine.info.price_of(chat.model) for one in tries if one.request.prediction is None]
        return await self._limiter.ask(scopes, chat.model, prices, size_bytes, chat.own_fields, chat.api)
