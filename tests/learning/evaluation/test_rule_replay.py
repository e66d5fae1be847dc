"""The rule replayed at another theta and m: whom it asks follows, what was never offloaded is not known."""

from __future__ import annotations

from typing import Any

import pytest

from learning.evaluation.rule_replay import FEWEST, RuleReplay
from store.decisions.outcomes import Experience
from tests.store.rows import choice_record, outcome_record

SETTINGS = {"theta": 0.8, "m": 2.0, "max_examples": 5.0, "by_proof": 0.0}


def decided(number: int, *similarities: float, judged: float | None = None, **changes: Any) -> Experience:
    """A request that the rule decided at theta 0.8 and m 2; `judged`: of the small engine's answer, served or compared."""
    small = len(similarities) >= SETTINGS["m"]
    taken = ("small", True) if small else ("large", False)
    ways = (("small", False), ("small", True), ("large", False))
    actions = tuple(
        {"engine": way[0], "with_examples": way[1], "probability": float(way == taken)} for way in ways
    )
    fields: dict[str, Any] = {
        "policy": "few_shot",
        "engine": taken[0],
        "actions": actions,
        "chosen": -1,
        "candidates": tuple(
            {"id": n, "similarity": each, "sent": small, "counts": 1} for n, each in enumerate(similarities)
        ),
        "cost_usd": 0.001 if small else 0.01,
        "settings": SETTINGS,
    }
    outcomes = ()
    if judged is not None:
        outcomes = (
            outcome_record(
                number, engine="small", source="judge", served=small, quality=judged, probability=0.5
            ),
        )
    return Experience(number, choice_record(number, **(fields | changes)), outcomes)


def test_the_rule_in_force_gives_what_was_done() -> None:
    found = RuleReplay([decided(n, *(0.9, 0.85)[: 2 * (n % 2)], judged=1.0) for n in range(40)])
    effect = found.effect()
    assert effect.offloaded.value == found.offloaded() == 0.5
    assert effect.offloaded.low < 0.5 < effect.offloaded.high
    assert effect.quality is not None and effect.quality.value == 1.0 and effect.quality.low < 1.0
    assert effect.cost_usd is not None and effect.cost_usd.value == pytest.approx(found.cost_usd())
    assert effect.never_offloaded == effect.not_known == 0.0


def test_a_stricter_rule_gives_back_what_is_known() -> None:
    near = [(0.95, 0.93), (0.85, 0.83)]
    found = RuleReplay([decided(n, *near[n % 2], judged=float(n % 2 == 0)) for n in range(60)])
    effect = found.effect(theta=0.9)
    assert effect.offloaded.value == 0.5 and effect.offloaded_quality is not None
    assert effect.offloaded_quality.value == 1.0, "only those that it would still offload are counted"
    assert found.effect().offloaded_quality.value == pytest.approx(0.5)
    assert effect.cost_usd is None, "no answer of the large engine is in the log"


def test_a_looser_rule_is_not_known_unless_comparisons_asked_the_small_engine() -> None:
    rows = [decided(n, 0.9, 0.85, judged=1.0) for n in range(20)] + [decided(n, 0.9) for n in range(20, 40)]
    effect = RuleReplay(rows).effect(m=1)
    assert effect.offloaded.value == 1.0 and effect.never_offloaded == 0.5
    assert effect.quality is None and effect.offloaded_quality is None
    rows[20:] = [decided(n, 0.9, judged=0.0) for n in range(20, 40)]
    compared = RuleReplay(rows).effect(m=1)
    assert compared.quality is not None and compared.quality.value == pytest.approx(0.5)
    assert compared.judged == 40 >= FEWEST


def test_below_the_theta_in_force_the_log_cannot_tell() -> None:
    rows = [decided(n, 0.9, 0.85, judged=1.0) for n in range(20)] + [decided(n) for n in range(20, 40)]
    effect = RuleReplay(rows).effect(theta=0.5)
    assert effect.not_known == 0.5 and effect.quality is None and effect.cost_usd is None
    assert effect.offloaded.low < 0.5 and effect.offloaded.high > 0.9


def test_where_the_list_of_near_ones_was_full_more_may_have_been_near() -> None:
    full = tuple(0.9 for _ in range(10))
    assert RuleReplay([decided(1, *full)]).effect(m=11).not_known == 1.0
    assert RuleReplay([decided(1, *full[:9])]).effect(m=11).not_known == 0.0


def test_what_did_not_fit_and_what_proofs_decided_stays_as_it_was() -> None:
    large = {"engine": "large", "actions": ({"engine": "large", "with_examples": False, "probability": 1.0},)}
    assert RuleReplay([decided(1, 0.9, 0.9, **large)]).effect(m=1).offloaded.value == 0.0
    proven = decided(2, 0.9, settings={**SETTINGS, "by_proof": 1.0})
    replay = RuleReplay([proven])
    assert replay.effect(m=1).offloaded.value == 0.0 and replay.by_proof == 1


def test_rows_that_say_too_little_are_left_out_and_counted() -> None:
    rows = [decided(1, settings={}), decided(2, policy="in_context"), decided(3, 0.9, 0.9, engine="large")]
    found = RuleReplay(rows)
    assert len(found) == 0 and found.left_out == {"earlier release": 2, "other": 1}
    with pytest.raises(ValueError, match="no request"):
        found.effect()
