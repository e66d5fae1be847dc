"""One pass over a stream by the gateway's own chooser and bandit: decide, see one outcome, train when it is due."""

from __future__ import annotations

import math
import random
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from benchmarks.defaults import default_chooser
from benchmarks.routing.data import Recorded
from engines.engine import Price
from learning.training.bandit import Row, TrainingKnobs, fresh_bandit
from router.choosing.bandit import Lesson, Option, Scene
from router.choosing.bandit_vw import BanditSettings, VowpalBandit
from router.choosing.chooser import Situation
from router.choosing.features import Request
from router.choosing.load import EngineState
from router.choosing.reward import reward, weights
from router.plan import Choice

DIAL = 0.5
SMALL = EngineState("small", Price(0.5, 0.5), first_token_s=0.2, tokens_per_s=100.0)
LARGE = EngineState("large", Price(10.0, 10.0), first_token_s=0.5, tokens_per_s=40.0)
ANSWER_TOKENS = 256
FIRST_TRAINING, LATER = 100, 1.1
"""Requests before the first training, and by how much the log grows before the next: a tenth, as for the learner."""


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


class Stream:
    """`told`: so many requests' outcomes of both engines are known by label before the rest is decided."""

    def __init__(
        self,
        recorded: Recorded,
        seed: int,
        *,
        told: int = 0,
        dial: float = DIAL,
        half_life_requests: float = math.inf,
    ) -> None:
        self.told = told
        self.bandit: VowpalBandit | None = None
        self.chooser = default_chooser()
        self._recorded = recorded
        self._rng = random.Random(seed)
        self._dial = dial
        # Requests are a second apart.
        self._training = TrainingKnobs(half_life_s=half_life_requests)
        self._choices: dict[int, Choice] = {}
        self._rows: list[Row] = []

    def situation(self, index: int) -> Situation:
        """As the policy would give it, without examples and scorer."""
        prompt = self._recorded.prompts[index]
        return Situation(
            Request(prompt, prompt_tokens=len(prompt) // 4),
            (SMALL, LARGE),
            vector=self._recorded.vectors[index],
            preference=self._dial,
            completion_tokens=ANSWER_TOKENS,
        )

    def run(self) -> Run:
        """Goes through all of it."""
        count = len(self._recorded.prompts)
        scores, picks = np.zeros(count), np.zeros(count, np.int64)
        self.bandit = VowpalBandit(BanditSettings())
        due = FIRST_TRAINING
        for index in range(count):
            if index == self.told and self.told:
                self.train_now(index)
                due = int(index * LATER)
            elif index >= due:
                if index > self.told:
                    self.train_now(index)
                due = int(index * LATER) + 1
            choice = self.chooser.choose(self.situation(index), self.bandit, self._rng)
            self._choices[index] = choice
            small, large = choice.weighed
            scores[index] = large.quality - small.quality
            picks[index] = choice.chosen
        return Run(scores, picks)

    def train_now(self, until: int) -> None:
        """A new bandit from the log so far."""
        rows = self._rows
        known = range(len(rows), until)
        rows += [Row(lesson, float(i)) for i, lesson in zip(known, self.lessons(known), strict=True)]
        self.bandit = fresh_bandit(rows, BanditSettings(), self._training, now_s=float(until))

    def lessons(self, indices: Iterable[int]) -> list[Lesson]:
        """What is known of these requests: both outcomes where told, else the chosen engine's."""
        found = []
        for index in indices:
            choice = self._choices.get(index)
            if choice is None:
                choice = self._choices[index] = self.chooser.choose(
                    self.situation(index), None, random.Random(index)
                )
            options = [Option(w.action.engine, w.action.with_examples, w.features) for w in choice.weighed]
            scene = Scene(self._recorded.vectors[index], choice.context, options)
            small, large = map(float, self._recorded.quality[index])
            if index < self.told:
                found.append(Lesson(scene, {0: small, 1: large}))
            else:
                seen = choice.chosen
                probability = choice.weighed[seen].probability
                found.append(Lesson(scene, {seen: (small, large)[seen]}, probability=probability))
        return found
