"""One pass over a stream by the gateway's own chooser and any estimator: decide, see outcomes, train when it is due."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from benchmarks.defaults import default_chooser
from benchmarks.routing.data import Recorded
from benchmarks.routing.estimators import Estimator, Known
from engines.engine import Price
from router.choosing.bandit import Bandit, Estimate, Option, Scene
from router.choosing.chooser import Situation
from router.choosing.features import Request
from router.choosing.load import EngineState
from router.choosing.reward import expected_reward, reward, weights
from understudy.settings.models import ModelAdvanced

DIAL = 0.5
SMALL = EngineState("small", Price(0.5, 0.5), first_token_s=0.2, tokens_per_s=100.0)
LARGE = EngineState("large", Price(10.0, 10.0), first_token_s=0.5, tokens_per_s=40.0)
ANSWER_TOKENS = 256
FIRST_TRAINING = 25
"""Requests before the first training: so many outcomes that agree are enough for the learner."""
Feedback = Literal["static", "bandit", "bootstrap", "full"]
"""static: the outcomes of both engines in the first half. bandit: the chosen engine's. bootstrap: of both in the first half,
then the chosen engine's. full: of both, always."""


GUARD_Z = 1.0
"""Standard errors by which the guarded baseline wants the small engine to be ahead."""


def rewards(quality: npt.NDArray[np.float64], dial: float = DIAL) -> npt.NDArray[np.float64]:
    """[n, 2]: what each engine's answer was worth, at prices as above (those of a short prompt)."""
    weighed = weights(dial)
    cost = SMALL.price.output_usd_per_mtok / LARGE.price.output_usd_per_mtok
    seconds = [e.first_token_s + ANSWER_TOKENS / e.tokens_per_s for e in (SMALL, LARGE)]
    found = [
        [
            reward(weighed, small, cost, seconds[0] / seconds[1], large),
            reward(weighed, large, 1.0, 1.0, large),
        ]
        for small, large in quality
    ]
    return np.array(found)


@dataclass(frozen=True, slots=True)
class Run:
    """What came of a pass."""

    scores: npt.NDArray[np.float64]
    """[n]: expected quality of the large engine less that of the small one, when the request came."""
    picks: npt.NDArray[np.int64]
    """[n]: 0 small, 1 large."""


class Told:
    """A bandit that says what an estimator expects of the request at hand."""

    version = "told"

    def __init__(self, learned: int) -> None:
        self.learned = learned
        self.found = Estimate((0.5, 1.0), (0.5, 0.5))

    def estimate(self, scene: Scene) -> Estimate:
        return self.found


def situation(recorded: Recorded, index: int, dial: float = DIAL) -> Situation:
    """As the policy would give it, without examples and scorer."""
    prompt = recorded.prompts[index]
    return Situation(
        Request(prompt, prompt_tokens=len(prompt) // 4),
        (SMALL, LARGE),
        vector=recorded.vectors[index],
        preference=dial,
        completion_tokens=ANSWER_TOKENS,
    )


def scenes(recorded: Recorded) -> list[Scene]:
    """Every request as the bandit sees it."""
    chooser, rng, bandit = default_chooser(), random.Random(0), Told(0)
    found = []
    for index in range(len(recorded.prompts)):
        choice = chooser.choose(situation(recorded, index), bandit, rng)
        options = [Option(w.action.engine, w.action.with_examples, w.features) for w in choice.weighed]
        found.append(Scene(recorded.vectors[index], choice.context, options))
    return found


def play(
    recorded: Recorded,
    estimator: Estimator,
    feedback: Feedback,
    seed: int,
    *,
    growth: float = 1.1,
    dial: float = DIAL,
    guarded: bool = False,
) -> Run:
    """Goes through all of it; trains whenever the log grew by `growth`. Without feedback of its own choices only once.

    `guarded`: not the gateway's chooser decides; see `guarded_share`.
    """
    n = len(recorded.prompts)
    half, rng, chooser = n // 2, random.Random(seed), default_chooser()
    scores, picks = np.zeros(n), np.zeros(n, np.int64)
    told = half if feedback in ("static", "bootstrap") else 0
    seen = np.zeros((n, 2), bool)
    seen[:told] = True
    start = 0
    while start < n:
        end = _next(start, n, told, growth, once=feedback == "static")
        known = _known(estimator, seen, start, end, told)
        bandit: Bandit = Told(int(seen[:start].any(1).sum()))
        for index in range(start, end):
            quality, deviation = known.quality[index - start], known.deviation[index - start]
            strange = 0.0 if known.strangeness is None else float(known.strangeness[index - start])
            scores[index] = quality[1] - quality[0]
            if guarded:
                picks[index] = int(rng.random() >= guarded_share(quality, deviation, dial))
                continue
            bandit.found = Estimate(tuple(quality), tuple(deviation), strange)  # type: ignore[attr-defined]
            picks[index] = chooser.choose(situation(recorded, index, dial), bandit, rng).chosen
        if feedback == "full":
            seen[start:end] = True
        elif start >= told and feedback != "static":
            seen[np.arange(start, end), picks[start:end]] = True
        start = end
    return Run(scores, picks)


def guarded_share(quality: npt.NDArray[np.float64], deviation: npt.NDArray[np.float64], dial: float) -> float:
    """Probability of the small engine for who leaves the large one only where the small is ahead by GUARD_Z standard errors.

    The other engine is tried with the gateway's own default epsilon, without which nothing would be known of the small one.
    """
    weighed, epsilon = weights(dial), ModelAdvanced().epsilon
    cost = SMALL.price.output_usd_per_mtok / LARGE.price.output_usd_per_mtok
    small_s, large_s = (e.first_token_s + ANSWER_TOKENS / e.tokens_per_s for e in (SMALL, LARGE))
    ahead = expected_reward(weighed, quality[0], cost, small_s / large_s, quality[1])
    ahead -= expected_reward(weighed, quality[1], 1.0, 1.0, None)
    error = weighed.quality * float(np.hypot(*deviation))
    return 1.0 - epsilon if ahead > GUARD_Z * error else epsilon


def _next(start: int, n: int, told: int, growth: float, *, once: bool) -> int:
    if start < told:
        return told
    return n if once else min(n, max(FIRST_TRAINING, int(start * growth) + 1))


def _known(estimator: Estimator, seen: npt.NDArray[np.bool_], start: int, end: int, told: int) -> Known:
    """Nothing is known before the first training; where labels are told, before the half they are of."""
    if start == 0 or start < told:
        return Known(np.tile([0.5, 1.0], (end - start, 1)), np.full((end - start, 2), 0.5))
    return estimator(seen, np.arange(start, end))
