"""How much the workers do of what they can, and what they shed."""

from __future__ import annotations

from contextlib import suppress

from admin.page import Summary
from admin.sources import Sources
from router.shedding import ORDER, Work
from store.jobs.live_load import Standing, standings

WORK: dict[Work, str] = {
    "shadow": "shadow comparisons",
    "checks": "checks of proven engines",
    "texts": "request texts",
    "examples": "new examples",
    "details": "details of cache hits and failures",
}


def capacity(sources: Sources) -> Summary:
    """Of all workers together, by their own words of the last seconds. `shedding`: what any of them leaves out now."""
    workers = _workers(sources)
    level = max((worker.shed_level for worker in workers), default=0)
    shed = [sum(worker.shed[place] for worker in workers) for place in range(len(ORDER))]
    return {
        "workers": len(workers),
        "core_share": sum(worker.core_share for worker in workers),
        "capacity_per_s": sum(worker.capacity_per_s for worker in workers),
        "shedding": [WORK[work] for work in ORDER[:level]],
        "shed": [
            {"what": work, "says": WORK[work], "count": count}
            for work, count in zip(ORDER, shed, strict=True)
        ],
    }


def _workers(sources: Sources) -> list[Standing]:
    store = sources.store
    if store.shared:
        return store.jobs.loads.standings()
    with suppress(OSError):
        return standings(store.folder)
    return []
