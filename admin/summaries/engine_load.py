"""The present state of engines over all workers: requests in flight, utilisation, breakers, failures, health checks."""

from __future__ import annotations

from itertools import groupby

from admin.page import Summary
from admin.roles import Content
from admin.sources import Sources
from store.decisions.rollups import LatencyCount, percentile
from store.jobs.engine_states import Drained, EngineStateRow, EngineTest
from store.sums import DAY_S, HOUR_S

_BEST_FIRST = ("up", "unknown", "untested", "limited", "drained", "refused", "down")
"""States of engines.servers.standing, and "untested": nobody asked it anything yet, no health check either."""
_ENOUGH = 100
"""Answers without which it is not known how long an engine usually takes."""


def engine_load(sources: Sources, now_s: float) -> list[Summary]:
    """One entry per configured engine, per engine that a worker reports, and per drained one."""
    reported: dict[str, list[EngineStateRow]] = {}
    for row in sources.store.jobs.engine_states.now(now_s):
        reported.setdefault(row.engine, []).append(row)
    drained: dict[str, list[Drained]] = {}
    for one in sources.store.jobs.engine_states.drained():
        drained.setdefault(one.engine, []).append(one)
    tests: dict[str, list[EngineTest]] = {}
    for test in sources.store.jobs.engine_states.tests():
        tests.setdefault(test.engine, []).append(test)
    names = [engine.name for engine in sources.gateway.engines]
    names += sorted((set(reported) | set(drained)) - set(names))
    found = []
    for name in names:
        rows = reported.get(name, [])
        by_operator = next((one for one in drained.get(name, ()) if not one.replica), None)
        standing = [
            {**one, "error": Content(one["error"]) if one["error"] else ""}
            for one in replicas(rows, drained.get(name, []))
        ]
        best = min(standing, key=lambda one: _BEST_FIRST.index(one["state"]), default=None)
        found.append(
            {
                "name": name,
                "workers": len({row.worker for row in rows}),
                "in_flight": sum(row.in_flight for row in rows),
                "queued": sum(row.queued for row in rows),
                # Each worker has its own limits: requests wait at the fullest one.
                "utilisation": max((row.utilisation for row in rows), default=None),
                "breakers": {
                    state: sum(row.breaker == state for row in rows)
                    for state in ("closed", "probing", "limited", "refused", "open")
                    if any(row.breaker == state for row in rows)
                },
                "asked": sum(row.asked for row in rows),
                "failed": sum(row.failed for row in rows),
                "kv_use": max((row.kv_use for row in rows if row.kv_use is not None), default=None),
                "limit_left": min((r.limit_left for r in rows if r.limit_left is not None), default=None),
                "ttft_s": _mean([row.first_chunk_s for row in rows]),
                "latency_s": _mean([row.answer_s for row in rows]),
                "drained": None
                if by_operator is None
                else {
                    "since_s": by_operator.since_s,
                    "by": by_operator.by_user,
                    "reason": by_operator.reason,
                    "stand_in": by_operator.stand_in,
                    "everywhere": all(row.drained for row in rows),
                },
                "state": "drained" if by_operator else best["state"] if best else "untested",
                "since_s": by_operator.since_s if by_operator else best["since_s"] if best else None,
                "tests": [_test(test) for test in tests.get(name, ())],
                "replicas": standing,
            }
        )
    return found


def slow_engines(sources: Sources, engines: list[Summary], now_s: float) -> list[Summary]:
    """Those whose last twenty answers or so took longer than all but 5 % of the day before the last hour.

    And twice as long as half of them: where all take much the same, a little more is none. `name`, `lately_ms`, `p50_ms`,
    `p95_ms`. `engines`: as `engine_load` gives them. An engine with less than 100 answers in that day is none.
    """
    until_s = (now_s - HOUR_S) // HOUR_S * HOUR_S
    rows = [
        row for row in sources.rollups.latencies(HOUR_S, until_s - DAY_S, until_s) if row.measure == "total"
    ]
    found = []
    for engine in engines:
        name, usual = engine["name"], percentiles(rows, engine["name"], "total")
        if (
            engine["state"] != "up"
            or engine["latency_s"] is None
            or usual["p50"] is None
            or usual["p95"] is None
        ):
            continue
        lately_ms, enough = (
            1000 * engine["latency_s"],
            sum(r.requests for r in rows if r.engine == name) >= _ENOUGH,
        )
        if enough and lately_ms > max(2 * usual["p50"], usual["p95"]):
            found.append(
                {"name": name, "lately_ms": lately_ms, "p50_ms": usual["p50"], "p95_ms": usual["p95"]}
            )
    return found


def percentiles(latencies: list[LatencyCount], engine: str, measure: str) -> dict[str, float | None]:
    """Half, and 95 of 100, of what was measured of an engine took at most so many milliseconds; None: nothing was."""
    counts = [
        (row.bucket, row.requests) for row in latencies if (row.engine, row.measure) == (engine, measure)
    ]
    return {"p50": percentile(counts, 0.5), "p95": percentile(counts, 0.95)}


def replicas(rows: list[EngineStateRow], drained: list[Drained]) -> list[Summary]:
    """Each as the worker sees it that sees it worst, of those that know: its state, since when, its latest error."""
    by_operator = {one.replica for one in drained}
    found = []
    for replica, of_it in groupby(rows, key=lambda row: row.replica):
        seen = list(of_it)
        # A worker that asked nothing says nothing of it, where another one knows.
        known = [row for row in seen if row.state != "unknown"] or seen
        worst = max(known, key=lambda row: (_BEST_FIRST.index(row.state), -(row.since_s or 0.0)))
        failed = max((row for row in seen if row.error), key=lambda row: row.error_at_s or 0.0, default=None)
        found.append(
            {
                "replica": replica,
                "state": "drained" if by_operator & {"", replica} else _tried_state(worst, seen),
                "since_s": worst.since_s,
                "in_flight": sum(row.in_flight for row in seen),
                "error": failed.error if failed else "",
                "error_kind": failed.error.partition(":")[0] if failed else "",
                "error_at_s": failed.error_at_s if failed else None,
                "probe": _probe(seen),
            }
        )
    return found


def _tried_state(worst: EngineStateRow, seen: list[EngineStateRow]) -> str:
    """Its state, or "untested" where nothing is known because no worker ever asked."""
    tried = any(row.asked or row.probed_at_s for row in seen)
    return "untested" if worst.state == "unknown" and not tried else worst.state


def _probe(seen: list[EngineStateRow]) -> Summary | None:
    """The latest health check that any worker made; None before the first."""
    probed = [row for row in seen if row.probed_at_s is not None]
    if not probed:
        return None
    latest = max(probed, key=lambda row: row.probed_at_s or 0.0)
    return {"at_s": latest.probed_at_s, "ms": latest.probe_ms, "error": latest.probe_error}


def _test(test: EngineTest) -> Summary:
    return {
        "replica": test.replica,
        "at_s": test.at_s,
        "by": test.by_user,
        "good": test.good,
        # It may quote what the engine said, as the latest error does.
        "said": Content(test.said),
        "health_ms": test.health_ms,
        "answer_ms": test.answer_ms,
    }


def _mean(values: list[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None
