"""Engines: their prices, past speed and present state; testing them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence

from admin.actions import NotDone, Tried
from admin.page import ActionFailed, Asked, Done, Summary
from admin.sources import ServedFacts, Sources
from admin.summaries.engine_load import engine_load, percentiles
from admin.words import ERROR_KINDS
from router.plan import Attempt
from store.jobs.engine_states import UNMERGEABLE, EngineTest
from store.jobs.operator_asks import OperatorAsk
from store.sums import DAY_S, HOUR_S, MINUTE_S

_SPANS = {"hour": (3600, MINUTE_S), "day": (86_400, HOUR_S), "week": (7 * 86_400, DAY_S)}
_WRITE_S = 30.0


def engines(sources: Sources, asked: Asked) -> Summary:
    """For `span`: the time over which latencies, failures and errors are counted."""
    span = asked.choice("span", tuple(_SPANS), "day")
    seconds, width_s = _SPANS[span]
    since_s = (asked.now_s - seconds) // width_s * width_s
    sources.rollups.catch_up()
    rows = sources.rollups.requests(width_s, since_s, by_time=False)
    latencies = sources.rollups.latencies(width_s, since_s)
    facts = {engine.name: engine for engine in sources.gateway.engines}
    background = _background(sources, since_s)
    errors = sources.store.jobs.engine_states.errors(since_s)
    found = []
    loads = engine_load(sources, asked.now_s)
    states = {load["name"]: load["state"] for load in loads}
    for load in loads:
        name = load["name"]
        mine = [row for row in rows if row.engine == name]
        requests = sum(row.requests for row in mine)
        stood_in = sum(row.requests for row in mine if row.outcome == "failed_over")
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
                "instead": [
                    _instead(model, name, load["drained"])
                    for model in sources.gateway.models
                    if name in model.engines
                ],
                "reference_of": [model.name for model in sources.gateway.models if name == model.engines[-1]],
                "requests": requests,
                "failed_over_requests": stood_in,
                "failed_requests": failed,
                "errors": {k: n for k, n in errors.get(name, {}).items() if not k.startswith(UNMERGEABLE)},
                "unmerged": {
                    kind.removeprefix(UNMERGEABLE): number
                    for kind, number in errors.get(name, {}).items()
                    if kind.startswith(UNMERGEABLE)
                },
                "failed_share": failed / requests if requests else None,
                "background": background.get(name, []),
                "cost_usd": sum(row.cost_usd for row in mine),
                "tokens": sum(row.prompt_tokens + row.completion_tokens for row in mine),
                "ttft_ms": percentiles(latencies, name, "first_chunk"),
                "token_ms": percentiles(latencies, name, "token"),
                "total_ms": percentiles(latencies, name, "total"),
                "tokens_per_s": 1000 * streamed_tokens / streamed_ms
                if (streamed_ms := sum(row.streamed_ms for row in mine))
                else None,
            }
        )
    return {
        "span": span,
        "since_s": since_s,
        "engines": found,
        "states": states,
        "error_kinds": dict(ERROR_KINDS),
        "can_test": sources.gateway.actions.test is not None,
    }


def _instead(model: ServedFacts, engine: str, drained: Summary | None) -> Summary:
    """Who answers requests for a model in the place of an engine of it that is drained or down.

    `engines`: the first first; `unproven`: those that do so only for requests that they are proven for.
    """
    others = tuple(Attempt(name) for name in reversed(model.engines) if name != engine)
    found = [way.engine for way, _ in model.stand_ins.ways((Attempt(engine), *others))[1:]]
    named = drained["stand_in"] if drained else ""
    return {
        "model": model.name,
        "policy": model.policy,
        "engines": [*found, named] if named and named not in found else found,
        "unproven": [one.engine for one in others if one.engine not in found]
        if model.stand_ins.proof == "on"
        else [],
    }


def _background(sources: Sources, since_s: float) -> dict[str, list[Summary]]:
    """By engine, what the gateway asked of its own accord since then (a whole hour): judging, replay and so on."""
    found: dict[str, list[Summary]] = {}
    for one in sources.store.decisions.usage.sums(("engine",), since_s=since_s):
        if one.line != "answer":
            line = {
                "line": one.line,
                "requests": one.amounts.requests,
                "tokens": one.amounts.prompt_tokens + one.amounts.completion_tokens,
                "usd": one.amounts.cost_usd,
            }
            found.setdefault(one.engine, []).append(line)
    return found


async def test(sources: Sources, asked: Asked) -> Done:
    """Tests `engine` from this process: its health check, then one short answer. What came of it is kept and shown."""
    engine, run = _named(sources, asked), sources.gateway.actions.test
    if run is None:
        raise ActionFailed("No engine can be asked from here.")
    try:
        tried = await run(engine)
    except NotDone as error:
        raise ActionFailed(f"{error}.") from error
    await asyncio.to_thread(_kept, sources, asked, engine, tried)
    said = "; ".join(f"{one.replica}: {one.said}" if one.replica else one.said for one in tried)
    good = all(one.good for one in tried)
    return Done(
        f"{engine} {'passed' if good else 'failed'} its test: {said}.",
        target=engine,
        detail={"good": good, "cost_usd": sum(one.cost_usd for one in tried)},
    )


def _kept(sources: Sources, asked: Asked, engine: str, tried: Sequence[Tried]) -> None:
    at_s, by, jobs = time.time(), asked.viewer.name, sources.store.jobs
    writes = [
        jobs.engine_states.note_tests(
            [
                EngineTest(
                    *(engine, one.replica, at_s, by, one.good, one.said),
                    *(one.health_ms, one.answer_ms, one.cost_usd),
                )
                for one in tried
            ]
        )
    ]
    for one in tried:
        seconds = (one.answer_ms or 0.0) / 1000
        tokens = one.prompt_tokens, one.completion_tokens
        if any(tokens) or one.cost_usd:
            ask = OperatorAsk(at_s, by, "", "", engine, False, one.cost_usd, *tokens, seconds)
            writes.append(jobs.operator_asks.note(ask))
    for write in writes:
        write.result(_WRITE_S)


def _named(sources: Sources, asked: Asked) -> str:
    engine = asked.text("engine", longest=200)
    if engine not in {one.name for one in sources.gateway.engines}:
        raise ActionFailed(f"There is no engine {engine!r} in this gateway's configuration.")
    return engine
