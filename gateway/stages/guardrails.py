"""The outermost stage: guardrails judge steps of runs before anything else sees them, and answers before they are sent.

Requests of clients were judged when they came in (gateway.entry).
"""

from __future__ import annotations

from engines.codecs.table import codec_of
from gateway.guardrails.contract import STAGE
from gateway.guardrails.stage import Guardrails
from gateway.stages.stage import Next, UnderWay, answered


class GuardrailStage:
    """See gateway.stages.stage.Stage."""

    def __init__(self, guardrails: Guardrails) -> None:
        self._guardrails = guardrails

    async def answer(self, request: UnderWay, next: Next) -> Next | None:
        """See Stage. Raises Withheld."""
        guardrails, record = self._guardrails, request.record
        guarded = record.arrival.guarded
        if guarded is None:
            # A step of a run, which came through no door.
            record.asked = await guardrails.step(record.asked, record)
        elif guarded.spent_s:
            record.stages_s[STAGE] = guarded.spent_s
            record.bypassed.extend(guarded.bypassed)
        asked, send = record.asked, request.send
        held = guardrails.hold(
            record.arrival, asked.chat.model, asked.chat.own_fields, send, asked.max_kept_bytes
        )
        if held is None:
            return next
        request.send, request.alone = held, True
        await answered(request, next)
        chat, arrival = record.asked.chat, record.arrival
        by = await guardrails.release(held, codec_of(chat), arrival, chat.own_fields, chat, record)
        if by:
            record.withhold(by)
        return None
