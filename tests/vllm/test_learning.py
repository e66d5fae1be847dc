"""The learner moves traffic to the small model once feedback says that it is good enough with examples."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

from benchmarks.tiny_models.world import PHRASINGS
from tests.flow.line import MODELS
from tests.vllm.conftest import Opener
from tests.vllm.guide import WORLD, Guide, until

OUTCOMES = 60
SETTLED = 120
TOWNS = WORLD.facts[:60]
PATIENT = {"scorer_deadline_ms": 10_000, "outcomes_needed": OUTCOMES}
LEARNT: dict[str, Any] = {
    "policy": "in_context",
    "proof": "off",
    # A rule that hardly ever dares: what moves traffic is what was learnt.
    "few_shot": {"theta": 0.999, "m": 3},
}


def test_feedback_moves_traffic_to_the_small_model_and_answers_stay_right(
    open_guide: Opener, tmp_path: Path
) -> None:
    patient = {"embedding_deadline_ms": 10_000, "retrieve_deadline_ms": 10_000}
    advanced = {"embedding_cache_dir": str(MODELS), **patient}
    memory = {"memory": {"data_dir": str(tmp_path / "learnt"), "advanced": advanced}}
    exploring = {"epsilon": 0.3, "key_share": 1.0}
    training = {"every_s": 0.5, "min_new_outcomes": 10}
    guide = open_guide(
        top=memory | {"learning": {"advanced": training}},
        **LEARNT,
        advanced=PATIENT | exploring,
    )
    rng = random.Random(3)
    for fact in TOWNS:
        guide.teach_fact(fact, rng.randrange(len(PHRASINGS)))
    guide.gateway.wait_for_log('"event":"learning"', timeout_s=60)

    before, _ = _round(guide, rng, OUTCOMES + 40)
    guide.gateway.wait_for_log('"kind":"bandit"', timeout_s=60)
    until(lambda: _decided_by_what_was_learnt(guide, rng), "a decision by what was learnt")
    _round(guide, rng, 120)
    guide.gateway.stop()

    # What is tried costs right answers; what was learnt is seen where nothing is tried any more.
    settled = open_guide(
        top=memory | {"learning": {"enabled": False}},
        **LEARNT,
        advanced=PATIENT | {"epsilon": 0, "key_share": 0},
    )
    until(lambda: _decided_by_what_was_learnt(settled, rng), "what was learnt, in use again")
    after, right = _round(settled, rng, SETTLED)
    assert after >= 0.6 and after > before + 0.3, (before, after)
    # Right in 97 of 100 or more, as in docs/experiments: of 120, fewer than 108 come in less than one run of ten thousand.
    assert right >= 0.9


def _round(guide: Guide, rng: random.Random, requests: int) -> tuple[float, float]:
    """So many questions, each answer scored by whether it is right; shares answered by the small model, and right."""
    small = right = 0
    for _ in range(requests):
        fact = rng.choice(TOWNS)
        said = guide.ask(fact.question(rng.randrange(len(PHRASINGS))), again=True)
        good = said.text == fact.answer
        guide.score(said, float(good))
        small += said.engine == "small"
        right += good
    return small / requests, right / requests


def _decided_by_what_was_learnt(guide: Guide, rng: random.Random) -> bool:
    guide.ask(rng.choice(TOWNS).question(0), again=True)
    return '"event":"artifact_in_use"' in guide.gateway.log()
