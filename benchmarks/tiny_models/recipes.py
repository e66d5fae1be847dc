"""Who the two models are: shapes, lessons, seeds, and what each must be able to do to be taken."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from benchmarks.tiny_models.checkpoint import write_checkpoint
from benchmarks.tiny_models.induction import sketch_induction
from benchmarks.tiny_models.lessons import Piece, by_heart, exchange, from_context
from benchmarks.tiny_models.network import Llama, Shape
from benchmarks.tiny_models.training import Pace, share_right, train
from benchmarks.tiny_models.vocabulary import make_tokenizer
from benchmarks.tiny_models.world import PHRASINGS, World

SEED = 11
BY_HEART = 0.25
"""Share of the world's facts that the understudy knows."""
MOST_TURNS = 9
"""Exchanges in the understudy's lessons: eight examples and a question."""

EXAMS = (
    ("alone", 0, False),
    ("5 unhelpful examples", 5, False),
    ("1 example, the helpful one", 1, True),
    ("3 examples, the helpful one among them", 3, True),
    ("5 examples, the helpful one among them", 5, True),
    ("8 examples, the helpful one among them", 8, True),
)
"""Name, how many examples, whether the asked town's is among them."""


class NotLearnt(Exception):
    """A model that was trained as the recipe says and cannot do what it is for."""


def make_lead(folder: Path, say: Callable[[str], None]) -> dict[str, Any]:
    """A model that knows every fact by heart. Returns what it can do. Raises NotLearnt."""
    world, rng = _begin()
    tokenizer = make_tokenizer(world)
    model = Llama(Shape(tokenizer.get_vocab_size(), width=192, layers=4, heads=3, inner=512))
    pace = Pace(steps=600, rows=40, learning_rate=3e-3)
    train(model, tokenizer, lambda rows: by_heart(rng, world.facts, rows), pace, say)
    exams = examined(model, tokenizer, world, EXAMS[:1])
    write_checkpoint(
        folder, model, tokenizer, {"pace": asdict(pace), "exams": exams, "induction_sketched": False}
    )
    _demand(exams["alone"] >= 0.98, "the lead", exams)
    return exams


def make_understudy(folder: Path, say: Callable[[str], None]) -> dict[str, Any]:
    """A model that knows a quarter of the facts and copies the rest from its context. Returns what it can do.

    Raises NotLearnt.
    """
    world, rng = _begin()
    tokenizer = make_tokenizer(world)
    model = Llama(Shape(tokenizer.get_vocab_size(), width=128, layers=2, heads=2, inner=384))
    sketch_induction(model, SEED)
    known = world.remembered(BY_HEART)

    def lessons(rows: int) -> list[list[Piece]]:
        if rng.random() < 0.25:
            return by_heart(rng, known, rows)
        return from_context(rng, world, MOST_TURNS, rows)

    pace = Pace(steps=500, rows=16, learning_rate=2e-3)
    train(model, tokenizer, lessons, pace, say)
    exams = examined(model, tokenizer, world, EXAMS)
    write_checkpoint(
        folder, model, tokenizer, {"pace": asdict(pace), "exams": exams, "induction_sketched": True}
    )
    alone, helped = exams["alone"], exams["5 examples, the helpful one among them"]
    _demand(alone <= 0.35 and helped >= 0.97, "the understudy", exams)
    return exams


def examined(
    model: Llama, tokenizer: Any, world: World, exams: tuple[tuple[str, int, bool], ...], questions: int = 400
) -> dict[str, float]:
    """Share of questions answered right, word for word, per exam; the examples are facts of the world."""
    found = {}
    for name, examples, helpful in exams:
        rng = random.Random(SEED + examples)
        asked = [_question(rng, world, examples, helpful) for _ in range(questions)]
        found[name] = share_right(model, tokenizer, asked)
    return found


def _question(rng: random.Random, world: World, examples: int, helpful: bool) -> list[Piece]:
    fact = rng.choice(world.facts)
    shown = rng.sample([other for other in world.facts if other is not fact], examples)
    if helpful:
        shown[rng.randrange(examples)] = fact
    told = [piece for each in shown for piece in exchange(each, rng.randrange(len(PHRASINGS)), False)]
    return told + exchange(fact, rng.randrange(len(PHRASINGS)), True)


def _begin() -> tuple[World, random.Random]:
    # One thread: sums in another order are other sums, and the same seeds should give the same weights.
    torch.set_num_threads(1)
    torch.manual_seed(SEED)
    return World(), random.Random(SEED)


def _demand(holds: bool, who: str, exams: dict[str, float]) -> None:
    if not holds:
        raise NotLearnt(f"{who} cannot do what it is for: {exams}")
