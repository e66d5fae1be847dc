"""A plan spends where gain per cost is highest, never beyond any budget, and expands only where nothing is near."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from learning.replay.plan import (
    THIN_BELOW,
    Candidate,
    Cost,
    Order,
    Way,
    chance,
    chance_of_better,
    effect_per_budget,
    plan,
)
from router.embedding.embedder import Embedder
from store.jobs.replay_records import NewStep, ReplayBudget, ReplayStep
from tests.flow.line import MODELS
from tests.learning.replay.bank import TENANT, WORLD, bank_of, facts, kin, pair, right, wrong
from tests.patience import PATIENCE_S

UNIT = Cost(0.01, 100, 2.0)


def candidate(id: int, gain: float, **changes: object) -> Candidate:
    return replace(Candidate("t", id, gain, Way(UNIT, 0.5), None), **changes)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("one", "kinds"),
    [
        (candidate(1, 0.5), ["distil"]),
        (candidate(1, 0.5, expand=Way(3 * UNIT, 0.5)), ["distil", "expand"]),
        (candidate(1, 0.5, distil=None, expand=Way(3 * UNIT, 0.5)), ["expand"]),
        (candidate(1, 0.0, expand=Way(3 * UNIT, 0.5)), []),
        (candidate(1, 0.5, distil=None), []),
    ],
)
def test_what_is_done_with_an_example(one: Candidate, kinds: list[str]) -> None:
    assert [step.kind for step in one.steps()] == kinds


def test_the_best_gain_per_cost_comes_first_and_a_dear_line_makes_way_for_cheap_ones() -> None:
    dear = candidate(1, 1.0, distil=Way(Cost(0.05, 100, 2.0), 0.5))
    steps = plan(
        [dear, candidate(2, 0.9), candidate(3, 0.3), candidate(4, 0.5)],
        ReplayBudget(usd=0.03),
    )
    assert [step.example_id for step in steps] == [2, 4, 3]
    assert steps[0].expected_effect == pytest.approx(0.45)
    assert effect_per_budget(steps[0], ReplayBudget(usd=0.03)) == pytest.approx(0.45 / (0.01 / 0.03))
    everything = plan([dear, candidate(2, 0.9)], ReplayBudget())
    assert [step.example_id for step in everything] == [2, 1]


def test_what_rarely_comes_to_something_is_worth_less() -> None:
    both = [candidate(1, 0.5), candidate(2, 2.0, distil=None, expand=Way(3 * UNIT, 0.5))]
    assert plan(both, ReplayBudget())[0].kind == "expand"
    both[1] = replace(both[1], expand=Way(3 * UNIT, chance(0, 18)))
    assert plan(both, ReplayBudget())[0].kind == "distil"


def test_the_chance_of_bettering_an_answer_worked_out_by_hand() -> None:
    assert (chance(0, 0), chance(0, 18), chance(9, 10)) == (0.5, 0.05, pytest.approx(10 / 12))
    assert (chance(0, 0, rarely=True), chance(9, 90, rarely=True)) == (0.1, 0.1)
    # Two judgements, 0.0 and 0.5, beside an expectation of 0.3 that counts as two.
    assert chance_of_better(0.3, 0.5, 2) == pytest.approx((0.6 + 1.5) / 4)
    assert chance_of_better(0.3, 0.0, 0) == pytest.approx(0.3)


@given(
    st.lists(
        st.tuples(st.floats(0, 5), st.floats(0.001, 1), st.integers(1, 500), st.floats(0.1, 9)), max_size=30
    ),
    st.floats(0.01, 3),
    st.integers(1, 2000),
    st.floats(0.1, 60),
)
def test_no_budget_is_ever_planned_beyond(
    given_: list[tuple[float, float, int, float]], usd: float, tokens: int, seconds: float
) -> None:
    candidates = [
        candidate(n, gain, distil=Way(Cost(cost, size, time), 0.5))
        for n, (gain, cost, size, time) in enumerate(given_)
    ]
    budget = ReplayBudget(usd, tokens, seconds)
    steps = plan(candidates, budget)
    assert sum(step.expected_usd for step in steps) <= usd + 1e-9
    assert sum(step.expected_tokens for step in steps) <= tokens
    assert sum(step.expected_s for step in steps) <= seconds + 1e-9
    worths = [effect_per_budget(step, budget) for step in steps]
    assert worths == sorted(worths, reverse=True)
    assert all(step.gain > 0 for step in steps)


async def test_an_example_that_stands_alone_is_expanded_too(tmp_path: Path) -> None:
    some = kin(5)
    async with bank_of(tmp_path, [(f, wrong(f)) for f in some], expand=True) as (made, examples):
        found = {c.example_id: c for c in made.planner.candidates(TENANT)}
        assert set(found) == {e.id for e in examples}
        indexes = made.store.indexes
        assert indexes is not None
        vectors = made.store.examples.vectors_of(TENANT, list(found), indexes.version)
        for id, one in found.items():
            near = [s for other, s in indexes.nearest(TENANT, vectors[id], 2) if other != id]
            assert one.distil is not None
            assert (one.expand is not None) == (near[0] < THIN_BELOW)


async def test_what_came_of_replays_before_says_what_to_expect_and_what_to_leave(tmp_path: Path) -> None:
    some = kin(4)
    pairs = [(f, wrong(f) if n < 3 else right(f)) for n, f in enumerate(some)]
    async with bank_of(tmp_path, pairs, samples=1) as (made, examples):
        ways = [c.distil for c in made.planner.candidates(TENANT)]
        assert {way.chance for way in ways if way} == {0.1}, "the engine's own answers"
        made.store.examples.update(TENANT, examples[0].id, contributor="k").result()
        made.store.examples.ledger.note_quality(examples[0].id, 0.0)
        made.store.examples.flush_uses().result()  # type: ignore[union-attr]
        told = {c.example_id: c.distil for c in made.planner.candidates(TENANT)}[examples[0].id]
        assert told is not None
        assert told.chance == pytest.approx((2 * 0.1 + 1) / 3), "somebody said that it was of no use"
        await made.run(ReplayBudget(usd=5.0))
        assert all(c.distil is None for c in made.planner.candidates(TENANT)), "all were replayed lately"
        results = made.jobs.results("distil", TENANT)
        assert results["large", "replaced"] == 3


async def test_neighbours_of_a_bettered_answer_come_next_and_those_of_a_good_one_last(tmp_path: Path) -> None:
    first, second, third = facts(3)
    # Each asked twice in other words.
    pairs = [(f, right(f)) for f in (first, second, third)]
    async with bank_of(tmp_path, pairs) as (made, examples):
        store = made.store
        embedder = Embedder.open("package", MODELS, deadline_ms=60_000)
        others = []
        for fact in (first, second, third):
            asked = fact.relation.forms[-1].format(e=fact.entity) + " Please tell me."
            assert WORLD.read(asked).facts == (fact,)
            others.append(
                store.examples.add(
                    pair(
                        fact,
                        right(fact),
                        embedder,
                        question=asked,
                        embedded_text=asked,
                        vector=embedder.embed_blocking(asked),
                        request_id=f"again {fact.id}",
                    )
                ).result()
            )
        embedder.close()
        assert store.follower is not None
        assert store.follower.wait_for(store.examples.last_seq(), PATIENCE_S)
        ids = [e.id for e in (*examples, *others)]
        steps = [planned(n, id, gain=1.0 - n / 100) for n, id in enumerate(ids)]
        order = made.planner.order(steps)
        assert len(order) == 6
        one = order.take()
        assert one is not None
        assert one.plan.example_id == examples[0].id
        order.came_of(one, "replaced")
        two = order.take()
        assert two is not None
        assert two.plan.example_id == others[0].id, "another answer to the question that was answered wrongly"
        three = order.take()
        assert three is not None
        order.came_of(three, "kept")
        rest = [step.plan.example_id for step in iter(order.take, None)]
        assert rest[-1] == others[1].id, "its like was right"
        again = made.planner.order(
            [replace(one, state="done", result="replaced"), *(s for s in steps if s.id != one.id)]
        )
        next_ = again.take()
        assert next_ is not None
        assert next_.plan.example_id == others[0].id, "what came of it before a kill counts"
        assert order.take() is None


def test_without_similar_examples_the_plan_s_order_holds() -> None:
    steps = [planned(n, n + 1, gain=1.0 - n / 10) for n in range(3)]
    order = Order([replace(steps[0], state="done", result="kept"), *steps[1:]])
    assert len(order) == 2
    assert [order.take(), order.take(), order.take()] == [steps[1], steps[2], None]


def planned(number: int, example_id: int, *, gain: float) -> ReplayStep:
    plan = NewStep(TENANT, "distil", example_id, gain, 0.5 * gain, 0.01, 100, 1.0)
    return ReplayStep(number + 1, 1, number, plan, "planned", "", "{}", 0.0)
