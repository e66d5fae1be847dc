"""How small engines are asked in the background, and what policies make of a proof."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from router.embedding.embedder import EmbedderLate
from router.plan import Ask, Plan
from router.policies.few_shot import FewShot
from router.policies.late import AT_ONCE
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
        self.vectors: list[Any] = []
        self.whole = False

    def proof(self, tenant: str, scope: str, vector: Any, examples: Any, bank: int, *, unit: float) -> Proof:
        self.examples.append(len(examples))
        self.vectors.append(vector)
        standings = [Standing(action, action in self.opened, 0, 1, 0, None) for action in (HELPED, ALONE)]
        return Proof("r", tuple(standings), 1.0, scope, wished=(HELPED, ALONE) if examples else (ALONE,))

    def whole_is_open(self, tenant: str, scope: str) -> bool:
        return self.whole


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


class LateEmbedder(GivenEmbedder):
    """Late for every client, and there later."""

    async def embed(self, text: str) -> Any:
        raise EmbedderLate("late")

    async def embed_later(self, text: str) -> Any:
        return await GivenEmbedder.embed(self, text)


class GuessingEmbedder(LateEmbedder):
    """Guesses each text's embedding."""

    def guessed(self, text: str) -> Any:
        return np.array([0.0, 1.0, 0.0, 0.0], np.float32)


@pytest.mark.parametrize(("whole", "forced"), [(True, False), (False, False), (True, True)])
async def test_what_is_proven_for_all_requests_is_decided_by_a_guess_of_the_embedding(
    threads: ThreadPoolExecutor, whole: bool, forced: bool
) -> None:
    gate: Any = GivenGate(HELPED)
    gate.whole = whole
    knobs = few_shot_knobs(retrieve_deadline_s=30.0)
    near: Any = GivenNeighbours(0.95, 0.5)
    policy = FewShot(("small", "large"), GuessingEmbedder(), near, threads, knobs, gate=gate)  # type: ignore[arg-type]
    plan = await policy.decide(Ask(chat(), "t", forced=forced))
    assert plan.bypassed == ("embed:EmbedderLate",)
    if whole and not forced:
        assert (plan.attempts[0].engine, plan.reason, plan.late) == ("small", "proven", None)
        assert len(plan.attempts[0].examples) == 2 and plan.proof is not None
        assert plan.vector is None and gate.vectors == [None], "a guess is neither kept nor ranked by"
    else:
        assert (plan.attempts[0].engine, plan.reason) == ("large", "no_embedding")


async def test_an_embedder_without_a_guess_leaves_the_request_with_the_reference(
    threads: ThreadPoolExecutor,
) -> None:
    class NoGuess(LateEmbedder):
        def guessed(self, text: str) -> Any:
            return None

    gate: Any = GivenGate(HELPED)
    gate.whole = True
    policy = FewShot(("small", "large"), NoGuess(), GivenNeighbours(), threads, few_shot_knobs(), gate=gate)  # type: ignore[arg-type]
    plan = await policy.decide(Ask(chat(), "t"))
    assert (plan.attempts[0].engine, plan.reason) == ("large", "no_embedding") and plan.late is not None


class SlowNeighbours(GivenNeighbours):
    """Finds its neighbours once it is let go on."""

    def __init__(self, *similarities: float) -> None:
        super().__init__(*similarities)
        self.let_go_on = threading.Event()

    def nearest(self, *args: Any) -> Any:
        assert self.let_go_on.wait(60)
        return super().nearest(*args)


@pytest.mark.parametrize("late", ["embedding", "neighbours"])
async def test_a_decision_that_was_late_for_its_client_is_compared_by_all_the_same(
    threads: ThreadPoolExecutor, late: str
) -> None:
    embedder = LateEmbedder() if late == "embedding" else GivenEmbedder()
    near = SlowNeighbours(0.95, 0.5) if late == "neighbours" else GivenNeighbours(0.95, 0.5)
    knobs = few_shot_knobs(retrieve_deadline_s=0.01 if late == "neighbours" else 30.0)
    gate: Any = GivenGate(HELPED)
    policy = FewShot(("small", "large"), embedder, near, threads, knobs, gate=gate)  # type: ignore[arg-type]
    plan = await policy.decide(Ask(chat(), "t"))
    assert plan.attempts[0].engine == "large" and plan.shadow == () and plan.late is not None
    if isinstance(near, SlowNeighbours):
        near.let_go_on.set()
    await plan.late
    found = plan.with_late()
    assert (found.attempts, found.reason, found.late) == (plan.attempts, plan.reason, None)
    assert [way.engine for way in found.shadow] == ["small", "small"] and found.proof is not None
    assert found.vector is not None and len(found.neighbours) == 2


async def test_what_is_not_known_at_the_end_of_the_answer_is_let_go(threads: ThreadPoolExecutor) -> None:
    class Never(LateEmbedder):
        async def embed_later(self, text: str) -> Any:
            await asyncio.Event().wait()

    gate: Any = GivenGate()
    policy = FewShot(("small", "large"), Never(), GivenNeighbours(), threads, few_shot_knobs(), gate=gate)  # type: ignore[arg-type]
    plans = [await policy.decide(Ask(chat(), "t")) for _ in range(AT_ONCE + 1)]
    going_on = [plan.late for plan in plans if plan.late is not None]
    assert len(going_on) == AT_ONCE, "a busy machine is not made busier"
    assert all(plan.with_late().proof is None for plan in plans)
    await asyncio.wait(going_on)
    assert all(task.cancelled() for task in going_on)
    forced = await policy.decide(Ask(chat(), "t", forced=True))
    assert forced.late is None, "nothing is compared for it"
