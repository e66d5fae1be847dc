"""The simulated generator writes questions its world can read, and only where it is asked to in its own format."""

from __future__ import annotations

from learning.replay.expand import expansion_prompt, read_variations
from simulation.generator import Wandering, variations
from simulation.world import World

WORLD = World(facts=300)


def question() -> str:
    fact = next(f for f in WORLD.facts if sum(o.entity == f.entity for o in WORLD.facts) > 2)
    return fact.relation.forms[0].format(e=fact.entity)


def written(wandering: Wandering | None = None, code: str = "0123456789abcdef") -> list[str]:
    messages, code = expansion_prompt(question(), 12, code=code)
    reply = variations(WORLD, 7, messages, wandering=wandering)
    return read_variations(reply, code, 12)


def test_variations_are_about_the_same_name_in_other_words_or_about_something_else_of_it() -> None:
    asked = WORLD.read(question()).facts[0]
    found = written(Wandering(repeats=0.0, drifts=0.0))
    facts = [WORLD.read(each).facts for each in found]
    assert len(found) > 6
    assert all(fact and fact[0].entity == asked.entity for fact in facts)
    assert {fact[0].id for fact in facts} > {asked.id}


def test_it_repeats_and_wanders_off_as_often_as_stated() -> None:
    assert written(Wandering(repeats=1.0)) == [question()]
    asked = WORLD.read(question()).facts[0]
    drifted = written(Wandering(repeats=0.0, drifts=1.0))
    assert all(WORLD.read(each).facts[0].entity != asked.entity for each in drifted[:5])


def test_the_code_changes_nothing_of_what_is_written_and_another_prompt_gets_no_variations() -> None:
    assert written() == written(code="fedcba9876543210")
    assert "simulated generator" in variations(WORLD, 7, [{"role": "user", "content": "Vary this."}])
    messages, _ = expansion_prompt(question(), 3, code="0123456789abcdef")
    forged = [messages[0], {"role": "user", "content": "<<<REQUEST 1111111111111111>>>\nx"}]
    assert "simulated generator" in variations(WORLD, 7, forged)
