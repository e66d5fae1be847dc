"""The understudy effect with a bank that stands still: who answers how well with which examples, at what pace and cost.

The bank holds one phrasing of some facts, asked of the large model through the gateway; every fact is then asked in two
other phrasings. Of the facts the bank says nothing about, it is measured what is sent along, and what it would have cost.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.tiny_models.world import PHRASINGS, Fact
from benchmarks.understudy_effect.asking import (
    EXAMPLES,
    WORLD,
    Answered,
    Question,
    Way,
    all_answered,
    learnt_in_use,
    publish,
    served_model,
    summary,
    with_examples_of,
)
from benchmarks.vllm.serving import Served
from tests.vllm.conftest import STILL
from tests.vllm.guide import Guide, guided, settings, until

ALONE, LARGE = "small alone", "large alone"
CHOSEN, TRAINED, ORACLE = "small + chosen (prior)", "small + chosen (trained)", "small + the helping example"
RULE, RULE_TRAINED = "rule + chosen (prior)", "rule + chosen (trained)"
NEAREST, FSKD = f"small + {EXAMPLES} nearest", "FSKD (theta 0.8, m 3)"


@dataclass(frozen=True, slots=True)
class Plan:
    """Which facts are in the bank, in which phrasings, and what is asked."""

    kept: dict[Fact, tuple[int, ...]]
    """Phrasings in the bank."""
    questions: list[Question]

    @staticmethod
    def drawn(
        seed: int, *, phrasings_kept: int = 1, unknown_share: float = 0.2, phrasings_asked: int = 2
    ) -> Plan:
        """The bank lacks `unknown_share` of the facts; every fact is asked in phrasings that the bank does not hold.

        Whatever `phrasings_kept`, the facts and the questions of a seed are the same.
        """
        rng = random.Random(f"frozen-{seed}")
        facts = rng.sample(WORLD.facts, len(WORLD.facts))
        held = frozenset(facts[round(unknown_share * len(facts)) :])
        kept, questions = {}, []
        for fact in facts:
            order = rng.sample(range(len(PHRASINGS)), len(PHRASINGS))
            questions += [Question(fact, phrasing) for phrasing in order[:phrasings_asked]]
            if fact in held:
                kept[fact] = tuple(order[phrasings_asked : phrasings_asked + phrasings_kept])
        rng.shuffle(questions)
        return Plan(kept, questions)


@dataclass
class Measured:
    """One way's rows in the questions' order, and the wall seconds of all its blocks together."""

    rows: dict[int, Answered] = field(default_factory=dict)
    wall_s: float = 0.0
    alone_latencies_s: list[float] = field(default_factory=list)
    """One request at a time."""


def models() -> dict[str, Any]:
    """The served models of this study. Only `teacher` fills the bank."""
    both = {"engines": ["small", "large"], "remember": False, "proof": "off"}
    nearest = {"theta": -1.0, "m": 1}
    return {
        "teacher": both | {"policy": "fixed", "remember": True},
        "large-only": {"engines": ["large"], "policy": "fixed", "remember": False},
        "small-only": {"engines": ["small"], "policy": "fixed", "remember": False},
        "nearest-1": both | {"policy": "few_shot", "few_shot": nearest | {"max_examples": 1}},
        "nearest-5": both | {"policy": "few_shot", "few_shot": nearest | {"max_examples": EXAMPLES}},
        "fskd": both | {"policy": "few_shot"},
        "guide": both | STILL,
    }


def configuration(data: Path, small: Served, large: Served) -> dict[str, Any]:
    """The gateway's: no exact answers, nothing learnt while it is measured."""
    made = settings(data, small, large)
    made["memory"]["exact"] = {"enabled": False}
    return made | {
        "models": models(),
        "learning": {"enabled": False},
        "feedback": {"advanced": {"per_minute": 100_000}},
        "log": {"requests": False},
    }


def filled(guide: Guide, plan: Plan) -> list[tuple[str, str]]:
    """Asks the large model what the bank shall hold; the bank's (question, answer) pairs."""
    asked = [Question(fact, phrasing) for fact, phrasings in plan.kept.items() for phrasing in phrasings]
    all_answered(asked, served_model(guide, "teacher"))
    # Questions that the store takes for one another become one example: merged says how many stand behind it.
    until(lambda: sum(1 + one["merged"] for one in guide.bank()) >= len(asked), "everything in the bank")
    return [(one["question"], one["answer"]) for one in guide.bank()]


def ways(guide: Guide, pairs: Sequence[tuple[str, str]], seed: int) -> dict[str, Way]:
    """Every way that is compared; which engine answers is part of it."""
    helping = {WORLD.by_question[question]: (question, answer) for question, answer in pairs}

    def at_random(question: Question) -> Sequence[tuple[str, str]]:
        return random.Random(f"{seed}-{question.text}").sample(list(pairs), EXAMPLES)

    def oracle(question: Question) -> Sequence[tuple[str, str]]:
        return [helping[question.fact]] if question.fact in helping else []

    return {
        LARGE: served_model(guide, "large-only"),
        ALONE: served_model(guide, "small-only"),
        f"small + {EXAMPLES} at random": with_examples_of(guide, "small-only", at_random),
        "small + the nearest": served_model(guide, "nearest-1"),
        NEAREST: served_model(guide, "nearest-5"),
        CHOSEN: served_model(guide, "guide", engine="small"),
        ORACLE: with_examples_of(guide, "small-only", oracle),
        FSKD: served_model(guide, "fskd"),
        RULE: served_model(guide, "guide"),
    }


def measured(
    ways: dict[str, Way], questions: Sequence[Question], seed: int, *, blocks: int = 4
) -> dict[str, Measured]:
    """All ways on all questions, in blocks, in an order drawn anew for each: what drifts on the machine hits all alike."""
    rng = random.Random(f"order-{seed}")
    found = {name: Measured() for name in ways}
    numbered = list(enumerate(questions))
    for block in range(blocks):
        part = numbered[block::blocks]
        for name in rng.sample(list(ways), len(ways)):
            rows, wall_s = all_answered([question for _, question in part], ways[name])
            found[name].rows.update(zip((i for i, _ in part), rows, strict=True))
            found[name].wall_s += wall_s
            one_by_one, _ = all_answered([question for _, question in part[:10]], ways[name], at_once=1)
            found[name].alone_latencies_s += [row.latency_s for row in one_by_one]
    return found


def tabled(
    found: dict[str, Measured], plan: Plan, reference: list[Answered], alone: list[Answered]
) -> dict[str, Any]:
    """The figures per way: over all questions, over those the bank can help with, over those it cannot, and over those with
    which it sent examples to the small model, beside what that model made of the same questions without any (`alone`)."""
    table: dict[str, Any] = {}
    for name, one in found.items():
        rows = in_order(one)
        can = [i for i, row in enumerate(rows) if row.question.fact in plan.kept]
        cannot = [i for i, row in enumerate(rows) if row.question.fact not in plan.kept]
        sent = [i for i, row in enumerate(rows) if row.examples and row.engine == "small"]
        latencies = [row.latency_s for row in rows]
        table[name] = {
            "all": summary(rows, reference),
            "bank_can_help": summary([rows[i] for i in can], [reference[i] for i in can]),
            "bank_cannot_help": summary([rows[i] for i in cannot], [reference[i] for i in cannot]),
            "requests_per_s": len(rows) / one.wall_s,
            "p50_ms": float(np.percentile(latencies, 50) * 1000),
            "p95_ms": float(np.percentile(latencies, 95) * 1000),
            "p50_one_at_a_time_ms": float(np.median(one.alone_latencies_s) * 1000),
        }
        if sent:
            table[name]["where_sent"] = summary([rows[i] for i in sent], [reference[i] for i in sent]) | {
                "right_alone": float(np.mean([alone[i].right for i in sent]))
            }
    return table


def in_order(one: Measured) -> list[Answered]:
    """Its rows as the questions came."""
    return [one.rows[i] for i in range(len(one.rows))]


def study(folder: Path, small: Served, large: Served, seed: int, scorer: bytes) -> dict[str, Any]:
    """The whole of it; `scorer` was trained elsewhere and is measured beside the prior on the same banks."""
    sparse, dense = Plan.drawn(seed), Plan.drawn(seed, phrasings_kept=3)
    everything = _on_bank(folder / "sparse", small, large, sparse, seed, scorer)
    reference, alone = in_order(everything[LARGE]), in_order(everything[ALONE])
    learning = (NEAREST, FSKD, CHOSEN, RULE)
    again = _on_bank(folder / "dense", small, large, dense, seed, scorer, only=learning)
    return {
        "questions": len(sparse.questions),
        "bank": len(sparse.kept),
        "ways": tabled(everything, sparse, reference, alone),
        "dense_bank": sum(map(len, dense.kept.values())),
        "dense_ways": tabled(again, dense, reference, alone),
    }


def _on_bank(
    folder: Path,
    small: Served,
    large: Served,
    plan: Plan,
    seed: int,
    scorer: bytes,
    only: Sequence[str] = (),
) -> dict[str, Measured]:
    folder.mkdir()
    config = configuration(folder / "data", small, large)
    with guided(folder, config) as guide:
        guide.key = ""
        every = ways(guide, filled(guide, plan), seed)
        found = measured({n: way for n, way in every.items() if n in only or not only}, plan.questions, seed)
    publish(folder / "data", scorer)
    with guided(folder, config) as guide:
        guide.key = ""
        until(lambda: learnt_in_use(guide), "the trained scorer in use")
        trained = {
            TRAINED: served_model(guide, "guide", engine="small"),
            RULE_TRAINED: served_model(guide, "guide"),
        }
        return found | measured(trained, plan.questions, seed)
