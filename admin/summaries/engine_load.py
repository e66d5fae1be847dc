"""The present state of engines over all workers: requests in flight, utilisation, breakers, failures."""

from __future__ import annotations

from admin.page import Summary
from admin.sources import Sources
from store.jobs.engine_states import EngineStateRow


def engine_load(sources: Sources, now_s: float) -> list[Summary]:
    """One entry per configured engine, and per engine that a worker reports."""
    reported: dict[str, list[EngineStateRow]] = {}
    for row in sources.store.jobs.engine_states.now(now_s):
        reported.setdefault(row.engine, []).append(row)
    drained = {one.engine: one for one in sources.store.jobs.engine_states.drained()}
    names = [engine.name for engine in sources.gateway.engines]
    names += sorted(set(reported) - set(names))
    found = []
    for name in names:
        rows = reported.get(name, [])
        by_operator = drained.get(name)
        found.append(
            {
                "name": name,
                "workers": len(rows),
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
                "state": _state(rows, by_operator is not None),
            }
        )
    return found


def _state(rows: list[EngineStateRow], is_drained: bool) -> str:
    if is_drained:
        return "drained"
    if not rows:
        return "unknown"
    if any(row.breaker in ("open", "refused") for row in rows):
        return "failing"
    return "busy" if max(row.utilisation for row in rows) >= 0.9 else "ready"


def _mean(values: list[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None
