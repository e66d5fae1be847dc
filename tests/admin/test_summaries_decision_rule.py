"""The rule that decided, shown with its numbers: of few-shot distillation, of proof, and of the learnt router."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from admin.summaries.decision_rule import rule
from tests.admin.traffic import ALIKE, QUESTION, house
from tests.store.rows import choice_record

SETTINGS = {"theta": 0.77, "m": 1.0}
NEAR = {"id": 1, "similarity": 0.934, "gain": None, "sent": True, "counts": 1}


def sentence(reason: str, **changes: Any) -> str | None:
    fields: dict[str, Any] = {"settings": SETTINGS, "candidates": (NEAR,), "candidate_features": None}
    told = rule(choice_record(1, **(fields | changes)), reason)
    return None if told is None else str(told["sentence"])


@pytest.mark.parametrize(
    ("settings", "near", "said"),
    [
        ({}, {}, "0.934 ≥ least similarity 0.77; 1 of 1 needed"),
        ({}, {"counts": 3}, "0.934 ≥ least similarity 0.77; 3 found, 1 needed"),
        ({"m": 2.0}, {}, "0.934 ≥ least similarity 0.77; 1 of 2 needed"),
        ({}, {"similarity": 0.61, "counts": 0}, "0.610 < least similarity 0.77; 0 of 1 needed"),
    ],
)
def test_the_rule_of_few_shot_shows_what_it_compared(
    settings: dict[str, float], near: dict[str, Any], said: str
) -> None:
    assert sentence("familiar", settings=SETTINGS | settings, candidates=(NEAR | near,)) == said


def test_examples_that_did_not_count_are_said_to() -> None:
    other = {key: value for key, value in NEAR.items() if key != "counts"}
    assert sentence("novel", candidates=(other,)) == (
        "0.934 ≥ least similarity 0.77, 1 left out because it names other things; 0 of 1 needed"
    )
    assert (
        sentence("novel", candidates=())
        == "no past request to compare with, least similarity 0.77; 0 of 1 needed"
    )


def test_a_proof_shows_its_lower_bound_and_on_how_many_comparisons_it_rests() -> None:
    noted = {"proof.least": 0.9, "proof.lower": 0.7, "proof.upper": 0.95, "proof.compared": 12}
    assert sentence("shadow", noted=noted) == "lower bound of the quality 0.700 < 0.9; 12 comparisons"
    assert (
        sentence("proven", noted=noted | {"proof.lower": 0.91})
        == "lower bound of the quality 0.910 ≥ 0.9; 12 comparisons"
    )


def test_the_learnt_router_shows_the_rewards_it_expected() -> None:
    def action(engine: str, with_examples: bool, reward: float) -> dict[str, Any]:
        return {"engine": engine, "with_examples": with_examples, "reward": reward, "probability": 0.5}

    actions = (action("small", True, 0.8124), action("large", False, 0.7441))
    learnt = {
        "settings": SETTINGS | {"preference": 0.5, "picked": -1.0},
        "actions": actions,
        "chosen": 0,
        "quality_alone": 0.7,
        "quality_with": 0.85,
    }
    assert sentence("learned", **learnt) == (
        "expected reward 0.812 (small, few-shot) ≥ 0.744 (large) at preference 0.50;"
        " expected quality 0.700 direct, 0.850 few-shot"
    )
    assert "0.744 (large) < 0.812" in str(sentence("explored", **learnt | {"chosen": 1}))
    assert sentence("learned", **learnt | {"chosen": -1}) is None, "another engine stood in"


def test_exploration_beside_the_rule_shows_the_rule_and_how_likely_it_was() -> None:
    said = sentence("explored", settings=SETTINGS | {"picked": 1.0}, probability=0.007)
    assert said == "0.934 ≥ least similarity 0.77; 1 of 1 needed; drawn with propensity 0.007"


@pytest.mark.parametrize("reason", ["fixed", "forced", "cache_hit", "no_embedding"])
def test_nothing_is_said_where_nothing_was_compared(reason: str) -> None:
    assert sentence(reason) is None and rule(None, reason) is None


async def test_a_request_shows_the_rule_in_few_shot_and_in_context(tmp_path: Path) -> None:
    for policy in ("in_context", "few_shot"):
        models = {
            "gpt-4o": {
                "engines": ["small", "large"],
                "policy": policy,
                "proof": "off",
                "few_shot": {"theta": 0.8, "m": 1},
                "advanced": {"epsilon": 0, "key_share": 0, "scorer_deadline_ms": 10_000}
                if policy == "in_context"
                else {},
            }
        }
        async with house(tmp_path / policy, models=models) as here:
            first, second = await here.ask(QUESTION), await here.ask(ALIKE)
            viewer = await here.site.person("viewer")
            told = (await viewer.get(f"/requests/{second}.json")).json
            similarity = told["candidates"][0]["similarity"]
            said = f"{similarity:.3f} ≥ least similarity 0.8; 1 of 1 needed"
            assert told["rule"]["sentence"] == said and told["reason"] == "familiar"
            assert said in (await viewer.get(f"/requests/{second}")).text
            novel = (await viewer.get(f"/requests/{first}.json")).json
            assert (
                novel["rule"]["sentence"]
                == "no past request to compare with, least similarity 0.8; 0 of 1 needed"
            )
