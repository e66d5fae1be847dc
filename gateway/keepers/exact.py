"""Keeps whole answers for exact repeats."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import Future
from typing import Any, Protocol

import orjson

from engines.finished import Assembled
from gateway.answer import Answer
from gateway.journey import Journey
from gateway.keepers.keeper import Keeping, decoded
from store.records import ExactAnswer


class ExactSink(Protocol):
    """What is needed of store.answers.exact_cache.ExactCache."""

    def put(self, key: bytes, tenant: str, answer: ExactAnswer) -> Future[Any]: ...


class ExactKeeper:
    """Keeps whole answers for exact repeats."""

    def __init__(self, cache: ExactSink, *, tool_calls: bool = False) -> None:
        self._cache = cache
        self._tool_calls = tool_calls

    def keep(self, journey: Journey, answer: Answer, assembled: Assembled | None) -> Iterator[Keeping]:
        """See Keeper."""
        if answer.hit is not None or answer.exact_key is None:
            return
        reason = self._refusal(journey, answer, assembled)
        if reason is not None or assembled is None:
            yield "exact", reason or "incomplete"
            return
        streamed = answer.content_type.startswith("text/event-stream")
        stored = ExactAnswer(
            orjson.dumps(assembled.completion) if streamed else decoded(answer),
            "application/json" if streamed else answer.content_type,
            journey.engine,
            time.time(),
            usage_estimated=assembled.usage() is None,
        )
        yield "exact", self._cache.put(answer.exact_key, journey.tenant, stored)

    def _refusal(self, journey: Journey, answer: Answer, assembled: Assembled | None) -> str | None:
        if answer.controls.no_store:
            return "opted_out"
        if not 200 <= answer.status < 300:
            return "error"
        if not answer.complete or assembled is None or not assembled.whole:
            return "incomplete"
        if journey.by_stand_in:
            return "stand_in"
        if assembled.calls_tools() and not self._tool_calls:
            return "tool_calls"
        if any(c.get("finish_reason") not in ("stop", "tool_calls") for c in assembled.choices()):
            return "cut_short"
        return None
