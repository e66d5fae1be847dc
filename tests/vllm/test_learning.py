"""The learner moves traffic to the small model once feedback says that it is good enough with examples."""

from __future__ import annotations

import random

from benchmarks.tiny_models.world import PHRASINGS
from tests.vllm.conftest import Opener
from tests.vllm.guide import WORLD, Guide, until

OUTCOMES = 60


def test_feedback_moves_traffic_to_the_small_model_and_answers_stay_right(open_guide: Opener) -> None:
    guide = open_guide(
        top={"learning": {"every_s": 0.5, "min_new_outcomes": 10, "train_scorer": False}},
        policy="in_context",
        # A rule that hardly ever dares: what moves traffic is what was learnt.
        few_shot={"theta": 0.999, "m": 3},
        in_context={
            "outcomes_needed": OUTCOMES,
            "preference": 0.5,
            "exploration": {"epsilon": 0.3, "key_share": 1.0, "gamma": 10},
            "examples": {"scorer_deadline_ms": 10_000},
        },
    )
    rng = random.Random(3)
    towns = WORLD.facts[:60]
    for fact in towns:
        guide.teach_fact(fact, rng.randrange(len(PHRASINGS)))
    guide.gateway.wait_for_log('"event":"learning"', timeout_s=60)

    before, _ = _round(guide, rng, OUTCOMES + 40)
    guide.gateway.wait_for_log('"kind":"bandit"', timeout_s=60)
    until(lambda: _decided_by_what_was_learnt(guide, rng), "a decision by what was learnt")
    _round(guide, rng, 60)
    after, right = _round(guide, rng, 60)
    assert after >= 0.6 and after > before + 0.3, (before, after)
    assert right >= 0.9


def _round(guide: Guide, rng: random.Random, requests: int) -> tuple[float, float]:
    """So many questions, each answer scored by whether it is right; shares answered by the small model, and right."""
    small = right = 0
    for _ in range(requests):
        fact = rng.choice(WORLD.facts[:60])
        said = guide.ask(fact.question(rng.randrange(len(PHRASINGS))), again=True)
        good = said.text == fact.answer
        guide.score(said, float(good))
        small += said.engine == "small"
        right += good
    return small / requests, right / requests


def _decided_by_what_was_learnt(guide: Guide, rng: random.Random) -> bool:
    guide.ask(rng.choice(WORLD.facts[:60]).question(0), again=True)
    return '"event":"artifact_in_use"' in guide.gateway.log()
