"""Keeps a row per request: no content, enough to explain the decision and to evaluate another one."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future
from typing import Any, Protocol

import orjson

from engines.finished import Assembled
from gateway.answer import Answer
from gateway.journey import Journey
from gateway.keepers.keeper import Keeping
from store.records import RequestRecord


class RequestSink(Protocol):
    """What is needed of store.decisions.requests.RequestLog."""

    def record(self, record: RequestRecord) -> Future[Any]: ...


class RequestKeeper:
    """Keeps a row per request: no content, enough to explain the decision and to evaluate another one."""

    def __init__(self, requests: RequestSink) -> None:
        self._requests = requests

    def keep(self, journey: Journey, answer: Answer, assembled: Assembled | None) -> Iterator[Keeping]:
        """See Keeper."""
        if not answer.controls.no_store:
            yield "request", self._requests.record(_row(journey))


def _row(journey: Journey) -> RequestRecord:
    def ms(seconds: float) -> float:
        return round(seconds * 1000, 3)

    return RequestRecord(
        id=journey.id,
        tenant=journey.tenant,
        started_at_s=journey.started_at_s,
        endpoint=journey.path,
        model=journey.model,
        engine=journey.engine,
        outcome=journey.outcome.value,
        status=journey.status,
        policy=journey.policy,
        policy_version=journey.policy_version,
        probability=journey.probability,
        reason=journey.reason,
        example_ids=journey.example_ids,
        prompt_tokens=journey.prompt_tokens,
        completion_tokens=journey.completion_tokens,
        usage_estimated=journey.usage_estimated,
        cost_usd=journey.cost_usd,
        reference_cost_usd=journey.reference_cost_usd,
        total_ms=ms(journey.ended - journey.began),
        first_chunk_ms=None if journey.first_chunk is None else ms(journey.first_chunk - journey.began),
        overhead_ms=ms(journey.overhead_s),
        cached_tokens=journey.cached_tokens,
        continued=",".join(journey.continued),
        stages_ms=orjson.dumps({name: ms(s) for name, s in journey.stages.items()}).decode(),
        key_id=journey.key_id or "",
    )
