"""Engines: their prices, past speed and present state, and which of them an operator has drained."""

from __future__ import annotations

from admin.page import ActionFailed, Asked, Done, Summary
from admin.sources import Sources
from admin.summaries.engine_load import engine_load
from store.decisions.rollups import DAY_S, HOUR_S, MINUTE_S, LatencyCount, percentile

_SPANS = {"hour": (3600, MINUTE_S), "day": (86_400, HOUR_S), "week": (7 * 86_400, DAY_S)}
_WRITE_S = 30.0


def engines(sources: Sources, asked: Asked) -> Summary:
    """For `span`: the time over which latencies and failures are counted."""
    span = asked.choice("span", tuple(_SPANS), "day")
    seconds, width_s = _SPANS[span]
    since_s = (asked.now_s - seconds) // width_s * width_s
    sources.rollups.catch_up()
    rows = sources.rollups.requests(width_s, since_s, by_time=False)
    latencies = sources.rollups.latencies(width_s, since_s)
    facts = {engine.name: engine for engine in sources.gateway.engines}
    found = []
    for load in engine_load(sources, asked.now_s):
        name = load["name"]
        mine = [row for row in rows if row.engine == name]
        requests = sum(row.requests for row in mine)
        failed = sum(row.requests for row in mine if row.outcome in ("failed", "upstream_error"))
        streamed_tokens = sum(row.streamed_tokens for row in mine)
        fact = facts.get(name)
        found.append(
            {
                **load,
                "kind": fact.kind if fact else "",
                "model": fact.model if fact else "",
                "address": fact.address if fact else "",
                "input_usd_per_mtok": fact.input_usd_per_mtok if fact else None,
                "output_usd_per_mtok": fact.output_usd_per_mtok if fact else None,
                "context_tokens": fact.context_tokens if fact else None,
                "max_in_flight": fact.max_in_flight if fact else None,
                "serves": [model.name for model in sources.gateway.models if name in model.engines],
                "reference_of": [model.name for model in sources.gateway.models if name == model.engines[-1]],
                "requests": requests,
                "failed_requests": failed,
                "failed_share": failed / requests if requests else None,
                "cost_usd": sum(row.cost_usd for row in mine),
                "tokens": sum(row.prompt_tokens + row.completion_tokens for row in mine),
                "first_chunk_ms": _percentiles(latencies, name, "first_chunk"),
                "token_ms": _percentiles(latencies, name, "token"),
                "total_ms": _percentiles(latencies, name, "total"),
                "tokens_per_s": 1000 * streamed_tokens / streamed_ms
                if (streamed_ms := sum(row.streamed_ms for row in mine))
                else None,
            }
        )
    return {"span": span, "since_s": since_s, "engines": found}


def drain(sources: Sources, asked: Asked) -> Done:
    """Drains `engine`: within a second no worker sends it new requests, until it is restored."""
    engine = _named(sources, asked)
    reason = asked.text("reason", longest=200)
    if not sources.store.jobs.engine_states.drain(engine, asked.viewer.name, reason).result(_WRITE_S):
        raise ActionFailed(f"{engine} is drained already.")
    return Done(
        f"{engine} is drained: workers stop asking it within a second, and finish what is under way.",
        target=engine,
        detail={"reason": reason} if reason else {},
    )


def restore(sources: Sources, asked: Asked) -> Done:
    """Restores `engine`: workers send it requests again."""
    engine = asked.text("engine", longest=200)
    if not sources.store.jobs.engine_states.restore(engine).result(_WRITE_S):
        raise ActionFailed(f"{engine} was not drained.")
    return Done(f"{engine} is restored: workers ask it again within a second.", target=engine)


def _named(sources: Sources, asked: Asked) -> str:
    engine = asked.text("engine", longest=200)
    if engine not in {one.name for one in sources.gateway.engines}:
        raise ActionFailed(f"There is no engine {engine!r} in this gateway's configuration.")
    return engine


def _percentiles(latencies: list[LatencyCount], engine: str, measure: str) -> dict[str, float | None]:
    counts = [
        (row.bucket, row.requests) for row in latencies if (row.engine, row.measure) == (engine, measure)
    ]
    return {"p50": percentile(counts, 0.5), "p95": percentile(counts, 0.95)}
