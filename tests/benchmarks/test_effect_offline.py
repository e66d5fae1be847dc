"""The offline arms on a made set: what is asked, kept, graded and computed; and the figures of real models kept here."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import aiohttp
import numpy as np
import pytest

from benchmarks.effect import asking, offline
from benchmarks.effect.engines import Body, NotKept, Real, Said, last
from benchmarks.effect.sets import Set, command, last_number, shared_of_words
from benchmarks.effect.streams import same_label
from benchmarks.helpfulness.cases import Case
from benchmarks.helpfulness.recorded import Bank
from benchmarks.recorded import ROOT
from learning.evaluation.intervals import Interval
from router.examples.features import VERSION, Features
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


async def test_figures_are_those_of_the_outcomes() -> None:
    asked, _, _ = await asked_all()
    arms = asked.found.arms
    arms |= offline._without_models(asked.of, asked.found)
    row = {"arms": {name: offline._lists(asked.of, came) for name, came in arms.items()}}
    alone = offline.arm_figures(row, asking.ALONE)
    nearest = offline.arm_figures(row, "small + nearest 5")
    assert alone["score"] == (0.0, Interval(0.0, 0.0)) and nearest["score"][0] == nearest["exact"][0] > 0.5
    assert nearest[asking.ALONE][0] == nearest["score"][0] and nearest[asking.LARGE][0] <= 0
    told = nearest["tokens_in"], nearest["prefill_s"], nearest["decode_s"]
    assert told == pytest.approx((110, 0.5, 0.1))
    oracle = offline.arm_figures(row, asking.ORACLE)["score"][0]
    assert oracle >= max(
        offline.arm_figures(row, name)["score"][0] for name in offline._BY_SMALL if name in row["arms"]
    )
    assert offline.arm_figures(row, asking.STUDENT)["score"][0] > 0.8
    assert {row.quality for row in asked.rows()} == {0.0, 1.0}


async def test_a_model_that_is_not_to_be_asked_says_what_is_kept(tmp_path: Path) -> None:
    async with aiohttp.ClientSession() as session:
        body = made_set_body()
        with pytest.raises(NotKept):
            await Real(None, session, tmp_path / "kept.jsonl", 0.0).answer(body)


def made_set_body() -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": "a"}], "temperature": 0, "max_tokens": 8}


def test_answers_are_graded_as_a_client_would_take_them() -> None:
    assert command("```bash\nfind .  -name 'a'\n```") == command('find . -name "a"')
    assert last_number("So 1,200 + 34.\n#### 1,234.00") == "1234" and last_number("none") == ""
    assert shared_of_words("The Eiffel Tower.", "Eiffel tower") == 1 and shared_of_words("Paris", "Rome") == 0


def singles(helped: list[tuple[int, float, float]]) -> dict[str, Any]:
    """(question, similarity, score)"""
    zeros = [0.0] * 23
    shown = [
        {"question": q, "example": "e", "score": score, "features": [similarity, *zeros], "trained": 0.5}
        for q, similarity, score in helped
    ]
    return {"arms": {asking.ALONE: {"score": [0.5, 0.5]}}, "singles": shown}


def test_examples_one_by_one_tell_what_chooses_well() -> None:
    found = offline.example_figures(singles([(0, 0.9, 1.0), (0, 0.1, 0.0), (1, 0.8, 0.75), (1, 0.2, 0.5)]))
    assert found["correlation of similarity"] > 0.9 and np.isnan(found["correlation of the trained scorer"])
    assert (found["harmful"], found["helpful"]) == (0.25, 0.5)
    assert found["help, chosen by similarity"] == found["help of the best"] == pytest.approx(0.375)
    assert found["help of any"] == pytest.approx((0.0 + 0.125) / 2)


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


def test_by_what_real_examples_did_choosing_is_not_below_chance(kept: list[dict[str, Any]]) -> None:
    assert {row["features"] for row in kept} == {VERSION}, "ask again: the features are others now"
    found = [(offline.example_figures(row), len(row["singles"])) for row in kept if row["singles"]]

    def helped(key: str) -> float:
        return sum(figures[key] * number for figures, number in found)

    assert helped("help, chosen by similarity") >= helped("help of any")
    assert helped("help, chosen by the prior") >= helped("help of any")


def test_outcomes_hold_no_texts_and_are_small(kept: list[dict[str, Any]]) -> None:
    assert KEPT.stat().st_size < 2**20
    for row in kept:
        assert {
            type(value) for arm in row["arms"].values() for numbers in arm.values() for value in numbers
        } <= {
            int,
            float,
        }
        assert {key for one in row["singles"] for key in one} <= {
            "question",
            "example",
            "score",
            "features",
            "trained",
        }
