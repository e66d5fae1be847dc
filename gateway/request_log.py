"""One log line per request.

Lines are put into words off the event loop: many in a row cost a fraction of what each costs in the middle of a request.
"""

from __future__ import annotations

from datetime import UTC, datetime
from functools import partial
from typing import Any

import orjson

from gateway import log
from router.finished import Finished, Journey


class RequestLog:
    """One line per request."""

    def write(self, ended: Journey) -> None:
        """Queue the line of an ended request."""
        if isinstance(ended, Finished):
            # It holds the answer, which must not wait for a slow log; and it comes from the recorder's thread.
            log.WRITER.write(_request_line(ended))
        else:
            log.WRITER.write(partial(_request_line, ended))


def _request_line(ended: Journey) -> bytes:
    arrival = ended.arrival
    line: dict[str, Any] = {
        "time": datetime.fromtimestamp(arrival.started_at_s, UTC).isoformat(timespec="milliseconds"),
        "level": "info",
        "event": "request",
        "request": arrival.id,
        "tenant": arrival.tenant,
        "method": arrival.method,
        "path": arrival.path[:200],
        "status": ended.status,
        "outcome": ended.outcome.value,
        "engine": ended.engine,
        "total_ms": round(ended.total_s * 1000, 2),
        "overhead_ms": round(ended.overhead_s * 1000, 2),
        "waited_ms": round(ended.waited_s * 1000, 2),
    }
    if ended.first_chunk_s is not None:
        line["ttft_ms"] = round(ended.first_chunk_s * 1000, 2)
    if ended.model:
        line["model"] = ended.model[:200]
    finished = ended if isinstance(ended, Finished) else None
    if ended.policy:
        line["policy"] = ended.policy
        line["reason"] = ended.reason
        line["examples"] = len(finished.example_ids) if finished is not None else 0
        line["stages_ms"] = {name: round(s * 1000, 3) for name, s in ended.stages_s.items()}
    if finished is not None:
        line |= _figures(finished)
    if ended.stood_in_for is not None:
        line["failed_over"] = str(ended.stood_in_for)
    if any(one.kind for one in ended.trail):
        line["tried"] = [str(one) for one in ended.trail]
    if ended.guardrail:
        line["guardrail"] = ended.guardrail
    if ended.bypassed:
        line["bypassed"] = ended.bypassed
    if ended.error:
        line["error"] = ended.error
    return orjson.dumps(line, default=str)


def _figures(finished: Finished) -> dict[str, Any]:
    figures: dict[str, Any] = {}
    usage = finished.usage
    if usage is not None and (usage.prompt_tokens or usage.completion_tokens):
        figures["prompt_tokens"] = usage.prompt_tokens
        figures["completion_tokens"] = usage.completion_tokens
        figures["cost_usd"] = None if finished.cost_usd is None else round(finished.cost_usd, 8)
    if usage is not None and usage.cached_tokens:
        figures["cached_tokens"] = usage.cached_tokens
    if finished.carried_on_by:
        figures["continued"] = finished.carried_on_by
    return figures
