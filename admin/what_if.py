"""Computes what other routing settings would have brought, from the log. Takes seconds, so a process of its own does it.

The effect of a change is the router's own draw, or the rule, replayed (admin/settings_effect.py); the frontier around it is
learning.evaluation.frontier's.
"""

from __future__ import annotations

import contextlib
import functools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from admin.computing import Computations, ReportProgress
from admin.own_process import in_own_process
from admin.settings_effect import NothingToTell, of_router, of_rule, quality_of
from admin.sources import ServedFacts
from learning.evaluation.example_caps import Capped, CapUnknown, at_most
from learning.evaluation.frontier import cautions, frontier
from learning.evaluation.intervals import Ratio, Told, bootstrap, effective_samples, widened
from learning.evaluation.logged import Logged, NothingLogged, logged
from learning.evaluation.target_policies import (
    NoSuchPolicy,
    TargetPolicy,
    always,
    as_logged,
    expected,
    few_shot,
    learnt,
)
from router.choosing.bandit import BanditError
from router.examples.count import RUNGS
from store import Store
from store.decisions.outcomes import Experience
from store.learned.artifacts import ArtifactBroken

REQUESTS = 4_000
"""Number of requests, the latest, that are evaluated; takes a few seconds of one core."""
_DIALS = (0.0, 0.25, 0.5, 0.75, 1.0)
_RESAMPLES = 400
_BLOCKS = 12
_FEWEST = 20
"""Least number of requests: with fewer every interval would be as wide as the scale."""


@dataclass(frozen=True, slots=True)
class Settings:
    """Routing settings."""

    preference: float = 0.5
    theta: float = 0.8
    m: int = 3
    max_examples: int = 8


@dataclass(frozen=True, slots=True)
class Question:
    """Tenant and served model, the settings to evaluate, and those in force."""

    tenant: str
    model: str
    settings: Settings
    now: Settings


def what_ifs(open_store: Callable[[], Store], models: Mapping[str, ServedFacts]) -> Computations[Question]:
    """Evaluates questions in processes of their own, which call `open_store`. The caller closes it."""
    return Computations(in_own_process(functools.partial(_computed, open_store, models)), "what-if")


def _computed(
    open_store: Callable[[], Store],
    models: Mapping[str, ServedFacts],
    question: Question,
    report: ReportProgress,
) -> dict[str, Any]:
    with contextlib.closing(open_store()) as store:
        return compute(store, models, question, report)


def compute(
    store: Store, models: Mapping[str, ServedFacts], question: Question, report: ReportProgress
) -> dict[str, Any]:
    """The effect of these settings, and of a model that learns the frontier and the effect of caps; JSON-able.

    Takes seconds. Raises NothingToLearnFrom, and what `report` raises.
    """
    report("reading the log", 0.0)
    served = models.get(question.model) or ServedFacts(question.model, (), "fixed")
    experiences = store.outcomes.experiences(
        question.tenant, question.model, limit=REQUESTS, judged_only=False, latest=True
    )
    if served.policy == "few_shot":
        return {**_NO_FRONTIER, "effect": of_rule(experiences, question.settings, question.now)}
    try:
        found = logged(experiences, quality_is=quality_of(experiences))
    except NothingLogged as error:
        raise NothingToTell(str(error)) from error
    report("replaying the decisions", 0.05)
    effect = of_router(store, served, experiences, question.settings, question.now)
    if len(found.log) < _FEWEST or not np.isfinite(found.log.quality).any():
        raise NothingToTell(
            f"{len(found.log)} requests have their routing decision, and of"
            f" {int(np.isfinite(found.log.quality).sum())} the quality is known; at least {_FEWEST} are needed,"
            " and feedback or a judge"
        )
    policies, left_out = _policies(store, question, found)
    dials = sorted({*_DIALS, question.settings.preference})

    def estimating(done: float) -> None:
        report(f"estimating what each of {len(policies)} policies would have brought", 0.2 + 0.7 * done)

    result = frontier(found, policies, dials, resamples=_RESAMPLES, progress=estimating)
    report("weighing how many examples were sent", 0.9)
    caps, unknown_caps = _caps(found, question.settings.max_examples)
    return {
        **result,
        "effect": effect,
        "caps": caps,
        "caps_unknown": unknown_caps,
        "policies_left_out": left_out,
        "cautions": cautions(result),
        "by_count": by_count(experiences),
        "over_time": _over_time(found, question.settings.preference),
    }


_NO_FRONTIER: dict[str, Any] = {
    "requests": 0,
    "judged": 0,
    "level": 0.95,
    "quality_is": "relative",
    "points": [],
    "caps": [],
    "caps_unknown": [],
    "policies_left_out": [],
    "cautions": [],
    "by_count": [],
    "over_time": [],
}
"""What a rule has none of: it weighs nothing, and draws nothing."""


def _policies(store: Store, question: Question, found: Logged) -> tuple[list[TargetPolicy], list[str]]:
    engines = dict.fromkeys(action.engine for action in found.actions)
    wanted = [as_logged(), *(always(engine) for engine in engines)]
    if any(action.with_examples for action in found.actions):
        wanted.append(few_shot(question.settings.theta, question.settings.m))
    left_out: list[str] = []
    if any(action["quality"] is not None for action in found.choices[0].actions):
        wanted.append(expected())
    record = store.artifacts.best("bandit", question.tenant, question.model)
    if record is not None:
        from router.choosing.bandit_vw import VowpalBandit

        try:
            bandit = learnt("learnt router", VowpalBandit.load(store.artifacts.read(record)))
            bandit.decide(found, question.settings.preference)
            wanted.append(bandit)
        except (BanditError, ArtifactBroken, NoSuchPolicy, OSError) as error:
            left_out.append(f"the learnt router in use cannot be evaluated on this log: {error}")
    return wanted, left_out


def _caps(found: Logged, wanted: int) -> tuple[list[dict[str, Any]], list[str]]:
    """The estimated outcome of each cap on the number of examples, and why others cannot be estimated."""
    most_sent = max((len(choice.example_ids) for choice in found.choices), default=0)
    rows: list[dict[str, Any]] = []
    unknown: list[str] = []
    for most in sorted({*RUNGS, wanted} - {0}):
        # A cap that no request reached changes nothing: one such point is enough.
        if most > max(most_sent, 1) and most != wanted:
            continue
        try:
            rows.append(_cap(at_most(found, most, resamples=_RESAMPLES)))
        except CapUnknown as error:
            unknown.append(str(error))
    if wanted == 0:
        unknown.append(
            "at most 0: without examples engines are chosen otherwise; see what always the small engine brings"
        )
    return rows, unknown


def _cap(capped: Capped) -> dict[str, Any]:
    def shown(told: Told) -> dict[str, float | None]:
        return {name: number if math.isfinite(number) else None for name, number in told._asdict().items()}

    return {
        "most": capped.most,
        "quality": shown(capped.quality),
        "cost_usd": shown(capped.cost_usd),
        "latency_s": shown(capped.latency_s),
        "offloaded": capped.offloaded,
        "shortened": capped.shortened,
        "effective_samples": capped.effective_samples,
    }


def by_count(experiences: Sequence[Experience]) -> list[dict[str, Any]]:
    """Mean quality by the number of examples sent, each answer weighted by the inverse of its probability.

    Only of served answers with a drawn action. {"examples", "requests", "quality", "low", "high"} per number.
    """
    counts, qualities, weights = [], [], []
    for experience in experiences:
        choice = experience.choice
        served = [outcome.quality for outcome in experience.outcomes if outcome.served]
        if not served or not choice.example_ids or not 0 <= choice.chosen < len(choice.actions):
            continue
        likely = float(choice.actions[choice.chosen]["probability"]) * choice.examples_probability
        if likely > 0.0:
            counts.append(len(choice.example_ids))
            qualities.append(sum(served) / len(served))
            weights.append(1.0 / likely)
    rows: list[dict[str, Any]] = []
    if not counts:
        return rows
    count, quality, weight = np.array(counts), np.array(qualities), np.array(weights)
    for number in sorted(set(counts)):
        mine = weight * (count == number)
        ((value, interval),) = bootstrap([Ratio(mine * quality, mine)], resamples=_RESAMPLES)
        samples = effective_samples(mine)
        # A single answer has no spread of its own, and tells next to nothing all the same.
        low, high = widened(interval, float(value), samples, (0.0, 1.0))
        told = {"quality": float(value), "low": float(low), "high": float(high)}
        rows.append({"examples": int(number), "requests": int((count == number).sum()), **told})
    return rows


def _over_time(found: Logged, preference: float) -> list[dict[str, Any]]:
    """The log in blocks of equally many requests: reward at this dial, known quality and expected quality."""
    rewards, quality = found.rewards(preference), found.log.quality
    taken = found.expected_quality[np.arange(len(found.log)), found.log.chosen]
    known = np.isfinite(quality)
    rows = []
    order = np.argsort([choice.at_s for choice in found.choices], kind="stable")
    for block in np.array_split(order, min(_BLOCKS, max(1, len(found.log) // 10))):
        seen = block[known[block]]
        rows.append(
            {
                "at_s": float(found.choices[block[-1]].at_s),
                "requests": len(block),
                "judged": len(seen),
                "reward": float(np.mean(rewards[seen])) if len(seen) else None,
                "quality": float(np.mean(quality[seen])) if len(seen) else None,
                "expected": float(np.mean(taken[seen])) if len(seen) else None,
                "familiarity": float(
                    np.mean([found.similarities[row][0] if found.similarities[row] else 0.0 for row in block])
                ),
            }
        )
    return rows
