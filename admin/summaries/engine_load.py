"""The present state of engines over all workers: requests in flight, utilisation, breakers, failures."""

from __future__ import annotations

from itertools import groupby

from admin.page import Summary
from admin.sources import Sources
from store.jobs.engine_states import Drained, EngineStateRow

_BEST_FIRST = ("up", "unknown", "limited", "drained", "refused", "down")


def engine_load(sources: Sources, now_s: float) -> list[Summary]:
    """One entry per configured engine, and per engine that a worker reports."""
    reported: dict[str, list[EngineStateRow]] = {}
    for row in sources.store.jobs.engine_states.now(now_s):
        reported.setdefault(row.engine, []).append(row)
    drained: dict[str, list[Drained]] = {}
    for one in sources.store.jobs.engine_states.drained():
        drained.setdefault(one.engine, []).append(one)
    names = [engine.name for engine in sources.gateway.engines]
    names += sorted(set(reported) - set(names))
    found = []
    for name in names:
        rows = reported.get(name, [])
        by_operator = next((one for one in drained.get(name, ()) if not one.replica), None)
        standing = replicas(rows, drained.get(name, []))
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
                "first_chunk_s": _mean([row.first_chunk_s for row in rows]),
                "answer_s": _mean([row.answer_s for row in rows]),
                "drained": None
                if by_operator is None
                else {
                    "since_s": by_operator.since_s,
                    "by": by_operator.by_user,
                    "reason": by_operator.reason,
                    "everywhere": all(row.drained for row in rows),
                },
                "state": _state(standing, by_operator is not None),
                "replicas": standing,
            }
        )
    return found


def replicas(rows: list[EngineStateRow], drained: list[Drained]) -> list[Summary]:
    """Each as the worker sees it that sees it worst: its state, since when, and its latest error on any worker."""
    by_operator = {one.replica for one in drained}
    found = []
    for replica, of_it in groupby(rows, key=lambda row: row.replica):
        seen = list(of_it)
        worst = max(seen, key=lambda row: (_BEST_FIRST.index(row.state), -(row.since_s or 0.0)))
        failed = max((row for row in seen if row.error), key=lambda row: row.error_at_s or 0.0, default=None)
        found.append(
            {
                "replica": replica,
                "state": "drained" if by_operator & {"", replica} else worst.state,
                "since_s": worst.since_s,
                "in_flight": sum(row.in_flight for row in seen),
                "error": failed.error if failed else "",
                "error_at_s": failed.error_at_s if failed else None,
            }
        )
    return found


def _state(replicas: list[Summary], is_drained: bool) -> str:
    """That of the replica that stands best: it answers."""
    if is_drained:
        return "drained"
    return min((one["state"] for one in replicas), key=_BEST_FIRST.index, default="unknown")


def _mean(values: list[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None
