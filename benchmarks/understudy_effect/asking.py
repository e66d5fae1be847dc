"""Asking through a real gateway and keeping what came of it: the questions, the served models, and one row per answer."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.tiny_models.world import PHRASINGS, Fact, World
from tests.vllm.guide import Guide, Said

AT_ONCE = 8
"""Requests in flight while accuracy and throughput are measured."""
USD_PER_MTOK = {"small": (0.1, 0.4), "large": (1.0, 4.0)}
"""Prompt and completion, in US dollars per million tokens: ten to one."""
EXAMPLES = 5

WORLD = World()


@dataclass(frozen=True, slots=True)
class Question:
    """A fact, asked in one of its phrasings."""

    fact: Fact
    phrasing: int

    @property
    def text(self) -> str:
        return self.fact.question(self.phrasing)


@dataclass(frozen=True, slots=True)
class Answered:
    """What came of one question."""

    question: Question
    engine: str
    examples: int
    right: bool
    prompt_tokens: int
    completion_tokens: int
    latency_s: float
    """From sending the request to the last byte of the answer, at the client."""

    @property
    def cost_usd(self) -> float:
        """At USD_PER_MTOK."""
        prompt, completion = USD_PER_MTOK[self.engine]
        return (self.prompt_tokens * prompt + self.completion_tokens * completion) / 1e6


Way = Callable[[Question], Said]
"""One way to have a question answered."""


def answered(question: Question, way: Way) -> Answered:
    """Asks once. Raises AssertionError for an answer that is none: nothing is counted as wrong that was not said."""
    began = time.perf_counter()
    said = way(question)
    latency_s = time.perf_counter() - began
    assert said.status == 200, said.body
    usage = said.json["usage"]
    return Answered(
        question,
        said.engine,
        said.examples,
        WORLD.is_right(question.text, said.text),
        usage["prompt_tokens"],
        usage["completion_tokens"],
        latency_s,
    )


def all_answered(
    questions: Sequence[Question], way: Way, at_once: int = AT_ONCE
) -> tuple[list[Answered], float]:
    """Every question's row, in their order, and the wall seconds it took; `at_once` are in flight."""
    began = time.perf_counter()
    with ThreadPoolExecutor(at_once) as pool:
        rows = list(pool.map(lambda question: answered(question, way), questions))
    return rows, time.perf_counter() - began


def served_model(guide: Guide, model: str, *, engine: str = "", again: bool = True) -> Way:
    """Asks for a served model; `engine` must answer. Repeats are asked anew."""
    return lambda question: guide.ask(question.text, model=model, engine=engine, again=again)


def with_examples_of(
    guide: Guide, model: str, chosen: Callable[[Question], Sequence[tuple[str, str]]]
) -> Way:
    """Asks a served model that adds nothing, with (question, answer) pairs as earlier turns, as router.prompt puts them."""

    def ask(question: Question) -> Said:
        turns: list[dict[str, Any]] = []
        pairs = chosen(question)
        for asked, told in pairs:
            turns += [{"role": "user", "content": asked}, {"role": "assistant", "content": told}]
        said = guide.ask([*turns, {"role": "user", "content": question.text}], model=model, again=True)
        return Said(said.status, {**dict(said.headers), "x-understudy-examples": str(len(pairs))}, said.body)

    return ask


def with_feedback(guide: Guide, way: Way, share: float) -> Way:
    """Tells the gateway whether an answer was right, for this share of the questions there are."""

    def ask(question: Question) -> Said:
        said = way(question)
        if random.Random(f"feedback-{question.text}").random() < share:
            guide.score(said, float(WORLD.is_right(question.text, said.text)))
        return said

    return ask


def learnt_in_use(guide: Guide) -> bool:
    """Whether the gateway's worker has taken something learnt into use. A tenant's first request makes it look."""
    guide.ask("What is the town of Nowhere known for?", model="guide", fresh=True)
    return '"event":"artifact_in_use"' in guide.gateway.log()


def publish(data: Path, scorer: bytes) -> None:
    """Puts a scorer into use for every tenant of a data folder, as what an operator brought."""
    from understudy.commands.data_folder import store_in

    with store_in(data) as store:
        store.artifacts.publish(
            "scorer", "", "guide", scorer, metrics={}, note="trained on another bank's log"
        )


def traffic(requests: int, seed: int, *, skew: float = 0.6) -> list[Question]:
    """A stream of questions: facts by a Zipf law of exponent `skew` (0: all alike), phrasings at random."""
    rng = random.Random(f"traffic-{seed}")
    facts = rng.sample(WORLD.facts, len(WORLD.facts))
    weights = [(rank + 1) ** -skew for rank in range(len(facts))]
    return [Question(rng.choices(facts, weights)[0], rng.randrange(len(PHRASINGS))) for _ in range(requests)]


def summary(rows: Sequence[Answered], reference: Sequence[Answered] | None = None) -> dict[str, Any]:
    """What is reported of a way: shares, cost, tokens. Against the reference's answers to the same questions: the win rate
    (learning.outcomes.judge.win_rate; the judge is exact, so both right or both wrong is a tie)."""
    found: dict[str, Any] = {
        "questions": len(rows),
        "right": float(np.mean([row.right for row in rows])),
        "to_small": float(np.mean([row.engine == "small" for row in rows])),
        "examples": float(np.mean([row.examples for row in rows])),
        "none_sent": float(np.mean([row.examples == 0 for row in rows])),
        "prompt_tokens": float(np.mean([row.prompt_tokens for row in rows])),
        "usd_per_1000": float(np.mean([row.cost_usd for row in rows]) * 1000),
    }
    if reference is not None:
        found["win_rate"] = win_rate(rows, reference)
    return found


def win_rate(rows: Sequence[Answered], reference: Sequence[Answered]) -> float:
    """Of `rows` against the reference's answers to the same questions, by learning.outcomes.judge's definition."""
    from learning.outcomes.judge import judgement, vote
    from learning.outcomes.judge import win_rate as judged

    points = [3 * (int(ours.right) - int(theirs.right)) for ours, theirs in zip(rows, reference, strict=True)]
    # An exact judge finds the same in either order.
    both_orders = (judgement([vote(p, ours_first=True), vote(-p, ours_first=False)]) for p in points)
    rate = judged([one for one in both_orders if one is not None])
    assert rate is not None
    return rate
