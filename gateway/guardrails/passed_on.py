"""Guardrails of answers for what goes to the default upstream without the pipeline."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from engines.chat import ChatRequest
from engines.chat_json import parse_object
from engines.codecs.codec import Codec
from engines.codecs.table import CODECS
from engines.engine import EngineRequest
from engines.errors import RequestError
from gateway.guardrails.held import HeldAnswer
from gateway.guardrails.stage import Guardrails
from gateway.off_loop import off_loop
from gateway.paths import canonical
from gateway.send import Send
from router.finished import Journey


@dataclass(frozen=True, slots=True)
class HeldPassing:
    """One answer that is passed on once it is judged."""

    answer: HeldAnswer
    codec: Codec
    guardrails: Guardrails
    fields: dict[str, Any] | None
    chat: ChatRequest | None

    async def release(self, journey: Journey) -> None:
        """See Guardrails.release."""
        journey.guardrail = await self.guardrails.release(
            self.answer, self.codec, journey.arrival, self.fields, self.chat, journey
        )


class GuardedPassing:
    """`limit_bytes`: the longest stream that is held back."""

    def __init__(self, guardrails: Guardrails, limit_bytes: int) -> None:
        self._guardrails = guardrails
        self._limit_bytes = limit_bytes

    async def hold(self, outgoing: EngineRequest, journey: Journey, send: Send) -> HeldPassing | None:
        """What holds the answer to this back; None where nobody is asked about it. Raises RequestError (400)."""
        codec = CODECS.get(journey.arrival.api)
        path = canonical(outgoing.target.partition("?")[0]).lower()
        if codec is None or outgoing.method != "POST" or path != codec.path:
            return None
        fields, chat = None, None
        if isinstance(outgoing.body, bytes):
            fields, chat = await off_loop(len(outgoing.body), _read, codec, outgoing.body)
        model = chat.model if chat is not None else journey.model or None
        held = self._guardrails.hold(journey.arrival, model, fields, send, self._limit_bytes)
        return HeldPassing(held, codec, self._guardrails, fields, chat) if held is not None else None


def _read(codec: Codec, body: bytes) -> tuple[dict[str, Any] | None, ChatRequest | None]:
    try:
        fields = parse_object(body)
    except RequestError:
        return None, None
    try:
        return fields, codec.read(body, fields)
    except RequestError:
        return fields, None
