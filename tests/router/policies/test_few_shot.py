"""The few-shot policy's decisions, on vectors given by hand: no model, no socket."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from engines.chat import ChatRequest
from router.embedding.retriever import Retriever
from router.plan import Ask, Candidate, Plan
from router.policies.few_shot import FewShot
from router.policies.fixed import Fixed
from router.prompt import with_examples
from store.records import Example, Vector
from tests.knobs import few_shot_knobs


class GivenEmbedder:
    """Vectors are not the point here: every text gets the same one, or the given failure."""

    def __init__(self, failure: Exception | None = None) -> None:
        self.failure = failure

    async def embed(self, text: str) -> Vector:
        if self.failure is not None:
            raise self.failure
        return np.ones(4, np.float32) / 2


class GivenNeighbours:
    """Candidates at the given similarities, best first."""

    def __init__(
        self, *similarities: float, failure: Exception | None = None, words: int = 1, merged: int = 0
    ) -> None:
        self.similarities = similarities
        self.failure = failure
        self.words = words
        self.merged = merged

    def at_once(self, tenant: str, scope: str) -> bool:
        return tenant == "at once"

    def size(self, tenant: str) -> int:
        return len(self.similarities)

    def nearest(self, tenant: str, scope: str, vector: Vector, comparable: object) -> list[Candidate]:
        if self.failure is not None:
            raise self.failure
        return [
            Candidate(example(i, self.words)._replace(merged=self.merged), s)
            for i, s in enumerate(self.similarities)
        ]


def example(number: int, words: int = 1, scope: str = "s") -> Example:
    return Example(
        number, number, "t", scope, f"question {number} " * words, f"answer {number}", "large", 0.0
    )


def chat(text: str = "Q?", **fields: Any) -> ChatRequest:
    return ChatRequest(
        b"", fields, "m", [{"role": "user", "content": text}], stream=False, include_usage=False
    )


@pytest.fixture
def threads() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(1) as executor:
        yield executor


async def decide(
    threads: ThreadPoolExecutor,
    near: GivenNeighbours,
    ask: Ask | None = None,
    context_tokens: int | None = None,
    **knobs: Any,
) -> Plan:
    engines, embedder = ("small", "large"), GivenEmbedder()
    # A deadline of its own default is missed now and then where the machine is busy.
    patient = few_shot_knobs(**({"retrieve_deadline_s": 30.0} | knobs))
    policy = FewShot(engines, embedder, near, threads, patient, context_tokens=lambda: context_tokens)
    return await policy.decide(ask or Ask(chat(), "t"))


def chosen(plan: Plan) -> list[int]:
    return [c.example.id for c in plan.attempts[0].examples]


async def test_m_neighbours_within_theta_make_it_familiar(threads: ThreadPoolExecutor) -> None:
    plan = await decide(threads, GivenNeighbours(0.95, 0.9, 0.8, 0.79), theta=0.8, m=3)
    assert (plan.attempts[0].engine, plan.reason) == ("small", "familiar")
    assert chosen(plan) == [2, 1, 0], "the nearest stands next to the question"
    assert plan.attempts[1].engine == "large" and plan.attempts[1].messages is None


async def test_fewer_than_m_make_it_novel(threads: ThreadPoolExecutor) -> None:
    plan = await decide(threads, GivenNeighbours(0.95, 0.9, 0.79), theta=0.8, m=3)
    assert (plan.attempts[0].engine, plan.reason) == ("large", "novel")
    assert plan.vector is not None and len(plan.neighbours) == 3


async def test_an_example_that_twins_were_merged_into_counts_for_all_of_them(
    threads: ThreadPoolExecutor,
) -> None:
    near = GivenNeighbours(0.95, merged=2)
    assert (await decide(threads, near, m=3)).reason == "familiar"
    assert (await decide(threads, near, m=4)).reason == "novel"


async def test_the_plan_says_by_which_settings_and_what_counted_as_near(threads: ThreadPoolExecutor) -> None:
    plan = await decide(threads, GivenNeighbours(0.95, 0.9, 0.79, merged=1), theta=0.8, m=4, max_examples=2)
    assert plan.settings == {"theta": 0.8, "m": 4.0, "max_examples": 2.0, "by_proof": 0.0}
    assert plan.familiar == {0: 2, 1: 2} and plan.reason == "familiar"


async def test_what_takes_no_longer_than_a_change_of_threads_is_looked_up_without_one(
    threads: ThreadPoolExecutor,
) -> None:
    threads.shutdown()
    near = GivenNeighbours(0.95, 0.9)
    assert (await decide(threads, near, Ask(chat(), "at once"), m=1)).reason == "familiar"
    assert (await decide(threads, near, m=1)).bypassed == ("nearest:RuntimeError",)


async def test_a_tenant_may_have_settings_of_its_own(threads: ThreadPoolExecutor) -> None:
    knobs = few_shot_knobs(theta=0.8, m=1, retrieve_deadline_s=30.0)
    policy = FewShot(("small", "large"), GivenEmbedder(), GivenNeighbours(0.9), threads, knobs)
    policy.knobs_of = {"strict": replace(knobs, m=2)}
    assert (await policy.decide(Ask(chat(), "strict"))).reason == "novel"
    assert (await policy.decide(Ask(chat(), "t"))).reason == "familiar"


async def test_a_look_alike_is_no_neighbour_where_names_must_be_the_same(threads: ThreadPoolExecutor) -> None:
    near = GivenNeighbours(0.99, 0.95)
    same, other = Ask(chat("Now what is question 1 ?"), "t"), Ask(chat("Now what is question 7 ?"), "t")
    assert chosen(await decide(threads, near, same, m=1, same_names=True)) == [1]
    assert (await decide(threads, near, other, m=1, same_names=True)).reason == "novel"
    assert (await decide(threads, near, other, m=1)).reason == "familiar"


async def test_examples_stop_at_their_number_and_their_tokens(threads: ThreadPoolExecutor) -> None:
    near = GivenNeighbours(0.99, 0.98, 0.97, 0.96)
    assert len(chosen(await decide(threads, near, m=1, max_examples=2))) == 2
    assert len(chosen(await decide(threads, near, m=1, max_example_tokens=30))) == 2
    assert len(chosen(await decide(threads, near, Ask(chat(), "t", max_examples=1), m=1))) == 1


async def test_examples_must_fit_the_small_engines_context_window(threads: ThreadPoolExecutor) -> None:
    near = GivenNeighbours(0.99, 0.98)
    asked = Ask(chat(max_tokens=100), "t")
    assert len(chosen(await decide(threads, near, asked, m=1, context_tokens=140))) == 2
    assert len(chosen(await decide(threads, near, asked, m=1, context_tokens=125))) == 1
    plan = await decide(threads, near, asked, m=1, context_tokens=100)
    assert (plan.attempts[0].engine, plan.reason) == ("large", "no_example_fits")


async def test_when_no_example_fits_the_large_engine_answers(threads: ThreadPoolExecutor) -> None:
    plan = await decide(threads, GivenNeighbours(0.99, words=500), m=1, max_example_tokens=100)
    assert (plan.attempts[0].engine, plan.reason) == ("large", "no_example_fits")


async def test_a_failing_embedder_is_gone_without(threads: ThreadPoolExecutor) -> None:
    policy = FewShot(
        ("small", "large"), GivenEmbedder(RuntimeError()), GivenNeighbours(1.0), threads, few_shot_knobs(m=1)
    )
    plan = await policy.decide(Ask(chat(), "t"))
    assert plan.attempts[0].engine == "large" and plan.bypassed == ("embed:RuntimeError",)


async def test_a_failing_index_is_gone_without(threads: ThreadPoolExecutor) -> None:
    plan = await decide(threads, GivenNeighbours(failure=OSError()), m=1)
    assert plan.attempts[0].engine == "large" and plan.bypassed == ("nearest:OSError",)
    assert plan.vector is not None, "the embedding is kept: the answer will be remembered with it"


async def test_a_client_that_leaves_is_not_mistaken_for_a_failure(threads: ThreadPoolExecutor) -> None:
    policy = FewShot(
        ("small", "large"),
        GivenEmbedder(asyncio.CancelledError()),
        GivenNeighbours(),
        threads,
        few_shot_knobs(),
    )  # type: ignore[arg-type]
    with pytest.raises(asyncio.CancelledError):
        await policy.decide(Ask(chat(), "t"))


@pytest.mark.parametrize(
    ("ask", "reason"),
    [
        (Ask(chat(tools=[{}]), "t"), "tools"),
        (Ask(chat(""), "t"), "no_question"),
        (
            Ask(ChatRequest(b"", {}, "m", [{"role": "tool"}], stream=False, include_usage=False), "t"),
            "not_plain_text",
        ),
    ],
)
async def test_what_has_no_plain_question_goes_to_the_large_engine(
    threads: ThreadPoolExecutor, ask: Ask, reason: str
) -> None:
    plan = await decide(threads, GivenNeighbours(1.0, 1.0, 1.0), ask, m=1)
    assert (plan.attempts[0].engine, plan.reason) == ("large", reason)


async def test_fixed_asks_its_first_engine_and_keeps_the_others_as_stand_ins() -> None:
    plan = await Fixed(("large", "small")).decide(Ask(chat(), "t"))
    assert [a.engine for a in plan.attempts] == ["large", "small"] and plan.probability == 1


def test_examples_stand_between_system_prompt_and_conversation() -> None:
    system, developer = {"role": "system", "content": "S"}, {"role": "developer", "content": "D"}
    talk = [
        {"role": "user", "content": "a"},
        {"role": "assistant", "content": "b"},
        {"role": "user", "content": "c"},
    ]
    built = with_examples([system, developer, *talk], [Candidate(example(1), 0.9)])
    assert built[:2] == [system, developer] and built[4:] == talk
    assert [m["role"] for m in built[2:4]] == ["user", "assistant"]


class GivenIndex:
    def nearest(self, tenant: str, vector: Vector, k: int) -> list[tuple[int, float]]:
        return [(1, 0.9), (2, 0.8), (3, 0.7)][:k]


class GivenBank:
    def by_ids(self, tenant: str, ids: Any) -> list[Example]:
        return [example(i, scope="mine" if i != 2 else "other") for i in ids if i != 3]


def test_the_retriever_keeps_to_the_scope_and_survives_rows_that_are_gone() -> None:
    found = Retriever(GivenIndex(), GivenBank(), neighbours=10).nearest("t", "mine", np.ones(4, np.float32))
    assert [(c.example.id, c.similarity) for c in found] == [(1, 0.9)]


def test_the_retriever_reads_no_more_rows_than_it_needs() -> None:
    class ManyNear:
        def nearest(self, tenant: str, vector: Vector, k: int) -> list[tuple[int, float]]:
            return [(i, 1 - i / 100) for i in range(100, 100 + k)]

    class CountingBank:
        read = 0

        def by_ids(self, tenant: str, ids: Any) -> list[Example]:
            self.read += len(ids)
            return [example(i) for i in ids]

    bank = CountingBank()
    found = Retriever(ManyNear(), bank, neighbours=64, enough=5).nearest("t", "s", np.ones(4, np.float32))
    assert len(found) >= 5 and bank.read < 20
    bank.read = 0
    assert not Retriever(ManyNear(), bank, neighbours=64, floor=0.5).nearest("t", "s", np.ones(4, np.float32))
    assert bank.read == 0, "all are below the floor"
