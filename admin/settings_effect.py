"""What other routing settings would bring instead of those in force, as numbers for the pages: by replaying what decided.

For in_context that is the router's own draw, and its quality floor (learning.evaluation.effect); for few_shot the rule
(learning.evaluation.rule_replay).
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from typing import Any, Protocol

from admin.sources import ServedFacts
from learning.evaluation.effect import Effect, Replay
from learning.evaluation.floor_replay import Floor
from learning.evaluation.intervals import Told
from learning.evaluation.logged import NothingLogged, Quality, logged
from learning.evaluation.replayed import Routing, can_be_replayed
from learning.evaluation.rule_replay import RuleEffect, RuleReplay
from router.guarantee.floor import FloorSettings, Judged, rebuilt
from store import Store
from store.decisions.outcomes import Experience

FEWEST = 20
"""Least number of requests: with fewer every interval would be as wide as the scale."""
_EARLIER = 10_000
"""Requests before those that are replayed from which the quality floor's account is computed."""
_RESAMPLES = 400


class NothingToTell(Exception):
    """The log holds too little; the text says of what."""


class Settings(Protocol):
    """Routing settings (admin.what_if.Settings)."""

    @property
    def preference(self) -> float: ...
    @property
    def theta(self) -> float: ...
    @property
    def m(self) -> int: ...


def quality_of(experiences: Sequence[Experience]) -> Quality | None:
    """relative where a judge compared with the reference; None: as the log says."""
    judged = any(o.source == "judge" for each in experiences for o in each.outcomes)
    return "relative" if judged else None


def of_router(
    store: Store, served: ServedFacts, experiences: Sequence[Experience], then: Settings, now: Settings
) -> dict[str, Any] | None:
    """The effect on a model that learns; None where too few requests can be replayed."""
    kept = [each for each in experiences if can_be_replayed(each.choice)]
    if served.exploring is None or len(kept) < FEWEST:
        return None
    try:
        found = logged(kept, quality_is=quality_of(kept))
    except NothingLogged:
        return None
    if len(found.log) < FEWEST:
        return None
    floor = None
    if served.floor is not None:
        floor = _floor(store, served.floor, served.engines[-1], kept)
    replay = Replay(found, served.exploring, floor, resamples=_RESAMPLES)
    wanted = Routing(then.preference, then.theta, then.m)
    in_force = Routing(now.preference, now.theta, now.m)
    compared = replay.compared(in_force, wanted)
    own = sum(bool(choice.settings["own_preference"]) for choice in found.choices)
    by_rule = sum(choice.settings["picked"] >= 0 for choice in found.choices)
    return {
        "by": "router",
        "requests": len(found.log),
        "judged": int((found.log.quality == found.log.quality).sum()),
        "now": _effect(compared.now),
        "then": _effect(compared.then),
        "differences": {name: _told(each) for name, each in compared.differences.items()},
        "happened": {
            "offloaded": float((found.log.chosen != found.reference).mean()),
            "cost_usd": float(found.log.cost_usd.mean()),
        },
        "floor": served.floor is not None,
        "left_out": len(experiences) - len(found.log),
        "own_preference": own / len(found.log),
        "by_rule": by_rule / len(found.log),
        "by_proof": sum(bool(c.settings["by_proof"]) for c in found.choices) / len(found.log),
        "never_offloaded": 0.0,
        "not_known": 0.0,
    }


def of_rule(experiences: Sequence[Experience], then: Settings, now: Settings) -> dict[str, Any]:
    """The effect on a model that the rule decides for. Raises NothingToTell."""
    replay = RuleReplay(experiences, resamples=_RESAMPLES)
    if len(replay) < FEWEST:
        others = ", ".join(f"{count} ({reason})" for reason, count in replay.left_out.items())
        raise NothingToTell(
            f"{len(replay)} requests tell how near past answers were; at least {FEWEST} are needed"
            + (f". Left out: {others}" if others else "")
        )
    before, after = replay.effect(now.theta, now.m), replay.effect(then.theta, then.m)
    return {
        "by": "rule",
        "requests": len(replay),
        "judged": replay.judged(),
        "now": _rule_effect(before),
        "then": _rule_effect(after),
        "differences": {},
        "happened": {"offloaded": replay.offloaded(), "cost_usd": replay.cost_usd()},
        "floor": False,
        "left_out": sum(replay.left_out.values()),
        "own_preference": 0.0,
        "by_rule": 1.0,
        "by_proof": replay.by_proof / len(replay),
        "never_offloaded": after.never_offloaded,
        "not_known": after.not_known,
    }


def _floor(store: Store, settings: FloorSettings, reference: str, experiences: Sequence[Experience]) -> Floor:
    """The promise, with its account as it stood when the first of these was decided."""
    first = experiences[0]
    choice = first.choice
    earlier = store.decisions.choices.engines_before(
        first.row_id, _EARLIER, tenant=choice.tenant, model=choice.model
    )
    start = None
    if earlier:
        judged = _judged_between(
            store, settings, reference, choice.tenant, choice.model, earlier[0][0], choice.at_s
        )
        start = rebuilt(settings, ((at_s, engine != reference) for at_s, engine in earlier), judged).to_json()
    waits = [
        outcome.at_s - each.choice.at_s
        for each in experiences
        for outcome in each.outcomes
        if outcome.source == "judge" and outcome.served
    ]
    return Floor(settings, start, max(0.0, statistics.median(waits)) if waits else 1.0)


def _judged_between(
    store: Store,
    settings: FloorSettings,
    reference: str,
    tenant: str,
    model: str,
    since_s: float,
    until_s: float,
) -> list[Judged]:
    found: list[Judged] = []
    after = 0
    while rows := store.outcomes.after(after, 2_000, tenant=tenant, model=model):
        after = rows[-1].id
        found += [
            Judged(row.at_s, 1.0 - row.quality, row.probability)
            for row in rows
            if since_s <= row.at_s < until_s
            and row.served
            and row.source == "judge"
            and row.engine != reference
            and row.probability >= settings.judged_share
        ]
        if rows[0].at_s > until_s:
            break
    return sorted(found, key=lambda each: each.at_s)


def _effect(effect: Effect) -> dict[str, Any]:
    return {
        **{name: _told(getattr(effect, name)) for name in ("offloaded", "quality", "cost_usd", "latency_s")},
        "stopped": effect.stopped,
        "unsupported": effect.unsupported,
        "effective_samples": effect.effective_samples,
    }


def _rule_effect(effect: RuleEffect) -> dict[str, Any]:
    return {
        **{name: _told(getattr(effect, name)) for name in ("offloaded", "quality", "cost_usd")},
        "latency_s": None,
        "stopped": 0.0,
        "unsupported": 0.0,
        "effective_samples": float(effect.judged),
    }


def _told(told: Told | None) -> dict[str, float] | None:
    """JSON-able; None for what is not known."""
    if told is None or not math.isfinite(told.value):
        return None
    return {"value": told.value, "low": told.low, "high": told.high}
