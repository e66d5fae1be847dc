"""Questions sorted into kinds: by the lead always rightly, by the understudy mostly."""

from __future__ import annotations

from simulation.minds import reply
from simulation.sorting import OTHER, PROMPT, labels
from simulation.world import World


def test_questions_are_sorted_by_what_they_are_about() -> None:
    world = World(7, 300)
    kinds = sorted({fact.kind for fact in world.facts})
    system = {"role": "system", "content": PROMPT.format(kinds=", ".join([*kinds, OTHER]))}
    assert labels([system]) == (*kinds, OTHER) and labels([{"role": "user", "content": "Sort"}]) == ()
    right = {"lead": 0, "understudy": 0}
    for fact in world.facts[:60]:
        asked = [system, {"role": "user", "content": fact.relation.forms[0].format(e=fact.entity)}]
        for role in right:
            right[role] += reply(world, role, 7, asked) == fact.kind
    assert right["lead"] == 60 and 45 < right["understudy"] < 60
    assert reply(world, "lead", 7, [system, {"role": "user", "content": "Hello there?"}]) == OTHER


def test_a_label_is_graded_as_a_label_and_not_as_the_fact_that_was_asked_for() -> None:
    """The demo's reviewer called every right label bad."""
    world = World(7, 300)
    fact = world.facts[0]
    system = {"role": "system", "content": PROMPT.format(kinds=f"{fact.kind}, {OTHER}")}
    asked = [system, {"role": "user", "content": fact.relation.forms[0].format(e=fact.entity)}]
    assert [world.grade(asked, said) for said in (fact.kind, OTHER, fact.value)] == [1.0, 0.0, 0.0]
