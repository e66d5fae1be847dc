"""Quality against cost, by policy and preference, from one log: as data for JSON and as a plain text table.

A point is the estimated outcome of a policy, with its intervals.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from learning.evaluation.logged import Floats, Logged
from learning.evaluation.off_policy import METHODS, Estimate, Method, estimate, with_prediction
from learning.evaluation.target_policies import TargetPolicy

PREFERENCES = (0.0, 0.25, 0.5, 0.75, 1.0)


def frontier(
    logged: Logged,
    policies: Sequence[TargetPolicy],
    preferences: Sequence[float] = PREFERENCES,
    *,
    level: float = 0.95,
    resamples: int = 1000,
    clip: float | None = None,
    progress: Callable[[float], None] = lambda done: None,
) -> dict[str, Any]:
    """The estimated outcome of each policy; JSON-able, without infinite or nan numbers (null instead).

    {"requests", "actions", "quality_is", "self_selected", "left_out", "judged", "level", "points": [{"policy",
    "preference", "offloaded", "unsupported", "effective_samples", "quality": {method: {"value", "low", "high"}},
    "cost_usd": ..., "latency_s": ..., "rewards": {preference: ...}}]}. A preference is 0 to 1. A policy that depends on it
    has a point for each; for the others `preference` is null and `rewards` has all of them. `progress` is called with the
    share done, 0 to 1, and may raise to stop. Raises ValueError for a preference outside 0..1, and what the policies and
    `progress` raise.
    """
    if not preferences or not all(0.0 <= preference <= 1.0 for preference in preferences):
        raise ValueError(
            f"preferences are {list(preferences)}; at least one is needed, each from 0 (cheapest) to 1 (best)"
        )
    if level >= 1.0 or resamples < 100:
        raise ValueError(f"level {level} and {resamples} resamples: below 1, and at least 100, are right")
    shown = sorted(set(preferences))
    plain = {name: figure for name, figure in logged.figures(shown[0]).items() if name != "reward"}
    rewards = {f"reward {preference}": logged.figures(preference)["reward"] for preference in shown}
    fitted = {name: with_prediction(logged.log, each) for name, each in (plain | rewards).items()}
    wanted = _wanted(policies, shown)
    points: list[dict[str, Any]] = []
    for policy, own in wanted:
        progress(len(points) / len(wanted))
        target = policy.decide(logged, own[0])
        figures = {name: fitted[name] for name in (*plain, *(f"reward {preference}" for preference in own))}
        found = estimate(logged.log, target, figures, level=level, resamples=resamples, clip=clip)
        points.append(_point(logged, policy, own, target, found))
    return {
        "requests": len(logged.log),
        "judged": int(np.isfinite(logged.log.quality).sum()),
        "actions": [f"{a.engine}{'+examples' if a.with_examples else ''}" for a in logged.actions],
        "quality_is": logged.quality_is,
        "self_selected": logged.self_selected,
        "left_out": dict(logged.left_out),
        "level": level,
        "points": points,
    }


def _wanted(
    policies: Sequence[TargetPolicy], preferences: Sequence[float]
) -> list[tuple[TargetPolicy, tuple[float, ...]]]:
    """List the points: a policy that depends on the preference has one for each, any other one for all of them."""
    wanted: list[tuple[TargetPolicy, tuple[float, ...]]] = []
    for policy in policies:
        if policy.uses_preference:
            wanted += [(policy, (preference,)) for preference in preferences]
        else:
            wanted.append((policy, tuple(preferences)))
    return wanted


def _point(
    logged: Logged,
    policy: TargetPolicy,
    own: Sequence[float],
    target: Floats,
    found: Mapping[str, dict[Method, Estimate]],
) -> dict[str, Any]:
    """Describe a policy's estimates as JSON, with its rewards at the preferences `own`."""
    quality = found["quality"]["dr"]
    return {
        "policy": policy.name,
        "preference": own[0] if policy.uses_preference else None,
        "offloaded": 1.0 - float(target[np.arange(len(target)), logged.reference].mean()),
        "unsupported": quality.unsupported,
        "effective_samples": quality.effective_samples,
        "clipped": quality.clipped,
        "clipping_bias": quality.clipping_bias,
        **{name: _intervals(found[name]) for name in ("quality", "cost_usd", "latency_s")},
        "rewards": {str(preference): _intervals(found[f"reward {preference}"]) for preference in own},
    }


def table(data: dict[str, Any], method: Method = "dr") -> str:
    """The points as lines of text with one method's figures, followed by the cautions."""
    lines = [
        f"{data['requests']} requests, quality known of {data['judged']}; {method}, {data['level']:.0%} intervals;"
        f" quality is {_MEANS[data['quality_is']]}",
        f"{'policy':<22} {'preference':>10} {'offload':>7} {'quality':>24} {'USD per 1000':>28} {'seconds':>24} {'ESS':>7}",
    ]
    for point in data["points"]:
        preference = "" if point["preference"] is None else f"{point['preference']:.2f}"
        lines.append(
            f"{point['policy']:<22} {preference:>10} {point['offloaded']:>7.1%}"
            f" {_ranged(point['quality'][method], 1, 3):>24} {_ranged(point['cost_usd'][method], 1000, 4):>28}"
            f" {_ranged(point['latency_s'][method], 1, 3):>24}"
            f" {point['effective_samples']:>7.0f}" + ("  !" if point["unsupported"] > 0.01 else "")
        )
    return "\n".join(lines + cautions(data))


def cautions(data: dict[str, Any]) -> list[str]:
    """List the limits of the points' validity, as lines of text; none if nothing limits it."""
    said = []
    if any(point["unsupported"] > 0.01 for point in data["points"]):
        said.append(
            "! marks a policy that takes actions which the log gave no chance: its figures are about the other requests"
        )
    if data["self_selected"]:
        said.append(
            "quality is known from people who chose to speak; the figures take them to be like the others"
        )
    if data["left_out"]:
        said += [
            f"left out: {n} requests {_LEFT_OUT[reason]}" for reason, n in sorted(data["left_out"].items())
        ]
    if any(point["effective_samples"] < 100 for point in data["points"]):
        said.append("an ESS below 100 means: little is known, whatever the interval's width")
    if any(point["clipped"] for point in data["points"]):
        said.append("weights were cut: quality is too low by at most `clipping_bias` (in the JSON)")
    return said


_LEFT_OUT = {"other": "that were not weighed", "impossible": "whose figures cannot be right"}
_MEANS = {
    "relative": "relative to the reference, whose answers are 1 by definition",
    "measured": "as labels and users measured it",
}


def _intervals(estimates: dict[Method, Estimate]) -> dict[str, dict[str, float | None]]:
    return {
        method: {
            "value": _finite(estimates[method].value),
            "low": _finite(estimates[method].interval.low),
            "high": _finite(estimates[method].interval.high),
        }
        for method in METHODS
    }


def _finite(number: float) -> float | None:
    return number if math.isfinite(number) else None


def _ranged(told: dict[str, float | None], times: float, digits: int) -> str:
    value, low, high = (
        "?" if each is None else f"{each * times:.{digits}f}"
        for each in (told["value"], told["low"], told["high"])
    )
    return f"{value} ({low} to {high})"
