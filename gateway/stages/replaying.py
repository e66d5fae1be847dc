"""What of an answer is the gateway's own: its headers, and a remembered one as this client wants it."""

from __future__ import annotations

import time
from collections.abc import Mapping

from multidict import CIMultiDict

from engines.as_events import EVENTS
from engines.codecs.table import codec_of, request_id_header
from gateway.booking import COST, shown
from gateway.cache_status import hit_status
from gateway.guardrails.contract import told
from gateway.off_loop import off_loop
from gateway.send import SERVER
from gateway.stages.stage import UnderWay
from router.asked import Asked
from router.finished import Finished, Outcome
from store.records import ExactAnswer


def explain(headers: CIMultiDict[str], record: Finished, *, engine: str, examples: int) -> None:
    """Tell the client who answers. Call it when the head is about to be sent."""
    if engine:
        headers["x-understudy-engine"] = engine
    headers["x-understudy-examples"] = str(examples)
    headers["x-understudy-decision-id"] = record.arrival.id
    told(headers, record.arrival)
    headers["x-understudy-overhead-ms"] = f"{record.overhead_ms():.2f}"


def explain_remembered(headers: CIMultiDict[str], record: Finished) -> None:
    """The same of an answer that asks no engine."""
    explain(headers, record, engine="", examples=0)
    headers[request_id_header(record.asked.chat.api)] = record.arrival.id
    if not record.asked.chat.stream:
        headers[COST] = shown(0.0)


async def replay(hit: ExactAnswer, request: UnderWay, more: Mapping[str, str] | None = None) -> None:
    """Send a remembered answer; `more`: further headers."""
    began, record = time.perf_counter(), request.record
    headers, body = await off_loop(len(hit.body), _replayed, hit, record.asked)
    record.stage("replay", began)
    explain_remembered(headers, record)
    headers.update(more or {})
    record.hit, record.outcome, record.status = hit.body, Outcome.HIT, 200
    request.send.whole(200, headers, body)


def _replayed(hit: ExactAnswer, asked: Asked) -> tuple[CIMultiDict[str], bytes]:
    """A remembered answer as this client wants it: a stream, or JSON."""
    chat, codec = asked.chat, codec_of(asked.chat)
    if chat.stream:
        body, content_type = codec.events(hit.body, chat), EVENTS
    else:
        body, content_type = codec.replayed(hit.body, chat), hit.content_type
    age_s = max(0, int(time.time() - hit.stored_at_s))
    headers = CIMultiDict(
        {
            "Content-Type": content_type,
            "Server": SERVER,
            "Cache-Status": hit_status(hit, age_s),
            "Age": str(age_s),
        }
    )
    return headers, body
