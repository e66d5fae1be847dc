"""Computes what runs of replay brought (learning.replay.benefit) beside the page: it reads many rows."""

from __future__ import annotations

import functools
from dataclasses import asdict
from typing import Any

from admin.computing import Computations, ReportProgress, TooMuchAsked
from admin.sources import Sources
from learning.replay.benefit import FEWEST, Benefit, Uses, benefit
from store import Store
from store.jobs.replay_records import Changed, ReplayRun

WINDOW_S = 14 * 86_400.0
"""How long before and after a change is looked at."""
_READ = 5_000
"""Outcomes, and requests, that are read of each side, those nearest to the change."""
_FRESH_S = 20.0
_NEVER_S = 1e15
Question = tuple[int, ...]
"""Ids of runs."""


def shared_benefits(sources: Sources) -> Computations[Question]:
    """The computation that all pages share."""
    compute = functools.partial(benefits, sources.store)
    return sources.shared("replay_benefits", lambda: Computations(compute, "benefits", fresh_s=_FRESH_S))


def known_benefits(sources: Sources, run_ids: Question) -> dict[int, dict[str, Any]] | None:
    """By run, what is known of its benefit; a run that changed no example is left out. None while it is computed."""
    try:
        state = shared_benefits(sources).state(run_ids)
    except TooMuchAsked:
        return None
    return None if state.result is None else state.result["by_run"]


def benefits(store: Store, run_ids: Question, report: ReportProgress) -> dict[str, Any]:
    """Under `by_run`, the benefit of each run as JSON. Raises what `report` raises."""
    changed = store.jobs.replay.effects.changed(run_ids)
    found = {}
    for number, (run_id, examples) in enumerate(changed.items()):
        report("reading requests", number / len(changed))
        run = store.jobs.replay.run(run_id)
        if run is not None:
            found[run_id] = _as_json(_of_run(store, run, examples))
    return {"by_run": found}


def _of_run(store: Store, run: ReplayRun, changed: list[Changed]) -> Benefit:
    """What was asked while the run changed examples belongs to neither side."""
    effects, tenant = store.jobs.replay.effects, run.tenant or None
    first_s, last_s = (pick(one.at_s for one in changed) for pick in (min, max))
    reverted_s = run.ended_at_s if run.state == "undone" and run.ended_at_s else _NEVER_S
    before = first_s - WINDOW_S, first_s
    after = last_s, min(last_s + WINDOW_S, reverted_s)
    uses = Uses(
        effects.judged(*before, tenant=tenant, limit=_READ, latest=True),
        effects.judged(*after, tenant=tenant, limit=_READ, latest=False),
        effects.charged(*before, tenant=tenant, limit=_READ, latest=True),
        effects.charged(*after, tenant=tenant, limit=_READ, latest=False),
    )
    return benefit(frozenset(one.example_id for one in changed), uses)


def _as_json(found: Benefit) -> dict[str, Any]:
    def mean(name: str) -> dict[str, Any]:
        one = getattr(found, name)
        interval = one.interval
        low, high = interval if interval is not None else (None, None)
        return {"judged": one.judged, "value": one.value, "low": low, "high": high}

    told = asdict(found)
    quality, usd = found.quality_interval, found.usd_interval
    return {
        **{name: mean(name) for name in told if name.startswith(("changed_", "unchanged_"))},
        "quality": None
        if quality is None
        else {"value": found.quality, "low": quality.low, "high": quality.high},
        "usd": None if usd is None else {"value": found.usd, "low": usd.low, "high": usd.high},
        "fewest_judged": found.fewest_judged,
        "needed": FEWEST,
        "requests": found.requests,
    }
