"""Replays the router's own draw on logged requests with other routing settings: with which probability it takes each action.

Nothing is learnt or guessed: what the router expected of every action, and how sure it was, is in the log. A request or key
that names a preference of its own keeps it, and what proofs decide stays as it was.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from learning.evaluation.logged import Floats, Logged, action_of
from router.choosing.chooser import Knobs, Prospect, Rewards, not_tried, spread, stood_in
from router.choosing.reward import expected_reward, weights
from router.choosing.rule_choice import followed
from store.records import ChoiceRecord


@dataclass(frozen=True, slots=True)
class Routing:
    """Routing settings to replay; None leaves each request what it was decided with."""

    preference: float | None = None
    """0 cheapest, 1 best quality."""
    theta: float | None = None
    """Cosine from which a past request counts as near."""
    m: int | None = None
    """Near past answers that make a request familiar."""


@dataclass(frozen=True, slots=True)
class Exploring:
    """The exploration settings of the served model, which stay as they are configured."""

    knobs: Knobs
    max_loss: float | None = None
    """The loss that the quality floor promises; None without one."""


def can_be_replayed(choice: ChoiceRecord) -> bool:
    """Tell if the log has everything that the draw depended on: rows of earlier releases do not."""
    return "preference" in choice.settings


def replayed(logged: Logged, routing: Routing, exploring: Exploring) -> Floats:
    """[n, K]: the probability of every action at these settings, before the quality floor limits any.

    Every choice of `logged` must be one that can be replayed.
    """
    column = {action: index for index, action in enumerate(logged.actions)}
    found = np.zeros(logged.available.shape)
    for row, choice in enumerate(logged.choices):
        for action, probability in zip(
            choice.actions, _probabilities(choice, routing, exploring), strict=True
        ):
            found[row, column[action_of(action)]] = probability
    whole: Floats = found / found.sum(1, keepdims=True)
    return whole


def near_answers(choice: ChoiceRecord, theta: float) -> int:
    """Count the past answers that the log shows within `theta` of the request.

    Below the theta that was in force it shows those that were scored: what they name was not looked at.
    """
    within = [each for each in choice.candidates if float(each["similarity"]) >= theta]
    then = choice.settings["theta"]
    return sum(int(each.get("counts", float(each["similarity"]) < then)) for each in within)


def _probabilities(choice: ChoiceRecord, routing: Routing, exploring: Exploring) -> list[float]:
    allowed = [bool(action.get("allowed", True)) for action in choice.actions]
    if not any(allowed):
        allowed = [True] * len(allowed)
    # Where the reference, the last, was down, another stood in for it.
    among = [*allowed[:-1], True]
    explores = bool(choice.settings["may_explore"])
    if choice.settings["picked"] >= 0:
        least = exploring.knobs.least_probability if explores else 0.0
        found = followed(_picked(choice, routing, among), among, least)
    else:
        found = _by_bandit(choice, routing, exploring, among, explores)
    return stood_in(found, allowed)


def _by_bandit(
    choice: ChoiceRecord, routing: Routing, exploring: Exploring, allowed: Sequence[bool], explores: bool
) -> list[float]:
    settings = choice.settings
    own = bool(settings["own_preference"]) or routing.preference is None
    preference = settings["preference"] if own else float(routing.preference or 0.0)
    prospects = _prospects(choice)
    lost = not_tried(
        [each.quality for each in prospects],
        [each.deviation for each in prospects],
        [each.is_reference for each in prospects],
        exploring.max_loss,
    )
    rewards = Rewards.of(weights(preference), prospects)
    return spread(rewards, allowed, lost, int(settings["learned"]), explores, exploring.knobs)


def _prospects(choice: ChoiceRecord) -> list[Prospect]:
    """Rebuild what was expected of every action then; what load took off it is what its reward lacks."""
    actions = choice.actions
    dial = weights(choice.settings["preference"])
    costs, latencies = (
        np.array([float(action[name]) for action in actions]) for name in ("cost_usd", "latency_s")
    )
    costs, latencies = costs / (costs.max() or 1.0), latencies / (latencies.max() or 1.0)
    reference = actions[-1]["engine"]
    best = float(actions[-1]["quality"])
    found = []
    for action, cost, latency in zip(actions, costs, latencies, strict=True):
        is_reference, quality = action["engine"] == reference, float(action["quality"])
        idle = expected_reward(dial, quality, cost, latency, None if is_reference else best)
        found.append(
            Prospect(
                is_reference,
                quality,
                float(action.get("deviation", 0.0)),
                float(action.get("sure", quality)),
                float(cost),
                float(latency),
                float(action["reward"]) - idle,
            )
        )
    return found


def _picked(choice: ChoiceRecord, routing: Routing, allowed: Sequence[bool]) -> int:
    """Return the action that the rule picks at these settings."""
    settings, then = choice.settings, int(choice.settings["picked"])
    theta = settings["theta"] if routing.theta is None else routing.theta
    m = settings["m"] if routing.m is None else routing.m
    if settings["by_proof"] or (theta, m) == (settings["theta"], settings["m"]):
        return then
    last = len(choice.actions) - 1
    if near_answers(choice, theta) < m:
        return last
    if then != last:
        return then
    small = choice.actions[0]["engine"]
    helped = (i for i, a in enumerate(choice.actions) if a["engine"] == small and a["with_examples"])
    return next((i for i in helped if allowed[i]), last)
