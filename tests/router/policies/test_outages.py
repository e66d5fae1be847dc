"""Who answers while engines are down: every policy, every outage, of three engines."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from engines.engine import EngineLoad
from router.choosing.chooser import Chooser
from router.choosing.exploration_budget import ExplorationBudget
from router.plan import Action, Plan, Policy
from router.policies.few_shot import FewShot
from router.policies.fixed import Fixed
from router.policies.in_context import InContext, LearnedModels
from router.policies.neural_cache import NeuralCache
from tests.knobs import chooser_knobs, few_shot_knobs, in_context_knobs
from tests.router.policies import test_few_shot as by_rule
from tests.router.policies.test_in_context import (
    Engine,
    GivenBandit,
    GivenEmbedder,
    GivenNeighbours,
    GivenScorer,
    asked,
)
from tests.router.policies.test_proven import GivenGate

ENGINES = ("small", "middle", "large")
OUTAGES = [down for count in range(3) for down in itertools.combinations(ENGINES, count)]
NEAR, FAR = (0.95, 0.94, 0.93), ()
Made = Callable[[tuple[str, ...], ThreadPoolExecutor], Policy]


@pytest.fixture
def threads() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(1) as executor:
        yield executor


def fixed() -> Made:
    return lambda down, threads: Fixed(tuple(reversed(ENGINES)))


def few_shot(near: tuple[float, ...], *opened: Action, proof: bool = False) -> Made:
    gate: Any = GivenGate(*opened) if proof else None
    knobs = few_shot_knobs(m=1, retrieve_deadline_s=30.0)
    return lambda down, threads: FewShot(
        ENGINES, by_rule.GivenEmbedder(), by_rule.GivenNeighbours(*near), threads, knobs, gate=gate
    )


def in_context(
    near: tuple[float, ...],
    *opened: Action,
    proof: bool = False,
    bandit: dict[str, float] | None = None,
    cap: float = 1.0,
    preference: float = 0.5,
) -> Made:
    """`cap`: share of requests that a quality floor leaves to other engines than the reference."""
    gate: Any = GivenGate(*opened) if proof else None
    learned = LearnedModels(
        scorer=GivenScorer(), bandit=GivenBandit(bandit) if bandit else None, offload_cap=cap
    )
    knobs = in_context_knobs(
        least_probability=0.0, label_share=0.0, counts=None, m=1, deadline_s=20.0, preference=preference
    )
    return lambda down, threads: InContext(
        [Engine(name, EngineLoad(open=name not in down)) for name in ENGINES],
        GivenEmbedder(),
        GivenNeighbours(near),
        lambda tenant: learned,
        Chooser(chooser_knobs(least_probability=0.0, gamma_scale=1e6)),
        ExplorationBudget(1.0),
        threads,
        knobs,
        rng=random.Random(1),
        gate=gate,
    )


def checked(inner: Made) -> Made:
    """A task's student would answer: the teacher is asked to check it."""

    def made(down: tuple[str, ...], threads: ThreadPoolExecutor) -> Policy:
        cache = NeuralCache(inner(down, threads), ENGINES, *[None] * 5)  # type: ignore[arg-type]

        class Checking:
            name = "checking"

            async def decide(self, ask: Any) -> Plan:
                plan = await cache.inner.decide(ask)
                return by_rule.replace(plan, attempts=cache._teacher_first(plan), choice=None)

        return Checking()

    return made


WELL = {"small": 0.9, "middle": 0.2, "large": 1.0}
PROVEN = Action("small", False)

REFERENCE_ANSWERS = {
    "fixed": fixed(),
    "few_shot, a novel request": few_shot(FAR),
    "few_shot, nothing proven": few_shot(NEAR, proof=True),
    "in_context by rule, a novel request": in_context(FAR),
    "in_context by rule, nothing proven": in_context(NEAR, proof=True),
    "in_context by rule, a novel request under a floor": in_context(FAR, cap=0.05),
    "in_context by rule, a familiar request under a closed floor": in_context(NEAR, cap=0.0),
    "in_context by a bandit, for quality": in_context(NEAR, bandit=WELL, preference=1.0),
    "in_context by a bandit, nothing proven": in_context(NEAR, proof=True, bandit=WELL),
    "in_context by a bandit, under a closed floor": in_context(NEAR, bandit=WELL, cap=0.0),
    "a check of a student": checked(few_shot(NEAR)),
    "a check of a student, above in_context": checked(in_context(NEAR)),
}
SMALL_ANSWERS = {
    "few_shot, a familiar request": few_shot(NEAR),
    "few_shot, proven": few_shot(NEAR, PROVEN, proof=True),
    "in_context by rule, a familiar request": in_context(NEAR),
    "in_context by rule, proven": in_context(NEAR, PROVEN, proof=True),
    "in_context by a bandit": in_context(NEAR, bandit=WELL, preference=0.3),
    "in_context by a bandit, proven": in_context(NEAR, PROVEN, proof=True, bandit=WELL, preference=0.0),
}


async def answered(made: Made, down: tuple[str, ...], threads: ThreadPoolExecutor) -> tuple[str, Plan]:
    """Who answers: the first of the plan that works."""
    plan = await made(down, threads).decide(asked())
    assert {each.engine for each in plan.attempts} == set(ENGINES)
    return next(each.engine for each in plan.attempts if each.engine not in down), plan


@pytest.mark.parametrize("down", OUTAGES, ids="+".join)
@pytest.mark.parametrize("policy", REFERENCE_ANSWERS)
async def test_for_the_reference_the_largest_engine_that_works_stands_in(
    policy: str, down: tuple[str, ...], threads: ThreadPoolExecutor
) -> None:
    engine, plan = await answered(REFERENCE_ANSWERS[policy], down, threads)
    assert engine == [name for name in ENGINES if name not in down][-1]
    if "large" in down and plan.choice is not None:
        by_plan = plan.attempts[0].engine == "large"
        assert by_plan or plan.choice.instead_of == "large", "the client is told"


@pytest.mark.parametrize("down", OUTAGES, ids="+".join)
@pytest.mark.parametrize("policy", SMALL_ANSWERS)
async def test_for_a_small_engine_that_was_to_answer_the_reference_stands_in_then_the_next_largest(
    policy: str, down: tuple[str, ...], threads: ThreadPoolExecutor
) -> None:
    engine, _ = await answered(SMALL_ANSWERS[policy], down, threads)
    working = [name for name in ENGINES if name not in down]
    assert engine == ("small" if "small" in working else working[-1])


@pytest.mark.parametrize("bandit", [None, WELL], ids=["rule", "bandit"])
async def test_the_floor_gives_small_engines_no_more_while_the_reference_is_down(
    bandit: dict[str, float] | None, threads: ThreadPoolExecutor
) -> None:
    made = in_context(NEAR, bandit=bandit, cap=0.05, preference=0.0)
    plan = await made(("large",), threads).decide(asked())
    assert plan.choice is not None
    by = dict.fromkeys(ENGINES, 0.0)
    for each in plan.choice.weighed:
        by[each.action.engine] += each.probability
    assert by == pytest.approx({"small": 0.05, "middle": 0.95, "large": 0.0})
