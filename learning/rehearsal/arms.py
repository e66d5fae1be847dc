"""Asks a small engine past requests in several ways, each question left out of what it is shown.

Leave one out: each question is asked of the small engine alone, with the most similar other requests of the log as examples,
and with random ones; to copy the most similar one's answer asks nobody, nor does the student (learning.rehearsal.students).
Quality is how close an answer is to the recorded one (learning.outcomes.loss.closeness), so one less it bounds what is lost
against whoever gave those: another answer may be as good. Where a person said how good the recorded one was, what is lost
against it counts both ways.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from engines.asking import NotAnswered, chat_of
from engines.chat import ChatRequest
from learning.outcomes.equal import same, settles
from learning.outcomes.loss import closeness, loss, right_answer
from router.prompt import with_pairs


@dataclass(frozen=True, slots=True)
class Past:
    """A request of the log with its answer."""

    chat: ChatRequest
    question: str
    answer: str
    scope: str
    """Hash of its instructions: examples come from the same."""
    vector: npt.NDArray[np.float32]
    """Unit vector of the question."""
    usd: float = 0.0
    """The cost of its answer."""
    score: float | None = None
    """A person's score of its answer, 0 to 1; None if nobody said."""
    correction: str = ""
    """The right answer, where a person gave it."""


@dataclass(frozen=True, slots=True)
class Answer:
    """An engine's answer, with its cost in US dollars and its time in seconds."""

    text: str
    usd: float
    seconds: float


@dataclass(frozen=True, slots=True)
class Tried:
    """One question answered in one way."""

    quality: float
    """Closeness to the recorded answer, 0 to 1."""
    usd: float
    seconds: float
    agreed: float | None = None
    """1 for the same answer, 0 if another one is plainly worse; None if only a judge could tell."""
    loss: float | None = None
    """-1 to 1, of quality against the recorded answer, as a person's word tells; None without one."""


@dataclass(frozen=True, slots=True)
class Question:
    """A question that was answered in every way, and what was beside it."""

    past: Past
    shown: tuple[tuple[float, str], ...]
    """Similarity and answer of the most similar others, the best first."""

    @property
    def similarity(self) -> float:
        """To the most similar other one."""
        return self.shown[0][0]


@dataclass(frozen=True, slots=True)
class Rehearsed:
    """The questions that were answered in every way, in one order."""

    ways: Mapping[str, Sequence[Tried | None]]
    """None: not for this way to answer."""
    questions: Sequence[Question]
    sure: Mapping[str, Sequence[float]] = field(default_factory=dict)
    """The confidence of a way in its answers; of the others those most like a past request come first."""

    @property
    def large_usd(self) -> float:
        """Return the cost of these questions' recorded answers, in US dollars."""
        return sum(one.past.usd for one in self.questions)


ALONE, NEAREST, RANDOM, COPY = "small alone", "small + {} nearest", "small + {} random", "copy of the nearest"


def tried(answer: Answer, past: Past, near: Sequence[str] = ()) -> Tried:
    """Rate an answer against the recorded one. `near`: as of learning.outcomes.equal.settles."""
    equal = same(answer.text, past.answer)
    agreed = 1.0 if equal else 0.0 if settles(past.answer, near) else None
    lost = None
    if past.score is not None:
        right = right_answer(past.answer, past.score, past.correction, near)
        if right or agreed is not None:
            quality = 1.0 if equal else 0.0
            lost = loss(past.answer, answer.text, right=right, score=past.score, quality=quality)
    return Tried(closeness(answer.text, past.answer), answer.usd, answer.seconds, agreed, lost)


async def rehearse(
    past: Sequence[Past],
    ask: Callable[[ChatRequest], Awaitable[Answer | None]],
    *,
    questions: int,
    examples: int,
    seed: int = 0,
    advanced: Callable[[int, int], None] = lambda done, of: None,
) -> Rehearsed:
    """Ask, one request after the other. `ask` gives None if nothing more can be asked: then it ends there. A
    question of which it raises NotAnswered is left out."""
    draw = random.Random(seed)
    scopes: dict[str, list[int]] = defaultdict(list)
    for place, one in enumerate(past):
        scopes[one.scope].append(place)
    chosen = _chosen(past, scopes, examples, draw)
    # The same random ones for all questions, as in a prompt written by hand: an engine reads their tokens once.
    fixed = {scope: draw.sample(places, len(places)) for scope, places in scopes.items()}
    names = ALONE, NEAREST.format(examples), RANDOM.format(examples), COPY
    found: dict[str, list[Tried | None]] = {name: [] for name in names}
    answered: list[Question] = []
    for count, place in enumerate(chosen[:questions]):
        advanced(count, min(questions, len(chosen)))
        one = past[place]
        others = [n for n in scopes[one.scope] if past[n].question != one.question]
        if len(others) < examples:
            continue
        near = np.array([past[n].vector for n in others]) @ one.vector
        nearest = [(float(near[n]), others[n]) for n in np.argsort(-near, kind="stable")[:examples]]
        order = [n for _, n in nearest]
        # The most similar one stands last, beside the question.
        by_chance = [n for n in fixed[one.scope] if past[n].question != one.question][:examples]
        shown = [[past[n] for n in each] for each in ([], order[::-1], by_chance)]
        answers = [past[n].answer for n in order]
        try:
            said = await _asked(one, shown, answers, ask)
        except NotAnswered:
            continue
        if said is None:
            break
        said.append(tried(Answer(answers[0], 0.0, 0.0), one, answers))
        for name, each in zip(names, said, strict=True):
            found[name].append(each)
        answered.append(Question(one, tuple((near, past[n].answer) for near, n in nearest)))
    return Rehearsed(found, answered)


async def _asked(
    one: Past,
    shown: Sequence[Sequence[Past]],
    answers: Sequence[str],
    ask: Callable[[ChatRequest], Awaitable[Answer | None]],
) -> list[Tried] | None:
    """Ask a question once with each of these sets of examples; None if nothing more can be asked. Raises NotAnswered.

    `answers`: those to the most similar others.
    """
    said: list[Tried] = []
    for examples in shown:
        pairs = [(each.question, each.answer) for each in examples]
        answer = await ask(chat_of(one.chat.fields, with_pairs(one.chat.messages, pairs)))
        if answer is None:
            return None
        said.append(tried(answer, one, answers))
    return said


def _chosen(
    past: Sequence[Past], scopes: Mapping[str, Sequence[int]], examples: int, draw: random.Random
) -> list[int]:
    """Those that can be asked, in a drawn order; every other one has a person's word, as long as there are such: what an
    answer loses is best known there."""
    order = [n for n in draw.sample(range(len(past)), len(past)) if len(scopes[past[n].scope]) > examples]
    told = [n for n in order if past[n].score is not None]
    rest = [n for n in order if past[n].score is None]
    both = min(len(told), len(rest))
    mixed = [n for pair in zip(told, rest, strict=False) for n in pair]
    return [*mixed, *told[both:], *rest[both:]]
