"""How small engines are asked in the background, and what policies make of a proof."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from router.plan import Ask, Plan
from router.policies.few_shot import FewShot
from router.policies.proven import shadow
from router.proving.standing import Action, Proof, Standing
from tests.knobs import few_shot_knobs
from tests.router.policies.test_few_shot import GivenEmbedder, GivenNeighbours, chat

ALONE, HELPED = Action("small", False), Action("small", True)


class GivenGate:
    """Says what it is given to say."""

    def __init__(self, *opened: Action) -> None:
        self.opened = opened
        self.examples: list[int] = []

    def proof(self, tenant: str, scope: str, vector: Any, examples: Any, bank: int) -> Proof:
        self.examples.append(len(examples))
        standings = [Standing(action, action in self.opened, 0, 1, 0, None) for action in (HELPED, ALONE)]
        return Proof("r", tuple(standings), 1.0, scope, wished=(HELPED, ALONE) if examples else (ALONE,))


@pytest.fixture
def threads() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(1) as executor:
        yield executor


async def decided(threads: ThreadPoolExecutor, gate: Any, *similarities: float) -> Plan:
    knobs = few_shot_knobs(retrieve_deadline_s=30.0)
    near = GivenNeighbours(*similarities)
    policy = FewShot(("small", "large"), GivenEmbedder(), near, threads, knobs, gate=gate)  # type: ignore[arg-type]
    return await policy.decide(Ask(chat(), "t"))


async def test_a_familiar_request_stays_with_the_reference_until_the_small_engine_is_proven(
    threads: ThreadPoolExecutor,
) -> None:
    plan = await decided(threads, GivenGate(), 0.95, 0.94, 0.93)
    assert (plan.attempts[0].engine, plan.reason) == ("large", "shadow")
    assert plan.proof is not None


async def test_the_background_asks_the_small_engine_with_and_without_the_examples_it_would_get(
    threads: ThreadPoolExecutor,
) -> None:
    plan = await decided(threads, GivenGate(), 0.95, 0.94, 0.93)
    helped, alone = plan.shadow
    assert len(helped.examples) == 3 and helped.messages is not None and helped.engine == "small"
    assert alone.examples == () and alone.messages is None
    plan = await decided(threads, GivenGate())
    assert [way.examples for way in plan.shadow] == [()]


async def test_a_proven_engine_answers_as_it_was_proven(threads: ThreadPoolExecutor) -> None:
    helped = await decided(threads, GivenGate(HELPED), 0.95)
    assert (helped.attempts[0].engine, helped.reason) == ("small", "proven")
    assert len(helped.attempts[0].examples) == 1, "novelty no longer decides"
    alone = await decided(threads, GivenGate(ALONE), 0.95)
    assert alone.attempts[0].engine == "small" and alone.attempts[0].examples == ()
    assert alone.attempts[1].engine == "large"


async def test_a_gate_that_fails_leaves_the_request_with_the_reference(threads: ThreadPoolExecutor) -> None:
    plan = await decided(threads, object(), 0.95, 0.94, 0.93)
    assert plan.attempts[0].engine == "large" and plan.bypassed == ("nearest:AttributeError",)


def test_without_a_proof_nothing_is_asked_in_the_background() -> None:
    assert shadow(None, object()) == ()  # type: ignore[arg-type]
