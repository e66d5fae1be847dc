"""Keeps a row per request: no content, enough to explain the decision and to evaluate another one."""

from __future__ import annotations

from collections.abc import Iterator

import orjson

from engines.chat import Usage
from gateway.keepers.keeper import Kept
from router.finished import Finished
from store.admission.credentials import credentials
from store.decisions.requests import RequestLog
from store.records import RequestRecord

_NO_USAGE = Usage(0, 0)
_ERROR_CHARACTERS = 300


class RequestKeeper:
    """Keeps a row per request: no content, enough to explain the decision and to evaluate another one."""

    def __init__(self, requests: RequestLog) -> None:
        self._requests = requests

    def keep(self, finished: Finished) -> Iterator[Kept]:
        """See Keeper."""
        if not finished.asked.controls.no_store:
            yield "request", self._requests.record(_row(finished))


def _row(finished: Finished) -> RequestRecord:
    arrival, usage = finished.arrival, finished.usage or _NO_USAGE
    return RequestRecord(
        id=arrival.id,
        tenant=arrival.tenant,
        started_at_s=arrival.started_at_s,
        endpoint=arrival.path,
        model=finished.model,
        engine=finished.engine,
        outcome=finished.outcome.value,
        status=finished.status,
        policy=finished.policy,
        policy_version=finished.policy_version,
        probability=finished.probability,
        reason=finished.reason,
        example_ids=finished.example_ids if finished.reused_example is None else (finished.reused_example,),
        prompt_tokens=usage.prompt_tokens,
        completion_tokens=usage.completion_tokens,
        usage_estimated=usage.estimated,
        cost_usd=finished.cost_usd,
        reference_cost_usd=finished.reference_cost_usd,
        total_ms=_ms(finished.total_s),
        first_chunk_ms=None if finished.first_chunk_s is None else _ms(finished.first_chunk_s),
        overhead_ms=_ms(finished.overhead_s),
        cached_tokens=usage.cached_tokens,
        continued=",".join(finished.carried_on_by),
        stages_ms=orjson.dumps({name: _ms(s) for name, s in finished.stages_s.items()}).decode(),
        key_id=arrival.key_id or "",
        exact_key=finished.exact_key,
        failed_over="" if finished.failed_over is None else str(finished.failed_over),
        trail=_trail(finished),
    )


def _trail(finished: Finished) -> str:
    """Who was asked, as JSON; empty where only the one was that answered."""
    if not any(one.kind for one in finished.trail):
        return ""
    tried = [
        {
            "engine": one.engine,
            "replica": one.replica,
            "kind": one.kind,
            "status": one.status,
            "seconds": round(one.seconds, 3),
        }
        for one in finished.trail
    ]
    said = _without_keys(finished.last_failure.decode("utf-8", "replace"))[:_ERROR_CHARACTERS]
    return orjson.dumps({"tried": tried, "error": said}).decode()


def _without_keys(text: str) -> str:
    for span in reversed(credentials(text)):
        text = f"{text[: span.start]}[{span.kind}]{text[span.end :]}"
    return text


def _ms(seconds: float) -> float:
    return round(seconds * 1000, 3)
