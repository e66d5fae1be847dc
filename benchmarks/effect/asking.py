"""Asks both models the questions of a set, in every way of choosing examples.

Examples are user and assistant turns after the instruction, as the gateway adds them, the one counted on most last.
Each model answers one request at a time, in the order in which the arms are listed: what matters most comes first.
"""

from __future__ import annotations

import asyncio
import os
import random
import sys
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from benchmarks.effect.engines import Engine, NotKept, Said
from benchmarks.effect.sets import SEED, Set
from benchmarks.effect.streams import unwrapped
from benchmarks.helpfulness.choosing import CANDIDATES, choose, outcome
from benchmarks.helpfulness.recorded import NOW_S, Bank
from learning.training.scorer.rows import Row
from router.examples.features import Features, RequestView
from router.examples.fusion import best_fused
from router.examples.scorer import Scorer
from router.plan import Candidate
from router.prompt import with_pairs

ALONE, LARGE = "small alone", "large alone"
NEAREST, RANDOM, WORDS = "small + nearest {}", "small + random 5", "small + BM25 5"
OWN, LARGE_NEAREST = "small + nearest 5, the large model's answers", "large + nearest 5"
PRIOR, TRAINED = "small + ours, prior scorer", "small + ours, trained scorer"
SHARE = "small + nearest 5 of {:.0%} of the bank"
BEST_OF, FIRST_OF = (
    "small + nearest 5, best of three of the large model",
    "small + nearest 5, first of those three",
)
ORACLE, COPY, MAJORITY, STUDENT = "oracle", "copy of the nearest", "majority of the nearest 5", "student"
SHARES = (0.01, 0.1)
PLACES = (0, 2, 5, 12)
"""Of the candidates, nearest first: those that are shown one by one, to know what each does."""
SAMPLES, SAMPLED_AT, SAMPLED_QUESTIONS = 3, 0.7, 10
"""Answers of the large model of which the best becomes the example; their temperature; questions that it is tried on."""
FEW = 20
"""Questions, or a third of all, on which examples are shown one by one, and smaller banks are tried."""
_TOLD_EVERY_S = 30.0


class Outcome(NamedTuple):
    """What came of one question in one arm; tokens and seconds as the server counted them."""

    score: float
    exact: float
    tokens_in: int = 0
    tokens_out: int = 0
    prefill_s: float = 0.0
    decode_s: float = 0.0


@dataclass(frozen=True)
class Question:
    """A question with what the bank holds for it."""

    place: int
    near: list[Candidate]
    """All candidates, nearest first."""
    considered: list[Candidate]
    """Those that a scorer sees."""

    def singles(self) -> list[Candidate]:
        """The examples that are shown one by one."""
        return [self.considered[n] for n in PLACES if n < len(self.considered)]


@dataclass
class Found:
    """Everything that was answered of a set, by arm and question's place."""

    questions: list[Question]
    arms: dict[str, dict[int, Outcome]] = field(default_factory=dict)
    shown: dict[str, dict[int, list[Candidate]]] = field(default_factory=dict)
    """What was sent, the last first in the bank's order, where it is of the bank."""
    singles: dict[int, dict[int, Outcome]] = field(default_factory=dict)
    """By question's place and example's id."""
    load: list[float] = field(default_factory=list)
    """Of the machine over a minute, now and then."""


class Asking:
    """A set, two models and all that is asked."""

    def __init__(self, of: Set, bank: Bank, engines: Mapping[str, Engine], features: Features) -> None:
        """`engines`: small and large."""
        self.of, self.bank, self._engines, self.features = of, bank, engines, features
        near = bank.near(of.asked)
        self.found = Found(
            [Question(i, n, best_fused(n, CANDIDATES)) for i, n in zip(of.asked, near, strict=True)]
        )
        self._free = {name: asyncio.Semaphore(1) for name in engines}
        self._answered = dict.fromkeys(engines, 0)
        self._wanted = dict.fromkeys(engines, 0)
        self._told_s = time.monotonic()

    async def ask_all(self, prior: Scorer) -> Found:
        """Every arm but those that need the others' outcomes."""
        jobs: list[Awaitable[None]] = []

        def arm(
            name: str,
            engine: str,
            shown: Callable[[Question], list[Candidate]],
            of_some: Sequence[Question] = (),
        ) -> None:
            jobs.extend(
                self._shown(name, engine, each, shown(each)) for each in of_some or self.found.questions
            )

        of = self.of
        arm(ALONE, "small", lambda q: [])
        if not of.recorded_large:
            arm(LARGE, "large", lambda q: [])
        arm(NEAREST.format(5), "small", lambda q: q.near[:5])
        arm(RANDOM, "small", self._random)
        if "own" in of.arms:
            jobs.extend(self._own(each) for each in self.found.questions)
        for number in (1, 3):
            arm(NEAREST.format(number), "small", lambda q, number=number: q.near[:number])  # type: ignore[misc]
        arm(WORDS, "small", lambda q: sorted((c for c in q.near if c.words), key=lambda c: -c.words)[:5])
        arm(PRIOR, "small", lambda q: self._chosen(prior, q))
        if "large with examples" in of.arms:
            arm(LARGE_NEAREST, "large", lambda q: q.near[:5])
        few = self.found.questions[: max(FEW, len(self.found.questions) // 3)]
        jobs.extend(self._single(each, one) for each in few for one in each.singles())
        if "shares" in of.arms:
            for share in SHARES:
                arm(SHARE.format(share), "small", self._of_share(share), few)
        if "best of three" in of.arms:
            jobs.extend(self._best_of(each) for each in self.found.questions[:SAMPLED_QUESTIONS])
        await asyncio.gather(*map(_if_kept, jobs))
        return self.found

    async def ask_trained(self, scorer: Scorer) -> None:
        """By a scorer that learnt from outcomes of other sets."""
        await asyncio.gather(
            *[
                _if_kept(self._shown(TRAINED, "small", each, self._chosen(scorer, each)))
                for each in self.found.questions
            ]
        )

    def view(self, question: Question) -> RequestView:
        """As the scorer sees it."""
        case = self.of.case
        return RequestView(case.prompts[question.place], case.vectors[question.place], "large")

    def rows(self) -> list[Row]:
        """What a scorer can learn from: graded answers with none, one and some of the considered examples.

        Rows of several sets mix in time: by the number of the question.
        """
        made: list[Row] = []
        arms, none = self.found.arms, list[Candidate]()
        for number, each in enumerate(self.found.questions):
            sets = [(none, arms.get(ALONE, {}).get(each.place))]
            shown_alone = self.found.singles.get(each.place, {})
            sets += [([one], shown_alone.get(one.example.id)) for one in each.singles()]
            for arm in (NEAREST.format(3), NEAREST.format(5), WORDS, PRIOR):
                sets.append((self.found.shown[arm][each.place], arms.get(arm, {}).get(each.place)))
            considered = {one.example.id for one in each.considered}
            for sent, came in sets:
                if came is not None and {one.example.id for one in sent} <= considered:
                    view, near = self.view(each), each.considered
                    at_s = NOW_S + number
                    made.append(outcome(number, at_s, view, near, sent, self.features, came.score))
        return made

    async def _shown(self, arm: str, engine: str, question: Question, examples: list[Candidate]) -> None:
        """Best first; the best is shown last."""
        self.found.shown.setdefault(arm, {})[question.place] = examples
        pairs = [(one.example.question, one.example.answer) for one in reversed(examples)]
        said = await self._ask(engine, question.place, pairs)
        self.found.arms.setdefault(arm, {})[question.place] = self._graded(question.place, said)

    async def _single(self, question: Question, one: Candidate) -> None:
        said = await self._ask("small", question.place, [(one.example.question, one.example.answer)])
        came = self._graded(question.place, said)
        self.found.singles.setdefault(question.place, {})[one.example.id] = came

    async def _own(self, question: Question) -> None:
        near = question.near[:5]
        said = await asyncio.gather(*[self._ask("large", one.example.id, []) for one in near])
        answers = [unwrapped(one.text) for one in said]
        await self._shown(OWN, "small", question, _answered_by(near, answers))

    async def _best_of(self, question: Question) -> None:
        near = question.near[:5]
        drawn = [
            await asyncio.gather(
                *[
                    self._ask("large", one.example.id, [], temperature=SAMPLED_AT, seed=n)
                    for n in range(SAMPLES)
                ]
            )
            for one in near
        ]
        first = [unwrapped(said[0].text) for said in drawn]
        best = [
            unwrapped(max(said, key=lambda s, one=one: self.of.score(one.example.id, s.text)[0]).text)  # type: ignore[misc]
            for one, said in zip(near, drawn, strict=True)
        ]
        await self._shown(FIRST_OF, "small", question, _answered_by(near, first))
        await self._shown(BEST_OF, "small", question, _answered_by(near, best))

    def _random(self, question: Question) -> list[Candidate]:
        """Of the whole bank."""
        places = random.Random(f"{SEED} {question.place}").sample(self.of.bank.tolist(), 5)
        return self._candidates(question, places)

    def _of_share(self, share: float) -> Callable[[Question], list[Candidate]]:
        bank = self.of.bank
        part = np.random.default_rng(SEED).permutation(bank)[: max(5, round(share * len(bank)))]
        vectors = self.of.case.vectors

        def nearest(question: Question) -> list[Candidate]:
            order = np.argsort(-(vectors[part] @ vectors[question.place]), kind="stable")[:5]
            return self._candidates(question, part[order].tolist())

        return nearest

    def _candidates(self, question: Question, places: Sequence[int]) -> list[Candidate]:
        case = self.of.case
        similarity = case.vectors[places] @ case.vectors[question.place]
        return [Candidate(case.example(j), float(s)) for j, s in zip(places, similarity, strict=True)]

    def _chosen(self, scorer: Scorer, question: Question) -> list[Candidate]:
        return choose(scorer, self.view(question), question.considered)[::-1]

    def _graded(self, place: int, said: Said) -> Outcome:
        return Outcome(*self.of.score(place, said.text), *said[1:3], *said[3:])

    async def _ask(self, engine: str, place: int, examples: Sequence[tuple[str, str]], **more: Any) -> Said:
        turns = [
            {"role": "system", "content": self.of.instruction},
            {"role": "user", "content": self.of.case.prompts[place]},
        ]
        messages = with_pairs(turns, examples)
        body = {"messages": messages, "temperature": 0, "max_tokens": self.of.most_tokens, **more}
        self._wanted[engine] += 1
        async with self._free[engine]:
            said = await self._engines[engine].answer(body)
        self._answered[engine] += 1
        self._tell()
        return said

    def _tell(self) -> None:
        now_s = time.monotonic()
        if now_s - self._told_s < _TOLD_EVERY_S:
            return
        self._told_s = now_s
        self.found.load.append(os.getloadavg()[0])
        told = ", ".join(f"{name} {self._answered[name]} of {n}" for name, n in self._wanted.items())
        print(f"{self.of.key}: {told} answers", file=sys.stderr, flush=True)


async def _if_kept(job: Awaitable[None]) -> None:
    with suppress(NotKept):
        await job


def _answered_by(near: Sequence[Candidate], answers: Sequence[str]) -> list[Candidate]:
    return [
        replace(one, example=one.example._replace(answer=answer))
        for one, answer in zip(near, answers, strict=True)
    ]
