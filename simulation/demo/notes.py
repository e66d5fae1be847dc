"""What real models are asked in the demo: questions of the invented world, with notes that hold the answers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from simulation.stream import Ask
from simulation.world import World

FACTS = 28
"""In the notes: a few hundred tokens, which every request begins with, so that a server reads them once."""


def notes(world: World) -> dict[str, str]:
    """The first facts of the world, as a system message."""
    told = [f"- {fact.relation.nouns[0]} of {fact.entity}: {fact.value}" for fact in world.facts[:FACTS]]
    return {
        "role": "system",
        "content": "\n".join(["Answer in one short sentence, from these notes where they tell:", *told]),
    }


def with_notes(world: World, asks: Sequence[Ask]) -> list[Ask]:
    """Those of the requests that ask for nothing beyond the notes, with them in place of other instructions."""
    told, known = notes(world), {fact.id for fact in world.facts[:FACTS]}
    return [
        replace(ask, messages=(told, *[turn for turn in ask.messages if turn["role"] != "system"]))
        for ask in asks
        if known.issuperset(fact.id for fact in ask.facts)
    ]
