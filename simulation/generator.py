"""The fourth simulated role, a generator: writes variations of a request about the simulated world, some of them useless.

It reads prompts of one format: a request between lines `<<<REQUEST code>>>` and `<<<END REQUEST code>>>`, the code told in
the system message, and answers with lines `VARIATION code: text`. learning.replay.expand writes such prompts and
documents the same format; neither imports the other.

What it writes: the same fact asked in other words, or another fact about the same name. Stated and not fitted to anything:
how often it wanders off to another subject, and how often it merely repeats the request.
"""

from __future__ import annotations

import random
import re
from dataclasses import dataclass

from simulation.phrasing import Habits, core
from simulation.prompt import coded_prompt
from simulation.reading import Messages
from simulation.topics import Fact
from simulation.world import World, seeded

_FORM = re.compile(r"VARIATION ([0-9a-f]{16}): ")
_COUNT = re.compile(r"\bWrite (\d+) variations")
_NOT_A_REQUEST = (
    "This is a simulated generator: it only varies a request about the simulated world, in a prompt with the request "
    "between markers, and finds none here."
)


@dataclass(frozen=True, slots=True)
class Wandering:
    """How often a variation is of no use; probabilities."""

    repeats: float = 0.05
    """The request to the letter."""
    drifts: float = 0.05
    """A question about something else altogether."""
    other_words: float = 0.5
    """Of the rest, those that ask the same fact in other words; the others ask another fact about the same name."""


def variations(
    world: World, seed: int, messages: Messages, choice: int = 0, wandering: Wandering | None = None
) -> str:
    """The whole text of one reply. Pure: it hangs on (seed, request, number wanted, choice), not on the code."""
    prompt = coded_prompt(messages, _FORM)
    request = prompt.part("REQUEST") if prompt else None
    if prompt is None or request is None:
        return _NOT_A_REQUEST
    wanted = _COUNT.search(prompt.told)
    count = min(20, int(wanted[1])) if wanted else 1
    facts = world.read(request).facts
    rng = seeded("generator", seed, choice, count, request)
    lines = [_one(world, rng, request, facts, wandering or Wandering()) for _ in range(count)]
    return "\n".join(f"VARIATION {prompt.code}: {line}" for line in lines)


def _one(world: World, rng: random.Random, request: str, facts: tuple[Fact, ...], odds: Wandering) -> str:
    at = rng.random()
    if at < odds.repeats or not facts:
        return " ".join(request.split())
    if at < odds.repeats + odds.drifts:
        return core(rng, (rng.choice(world.facts),), Habits())
    fact = facts[0]
    others = [f for f in world.facts if f.entity == fact.entity and f not in facts]
    if rng.random() < odds.other_words or not others:
        return core(rng, (fact,), Habits())
    return core(rng, (rng.choice(others),), Habits())
