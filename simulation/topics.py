"""The topics of the simulated world: reads and checks the table in topics.yaml.

A relation is something that can be asked about every name of a kind. Most relations are facts to look up; a few are *rules*,
conventions whose value follows from the name alone, so that examples about other names teach them.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from simulation.names import person, town

Draw = Callable[[random.Random], str]


@dataclass(frozen=True, slots=True)
class Relation:
    """Something that can be asked about every name of a kind."""

    key: str
    nouns: tuple[str, ...]
    """Its names; each is also a cue by which a reader recognises it."""
    forms: tuple[str, ...]
    """Whole questions of its own, `{e}` being the name."""
    cues: tuple[str, ...]
    """Further phrases that identify it."""
    draw: Draw | None
    """Draws a value; None for a rule."""
    rule: Callable[[str], str] | None
    """For a rule: computes the value from the name."""


@dataclass(frozen=True, slots=True)
class Topic:
    """A kind of name with its relations."""

    kind: str
    relations: tuple[Relation, ...]
    arrives_at: float
    """When people begin to ask about it, as a fraction of the stream."""
    breadth: int
    """Factor on the number of names: rules are asked about many names, each seldom."""


@dataclass(frozen=True, slots=True)
class Fact:
    """A fact of the simulated world."""

    id: int
    entity: str
    kind: str
    family: int
    """Names of a kind with the same family number are nearly identical."""
    relation: Relation
    value: str

    @property
    def is_rule(self) -> bool:
        """Whether the value follows from the name, by a convention that examples about other names teach."""
        return self.relation.rule is not None


def _drawer(spec: str) -> Draw:
    """A function that draws values: `year LOW HIGH`, `amount LOW HIGH STEP UNIT`, or one of _DRAWERS by name."""
    if spec in _DRAWERS:
        return _DRAWERS[spec]
    name, *arguments = spec.split()
    if name == "year":
        low, high = map(int, arguments)
        return lambda rng: str(rng.randrange(low, high))
    if name == "amount":
        low, high, step = map(int, arguments[:3])
        unit = arguments[3]
        return lambda rng: f"{rng.randrange(low, high, step):,} {unit}"
    raise ValueError(f"topics.yaml: no drawer called {spec!r}")


def _ticker(rng: random.Random) -> str:
    return "".join(rng.choice("ABCDEFGKLMNPRSTVXZ") for _ in range(4))


_DRAWERS: dict[str, Draw] = {
    "town": town,
    "person": person,
    "park": lambda rng: f"{town(rng)} Park",
    "port": lambda rng: str(rng.randrange(1100, 9900, 10)),
    "clock": lambda rng: f"{rng.randrange(4, 10):02d}:{rng.randrange(0, 60, 5):02d}",
    "ticker": _ticker,
    "form": lambda rng: f"{rng.choice('FGHK')}-{rng.randrange(100, 999)}",
    "platform": lambda rng: f"platform {rng.randrange(1, 25)}{rng.choice('abc')}",
    "dialling code": lambda rng: f"+{rng.randrange(401, 999)}",
}


def _letters(name: str) -> str:
    return "".join(c for c in name.casefold() if c.isascii() and c.isalpha())


_RULES: dict[str, Callable[[str], str]] = {
    "username": lambda n: f"{_letters(n)[0]}{_letters(n.split()[-1])[:6]}{len(_letters(n)) % 10}",
    "mailbox": lambda n: f"{_letters(n.split()[-1])}.{_letters(n)[:2]}@annex.example",
    "shelf_code": lambda n: (
        f"{_letters(n.split()[-1])[:3].upper()}-{len(_letters(n))}-{_letters(n)[0].upper()}"
    ),
}


def _chooser(choices: list[str]) -> Draw:
    return lambda rng: rng.choice(choices)


def _relation(key: str, row: dict[str, Any]) -> Relation:
    rule = _RULES[row["rule"]] if "rule" in row else None
    draw = None
    if rule is None:
        draw = _chooser(row["choices"]) if "choices" in row else _drawer(row["drawn"])
    return Relation(key, tuple(row["nouns"]), tuple(row["forms"]), tuple(row.get("cues", ())), draw, rule)


def _topics() -> tuple[Topic, ...]:
    rows = yaml.safe_load((Path(__file__).parent / "topics.yaml").read_text(encoding="utf-8"))
    return tuple(
        Topic(
            row["kind"],
            tuple(_relation(key, relation) for key, relation in row["relations"].items()),
            row.get("arrives_at", 0.0),
            row.get("breadth", 1),
        )
        for row in rows
    )


TOPICS = _topics()
"""Fifteen kinds of names, sixty-odd relations."""
