"""The offline arms on a made set: what is asked, kept, graded and computed; and the figures of real models kept here."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from benchmarks.effect import asking, offline
from benchmarks.effect.engines import Body, Said, last
from benchmarks.effect.sets import Set
from benchmarks.effect.streams import same_label
from benchmarks.helpfulness.cases import Case
from benchmarks.helpfulness.recorded import Bank
from benchmarks.recorded import ROOT
from router.examples.features import Features
from router.examples.prior import prior_model
from router.examples.rarity import Rarity

KEPT = ROOT / "docs" / "experiments" / "effect-offline.json"
KINDS, COUNT, ASKED = 4, 80, 12


def made_set() -> Set:
    """Requests of four kinds, each the label of its kind; the first are the questions."""
    rng = np.random.default_rng(3)
    centres = rng.standard_normal((KINDS, 16))
    vectors = np.stack([centres[i % KINDS] + 0.5 * rng.standard_normal(16) for i in range(COUNT)])
    vectors = (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)
    prompts = [f"Sort request {i} of subject{i % KINDS}" for i in range(COUNT)]
    labels = [f"kind {i % KINDS}" for i in range(COUNT)]
    right = [frozenset([label]) for label in labels]
    case = Case("made", "labels", prompts, labels, right, list(range(COUNT)), vectors, None)
    asked, bank = list(range(ASKED)), np.arange(ASKED, COUNT)
    return Set(
        "made", "A made set", case, "Sort", 8, same_label, same_label, [(label,) for label in labels], asked, bank,
        [f"id-{i}" for i in range(COUNT)], arms=frozenset({"own", "shares", "large with examples", "best of three"}),
    )  # fmt: skip


class Copying:
    """Says what the last example says; without one that it does not know, or, where it is large, the right label."""

    def __init__(self, right: dict[str, str]) -> None:
        self.right, self.bodies = right, list[Body]()

    async def would_say(self, body: Body) -> str:
        return (await self.answer(body)).text

    async def answer(self, body: Body) -> Said:
        self.bodies.append(body)
        shown = [turn["content"] for turn in body["messages"] if turn["role"] == "assistant"]
        text = shown[-1] if shown else self.right.get(last(body), "unknown")
        return Said(text, 10 + 20 * len(shown), 2, 0.5, 0.1)


async def asked_all() -> tuple[asking.Asking, Copying, Copying]:
    of = made_set()
    small, large = Copying({}), Copying(dict(zip(of.case.prompts, of.case.answers, strict=True)))
    features = Features(Rarity(), 1000)
    asked = asking.Asking(of, Bank(of.case, of.bank, Rarity()), {"small": small, "large": large}, features)
    with offline.opened({"prior": prior_model()}, features) as scorers:
        await asked.ask_all(scorers["prior"])
    return asked, small, large


async def test_every_arm_asks_every_question_with_its_examples_the_nearest_last() -> None:
    asked, small, large = await asked_all()
    arms = asked.found.arms
    assert all(set(arms[name]) == set(range(ASKED)) for name in (asking.ALONE, asking.LARGE, asking.OWN))
    assert len(arms[asking.BEST_OF]) == asking.SAMPLED_QUESTIONS < ASKED
    question = asked.found.questions[0]
    body = next(b for b in small.bodies if last(b) == asked.of.case.prompts[0] and len(b["messages"]) == 12)
    assert body["messages"][0]["content"] == "Sort"
    assert body["messages"][9]["content"] == question.near[0].example.question
    held_out = {asked.of.case.prompts[i] for i in range(ASKED)}
    turns = {turn["content"] for b in (*small.bodies, *large.bodies) for turn in b["messages"][1:-1]}
    assert not held_out & turns, "no question is an example"
    assert {b.get("seed") for b in large.bodies if b["temperature"]} == set(range(asking.SAMPLES))


@pytest.fixture(scope="module")
def kept() -> list[dict[str, Any]]:
    """Outcomes of real models: ids, scores, tokens and seconds."""
    read: list[dict[str, Any]] = json.loads(KEPT.read_text(encoding="utf-8"))
    return read


def test_the_page_has_the_tables_that_the_outcomes_come_to(kept: list[dict[str, Any]]) -> None:
    page = (KEPT.parent / "effect.md").read_text(encoding="utf-8")
    for row in kept:
        assert offline.table(row).strip() in page, (
            f"print {row['set']} by --told docs/experiments/{KEPT.name}"
        )
