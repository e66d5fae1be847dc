"""What came of a step moves those near it, up or down, and no other; a run that goes on goes on in the same order."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from learning.replay.order import Order
from learning.replay.run import AsPlanned
from store.jobs.replay_records import NewStep, ReplayStep
from tests.learning.replay.bank import TENANT, WORLD, bank_of, facts, pair, right
from tests.patience import PATIENCE_S


async def test_neighbours_of_a_bettered_answer_come_next_and_those_of_a_good_one_last(tmp_path: Path) -> None:
    first, second, third = facts(3)
    # Each asked twice in other words.
    pairs = [(f, right(f)) for f in (first, second, third)]
    async with bank_of(tmp_path, pairs) as (made, examples):
        store = made.store
        from router.embedding.embedder import Embedder
        from tests.flow.line import MODELS

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
        order = Order(store, steps)
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
        again = Order(
            store, [replace(one, state="done", result="replaced"), *(s for s in steps if s.id != one.id)]
        )
        next_ = again.take()
        assert next_ is not None
        assert next_.plan.example_id == others[0].id, "what came of it before a kill counts"
        assert order.take() is None


def test_as_planned_is_as_planned() -> None:
    steps = [planned(n, n + 1, gain=float(n)) for n in range(3)]
    order = AsPlanned([replace(steps[0], state="done"), *steps[1:]])
    assert len(order) == 2
    assert [order.take(), order.take(), order.take()] == [steps[1], steps[2], None]


def planned(number: int, example_id: int, *, gain: float) -> ReplayStep:
    plan = NewStep(TENANT, "distil", example_id, gain, 0.0, 0.5 * gain, 0.01, 100, 1.0)
    return ReplayStep(number + 1, 1, number, plan, "planned", "", "{}", 0.0)
