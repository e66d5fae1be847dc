"""Policies that a log can be evaluated for: each gives the probability of every action for every logged request.

`parsed` reads their names on the command line: logged, always:ENGINE, few_shot:THETA,M, expected, random.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from learning.evaluation.logged import Floats, Logged
from router.choosing import features
from router.choosing.bandit import Bandit, BanditOutdated, Option, Scene
from router.choosing.reward import expected_reward, weights
from router.plan import Action


class NoSuchPolicy(ValueError):
    """The text names no policy; the message lists those there are."""


@dataclass(frozen=True, slots=True)
class TargetPolicy:
    """`decide(logged, preference)` returns [n, K] probabilities, each row summing to 1, on available actions only."""

    name: str
    decide: Callable[[Logged, float], Floats]
    uses_preference: bool
    """True if its decisions depend on the preference (its reward always does)."""


def as_logged() -> TargetPolicy:
    """The policy that was logged."""
    return TargetPolicy("logged", lambda logged, _: logged.log.probabilities, False)


def uniform() -> TargetPolicy:
    """Any available action with equal probability."""
    return TargetPolicy(
        "random", lambda logged, _: logged.available / logged.available.sum(1, keepdims=True), False
    )


def always(engine: str) -> TargetPolicy:
    """One engine without examples; the reference where that engine was not available."""

    def decide(logged: Logged, _: float) -> Floats:
        columns = {action: index for index, action in enumerate(logged.actions)}
        at = columns.get(Action(engine, False))
        if at is None:
            known = ", ".join(sorted({action.engine for action in logged.actions}))
            raise NoSuchPolicy(f"always:{engine}: the log knows no such engine; it knows {known}")
        return _one(logged, np.where(logged.available[:, at], at, logged.reference))

    return TargetPolicy(f"always:{engine}", decide, False)


def few_shot(theta: float, m: int) -> TargetPolicy:
    """router.policies.few_shot on the log: the smallest engine with examples where m candidates lie within theta.

    The log holds only candidates that were scored at the time: with a theta below the retriever's floor, or an m above
    the number of candidates kept, it counts too few. Raises NoSuchPolicy for a theta outside -1..1 or m below 1.
    """
    if not (-1.0 <= theta <= 1.0 and m >= 1):
        raise NoSuchPolicy(f"few_shot:{theta},{m}: theta is a cosine, -1 to 1, and m at least 1")

    def decide(logged: Logged, _: float) -> Floats:
        near = np.array([sum(s >= theta for s in each) for each in logged.similarities])
        with_examples = [index for index, action in enumerate(logged.actions) if action.with_examples]
        chosen = logged.reference.copy()
        for at in reversed(with_examples):
            chosen = np.where(logged.available[:, at], at, chosen)
        return _one(logged, np.where(near >= m, chosen, logged.reference))

    return TargetPolicy(f"few_shot:{theta:g},{m}", decide, False)


def by_quality(name: str, qualities: Callable[[Logged, float], Floats]) -> TargetPolicy:
    """The action with the best expected reward at the preference, without exploration, from [n, K] expected qualities.

    Cost and latency are those expected when the request was decided. Bandit artifacts are evaluated this way.
    """

    def decide(logged: Logged, preference: float) -> Floats:
        expected = rewards(logged, qualities(logged, preference), preference)
        return _one(logged, np.argmax(np.where(logged.available, expected, -np.inf), axis=1))

    return TargetPolicy(name, decide, True)


def expected() -> TargetPolicy:
    """The best action by the router's own expectations at the time, at any preference."""
    return by_quality("expected", lambda logged, _: logged.expected_quality)


def learnt(name: str, bandit: Bandit) -> TargetPolicy:
    """A bandit artifact at any preference, used as router.choosing.chooser uses it, without exploration and load.

    `decide` raises BanditError for a log whose features are of another version than this code's.
    """

    @functools.lru_cache(maxsize=2)
    def qualities(logged: Logged) -> Floats:
        column = {action: index for index, action in enumerate(logged.actions)}
        found = np.zeros(logged.available.shape)
        for row, choice in enumerate(logged.choices):
            if choice.features_version != features.VERSION:
                raise BanditOutdated(
                    f"the log holds features of version {choice.features_version!r}; this is {features.VERSION!r}"
                )
            options = [Option(a["engine"], a["with_examples"], a["features"]) for a in choice.actions]
            estimate = bandit.estimate(Scene(choice.vector, choice.context, options))
            for place, option in enumerate(options):
                is_last = place == len(options) - 1
                at = column[Action(option.engine, option.with_examples)]
                found[row, at] = estimate.qualities[place] if is_last else estimate.surely(place)
        return found

    return by_quality(name, lambda logged, _: qualities(logged))


def rewards(logged: Logged, qualities: Floats, preference: float) -> Floats:
    """[n, K]: expected reward of every action (router.choosing.reward), from qualities and the logged cost and latency."""
    weighed = weights(preference)
    cost = _relative(logged.expected_cost_usd)
    latency = _relative(logged.expected_latency_s)
    found = np.zeros(qualities.shape)
    for row, at in enumerate(logged.reference):
        for column, quality in enumerate(qualities[row]):
            others = None if column == at else qualities[row, at]
            known = quality, cost[row, column], latency[row, column]
            found[row, column] = expected_reward(weighed, *known, others)
    return found


def parsed(text: str) -> TargetPolicy:
    """The policy with this name on the command line. Raises NoSuchPolicy."""
    name, _, rest = text.partition(":")
    simple = {"logged": as_logged, "random": uniform, "expected": expected}
    if name in simple and not rest:
        return simple[name]()
    if name == "always" and rest:
        return always(rest)
    if name == "few_shot":
        theta, _, m = (rest or "0.8,3").partition(",")
        try:
            return few_shot(float(theta), int(m or 3))
        except ValueError as error:
            raise NoSuchPolicy(f"{text}: write few_shot:THETA,M, such as few_shot:0.8,3") from error
    raise NoSuchPolicy(
        f"{text!r} names no policy: logged, random, expected, always:ENGINE, few_shot:THETA,M, bandit:ACTIVE, bandit:ID"
    )


def _one(logged: Logged, chosen: npt.NDArray[np.int64]) -> Floats:
    found = np.zeros(logged.available.shape)
    found[np.arange(len(chosen)), chosen] = 1.0
    return found


def _relative(values: Floats) -> Floats:
    most = values.max(1, keepdims=True)
    return values / np.where(most > 0, most, 1.0)
