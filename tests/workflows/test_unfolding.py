"""The same values, errors and effects with any plan, whatever ends first; and what a run grows by."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.workflows.carried import MAX_ITEMS, Carried, Outcome, Reference, barriers
from tests.workflows.definitions import EMBEDDER, RERANKER, answers, definitions, inputs
from workflows.definition import PASSES, Definition
from workflows.graph import Step
from workflows.optimise import optimise
from workflows.plan import Profile, StepPlan
from workflows.unfolding import Unfolding

_SETS = st.sets(st.sampled_from(PASSES)).map(frozenset)


@st.composite
def any_plans(draw: st.DrawFn, definition: Definition) -> Mapping[str, StepPlan]:
    """Plans that no pass has to make: whatever a plan may say, the values are the same."""
    names = list(definition.steps)
    plans = {}
    for name in names:
        before = list(definition.before(name))
        if definition.chained and names.index(name):
            before.append(names[names.index(name) - 1])
        plans[name] = StepPlan(
            order=tuple(dict.fromkeys(each for each in before if draw(st.booleans()))),
            after=tuple({*definition.steps[name].after, *barriers(definition, name)}),
            early_items=draw(st.booleans()),
            stage=draw(st.sampled_from([None, 1, 2])),
            follows=draw(st.booleans()),
        )
    return plans


def check(found: Outcome, expected: Outcome) -> None:
    assert dict(found.steps) == dict(expected.steps)
    assert found == expected
    failing = {
        name
        for name, (state, code) in expected.steps.items()
        if state == "failed" and code != "producer_failed"
    }
    for name, chain in found.chains.items():
        assert chain[0] == name and chain[-1] in failing, (name, chain)


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_every_set_of_passes_gives_the_same_values_errors_and_effects(data: Any) -> None:
    definition = data.draw(definitions())
    given_inputs, world = data.draw(inputs()), data.draw(answers())
    batches = {name: data.draw(st.integers(1, 3)) for name in (EMBEDDER, RERANKER)}
    expected = Reference(definition, world, given_inputs).outcome()
    order = random.Random(data.draw(st.integers(0, 1 << 16)))
    plans = optimise(definition, Profile(batches), data.draw(_SETS)).plans
    carried = Carried(definition, plans, world, given_inputs, order.randrange)
    carried.begin()
    carried.run()
    check(carried.outcome(), expected)


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_a_run_is_taken_up_wherever_its_process_ended(data: Any) -> None:
    definition = data.draw(definitions())
    given_inputs, world = data.draw(inputs()), data.draw(answers())
    expected = Reference(definition, world, given_inputs).outcome()
    order = random.Random(data.draw(st.integers(0, 1 << 16)))
    plans = data.draw(any_plans(definition))
    dead = Carried(definition, plans, world, given_inputs, order.randrange)
    dead.begin()
    again: Counter[str] = Counter()
    for events in data.draw(st.lists(st.integers(0, 40), min_size=1, max_size=3)):
        dead.run(events)
        dead.die()
        alive = Carried(definition, plans, world, given_inputs, order.randrange, dead.effects)
        ended = {id for id, step in dead.progress.graph.steps.items() if stays(dead, step)}
        alive.take_up(dead)
        dead = alive
        again.update(ended & alive.asked.keys())
    dead.run()
    again.update(ended & dead.asked.keys())
    assert not again
    check(without_opaque(dead.outcome(), definition), without_opaque(expected, definition))
    graph = Unfolding("run_1", definition, plans, given_inputs, max_items=MAX_ITEMS).replay(dead.stored())
    made = {step.id: step for step in graph.graph().steps.values()}
    assert made == {id: step for id, step in dead.progress.graph.steps.items() if id not in dead.unstored()}


def stays(carried: Carried, step: Step) -> bool:
    """Whether a step's answer is stored."""
    return set(step.writes.values()) <= carried.stored().keys()


def without_opaque(outcome: Outcome, definition: Definition) -> Outcome:
    kinds = {name: step.kind for name, step in definition.steps.items()}
    steps = {
        name: (state, None if kinds[name] in ("embed", "ingest") and state == "ready" else value)
        for name, (state, value) in outcome.steps.items()
    }
    return replace(outcome, steps=steps)


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_any_plan_gives_the_same(data: Any) -> None:
    definition = data.draw(definitions())
    given_inputs, world = data.draw(inputs()), data.draw(answers())
    expected = Reference(definition, world, given_inputs).outcome()
    order = random.Random(data.draw(st.integers(0, 1 << 16)))
    carried = Carried(definition, data.draw(any_plans(definition)), world, given_inputs, order.randrange)
    carried.begin()
    carried.run()
    check(carried.outcome(), expected)
