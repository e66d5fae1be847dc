"""The answers of the two simulated models: the lead knows every fact, the understudy a quarter, and reads its context.

Pure: (seed, messages, number of the choice) to text, without clock and socket. A model knows only the messages' text.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from engines.chat import message_text
from simulation.oneoffs import OneOff
from simulation.phrasing import with_article
from simulation.reading import Messages, Pair
from simulation.sorting import labels, sorted_as
from simulation.topics import Fact
from simulation.world import World, seeded

Role = Literal["lead", "understudy"]


@dataclass(frozen=True, slots=True)
class Aptitude:
    """How often the understudy is right; probabilities. None was fitted to a policy."""

    knows: float = 0.25
    """Share of the facts that it knows without context."""
    right_when_known: float = 0.97
    right_when_read: float = 0.98
    """If an example in its context holds the fact."""
    lucky: float = 0.02
    """If it neither knows nor reads the fact."""
    rule_after: tuple[float, ...] = (0.02, 0.55, 0.78, 0.88, 0.92)
    """For a rule: by the number of examples of it in the context, the last entry for that many or more."""
    irrelevant: float = 0.95
    """Factor on the odds of a known fact, for each example about something else."""
    irrelevant_when_read: float = 0.985
    """The same factor for a fact that it reads."""
    misleading: float = 0.85
    """Factor on the odds of a known fact, for each example that asks the same of another name: a value to copy by
    mistake."""
    misleading_when_read: float = 0.97
    copies: float = 0.6
    """If wrong, how often it repeats such an example's value instead of inventing one."""
    one_off: float = 0.75
    """Share of one-off requests that it answers rightly."""


TURNED_BAD = Aptitude(right_when_known=0.05, right_when_read=0.05, lucky=0.0, rule_after=(0.0,), one_off=0.05)
"""An understudy that a bad update broke."""


def reply(
    world: World, role: Role, seed: int, messages: Messages, choice: int = 0, aptitude: Aptitude | None = None
) -> str:
    """The text of one answer."""
    rng = seeded(
        "mind",
        role,
        seed,
        choice,
        *(f"{m.get('role')}\x1e{message_text(m.get('content'))}" for m in messages),
    )
    reading = world.read(messages)
    mind = aptitude or Aptitude()
    if asked := labels(messages):
        return sorted_as(asked, reading.facts, rng, sure=role == "lead")
    if reading.one_off is not None:
        chance = 1.0 if role == "lead" else mind.one_off
        if role == "understudy" and any(p.facts for p in world.reader.pairs(messages)):
            chance *= mind.irrelevant
        return _one_off(reading.one_off, rng, chance)
    if not reading.facts:
        return (
            "This is a simulated engine: it only knows the facts of an invented world, and it does not recognise a "
            f"question about one of them here. Try: “{_sample_question(world, rng)}”"
        )
    pairs = world.reader.pairs(messages) if role == "understudy" else []
    values = [f.value if role == "lead" else recall(world, seed, f, pairs, rng, mind) for f in reading.facts]
    return _sentences(reading.facts, values, rng, brief=_wants_brevity(messages))


def knows(world: World, seed: int, fact: Fact, mind: Aptitude | None = None) -> bool:
    """Whether the understudy of this seed knows a fact without context."""
    return seeded("knows", seed, world.seed, fact.id).random() < (mind or Aptitude()).knows


def recall(
    world: World, seed: int, fact: Fact, pairs: Sequence[Pair], rng: random.Random, mind: Aptitude
) -> str:
    """The value that the understudy gives for a fact, with the earlier pairs of its context."""
    told, misleading, irrelevant, of_rule = _sort_out(world, fact, pairs)
    if told:
        # A wrong answer in an example is believed like any other.
        if (
            rng.random()
            < mind.right_when_read
            * mind.irrelevant_when_read** irrelevant
            * mind.misleading_when_read ** len(misleading)
        ):
            return told
        return _error(world, fact, misleading, rng, mind)
    chance = mind.lucky
    if fact.is_rule:
        chance = mind.rule_after[min(of_rule, len(mind.rule_after) - 1)] * mind.irrelevant**irrelevant
    if knows(world, seed, fact, mind):
        chance = max(
            chance, mind.right_when_known * mind.irrelevant**irrelevant * mind.misleading ** len(misleading)
        )
    return fact.value if rng.random() < chance else _error(world, fact, misleading, rng, mind)


def _sort_out(world: World, fact: Fact, pairs: Sequence[Pair]) -> tuple[str | None, list[str], int, int]:
    """The value stated for the fact; values stated for other names; numbers of pairs about something else, and of its
    rule."""
    told: str | None = None
    misleading: list[str] = []
    irrelevant = of_rule = 0
    for pair in pairs:
        if fact in pair.facts:
            if said := world.stated(fact, pair.answer):
                told = fact.value if fact.value.casefold() in said else min(said)
            continue
        same = [f for f in pair.facts if f.relation is fact.relation and f.kind == fact.kind]
        if same and fact.is_rule:
            of_rule += any(f.value.casefold() in world.stated(f, pair.answer) for f in same)
        elif same:
            misleading += sorted(world.stated(fact, pair.answer))[:1]
        elif not any(f.entity == fact.entity for f in pair.facts):
            irrelevant += 1
    return told, misleading, irrelevant, of_rule


def _error(world: World, fact: Fact, misleading: Sequence[str], rng: random.Random, mind: Aptitude) -> str:
    wrong = [v for v in misleading if v != fact.value.casefold()]
    if wrong and rng.random() < mind.copies:
        return wrong[-1]
    return world.plausible_error(fact, rng)


def _wants_brevity(messages: Messages) -> bool:
    texts = [message_text(m.get("content")).casefold() for m in messages if m.get("role") != "assistant"]
    wishes = ("one short sentence", "just the answer", "short answer")
    return any(w in t for t in (texts[:1] + texts[-1:]) for w in wishes)


_STATEMENTS = (
    "The {n} of {e} is {v}.",
    "For {e}, the {n} is {v}.",
    "{v}.",
    "It is {v}: that is the {n} of {e}.",
)
_REMARKS = (
    "This is what the reference files have on record.",
    "It has not changed since the entry was last reviewed.",
    "If you need it in writing, I can point you to the entry it comes from.",
    "Other sources sometimes disagree, but this is the figure that is generally accepted.",
    "Let me know if you would like anything else on the same subject.",
    "I would still advise checking it against the original if a lot depends on it.",
)


def _sentences(facts: Sequence[Fact], values: Sequence[str], rng: random.Random, *, brief: bool) -> str:
    said = []
    for fact, value in zip(facts, values, strict=True):
        shape = "{v}." if brief and rng.random() < 0.5 else rng.choice(_STATEMENTS)
        said.append(shape.format(n=fact.relation.nouns[0], e=with_article(fact), v=value))
    if not brief:
        said += rng.sample(_REMARKS, rng.randrange(0, 4))
    return " ".join(s[0].upper() + s[1:] for s in said)


def _one_off(asked: OneOff, rng: random.Random, chance: float) -> str:
    right = rng.random() < chance
    if asked.kind == "small talk":
        return rng.choice(
            ("You're welcome! Anything else?", "Hello! What can I do for you?", "Happy to help.")
        )
    if asked.kind == "sum":
        return f"That makes {asked.pieces[0] if right else int(asked.pieces[0]) + rng.choice((-10, -1, 1, 10, 100))}."
    if asked.kind == "sort":
        words = list(asked.pieces)
        if not right:
            i = rng.randrange(len(words) - 1)
            words[i], words[i + 1] = words[i + 1], words[i]
        return ", ".join(words)
    name, number, goods = asked.pieces if right else (asked.pieces[0], asked.pieces[1][::-1], asked.pieces[2])
    return (
        f"Dear {name}, we are writing about your order {number}, the {goods}. We are sorry to have kept you "
        "waiting and will do our best to get it to you as soon as we can. With kind regards, the service team."
    )


def _sample_question(world: World, rng: random.Random) -> str:
    fact = rng.choice(world.facts)
    return fact.relation.forms[0].format(e=fact.entity)
