"""Requests of the simulated world that no example answers: sums, sorting, short letters, small talk.

Each is made from a template with its own numbers and names, so two of them look alike and share no answer. The right answer
can be computed from the question alone.
"""

from __future__ import annotations

import random
import re
from dataclasses import dataclass

from simulation.names import stem

_BOXES = ("crate", "tray", "shelf", "pallet", "drawer", "basket")
_THINGS = ("jars", "candles", "notebooks", "lamps", "bolts", "seedlings")
_GIVEN = ("Anouk", "Basil", "Cora", "Dmitri", "Edda", "Fenn", "Gita", "Hari", "Ines", "Joss")
_GOODS = ("desk lamp", "garden hose", "wall clock", "wool blanket", "tea kettle", "bicycle bell")

SMALL_TALK = (
    "Hi there!",
    "Thanks, that was helpful.",
    "Good morning! How are you today?",
    "ok great, bye",
    "You're a star, thank you!",
    "Hello? Anybody there?",
)
_SUMS = (
    "One {box} holds {a} {things}. {name} fills {b} of them. How many {things} is that altogether?",
    "{name} has {b} boxes with {a} {things} each. What is the total count of {things}?",
    "What is {a} times {b}?",
    "If a ticket costs {a} euros, what do {b} tickets cost?",
    "My {things} come in packs of {a} and I bought {b} packs: how many do I have?",
    "{name} walks {a} steps a minute for {b} minutes. How many steps are those?",
    "Work out {a} x {b} for me.",
    "A wall is {b} rows high, every row has {a} bricks; how many bricks do we have to order?",
)
_SORTS = (
    "Put these words in alphabetical order: {words}.",
    "Please sort alphabetically: {words}",
    "I am making an index and need these alphabetically: {words}.",
    "My list is a mess. Can you bring it into alphabetical order: {words}?",
)
_LETTERS = (
    "Write a short apology to {name} because order {number} ({goods}) is {days} days late.",
    "Draft a friendly note telling {name} that order {number}, the {goods}, ships in {days} days.",
    "I need a polite apology to {name} because order {number} ({goods}) arrived broken after {days} days.",
    "Compose a note telling {name} that order {number}, the {goods}, was cancelled and the money is on its way.",
    "How would you word an apology to {name} because order {number} ({goods}) was billed twice?",
)
_SUM_READERS = (
    re.compile(r"holds (\d+) \w+\. \w+ fills (\d+) of them", re.IGNORECASE),
    re.compile(r"has (\d+) boxes with (\d+) ", re.IGNORECASE),
    re.compile(r"what is (\d+) times (\d+)", re.IGNORECASE),
    re.compile(r"costs (\d+) euros, what do (\d+) tickets", re.IGNORECASE),
    re.compile(r"in packs of (\d+) and I bought (\d+) packs", re.IGNORECASE),
    re.compile(r"walks (\d+) steps a minute for (\d+) minutes", re.IGNORECASE),
    re.compile(r"work out (\d+) x (\d+) ", re.IGNORECASE),
    re.compile(r"is (\d+) rows high, every row has (\d+) bricks", re.IGNORECASE),
)
_SORT_READER = re.compile(r"alphabetical(?:ly| order): ([\w, ]+)", re.IGNORECASE)
_LETTER_READER = re.compile(
    r"(?:apology to|note telling) (\w+) (?:because|that) order (\d+)(?: \(|, the )([\w ]+?)(?:\)|,)",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class OneOff:
    """A one-off request. `pieces` are what a good answer must contain, in order for a sort."""

    kind: str
    """sum | sort | letter | small talk"""
    pieces: tuple[str, ...]

    def grade(self, answer: str) -> float:
        """The quality of an answer's text, 0 to 1."""
        if self.kind == "small talk":
            return float(bool(answer.strip()))
        if self.kind == "sort":
            said = [w for w in re.findall(r"\w+", answer) if w in self.pieces]
            return sum(float(a == b) for a, b in zip(said, self.pieces, strict=False)) / len(self.pieces)
        found = [bool(re.search(rf"(?<![\w]){re.escape(p)}(?![\w])", answer)) for p in self.pieces]
        return sum(found) / len(found)


def make(rng: random.Random) -> str:
    """A new one-off request."""
    kind = rng.choice(("sum", "sum", "sort", "letter"))
    name = rng.choice(_GIVEN)
    if kind == "sum":
        return rng.choice(_SUMS).format(
            box=rng.choice(_BOXES),
            things=rng.choice(_THINGS),
            a=rng.randrange(12, 98),
            b=rng.randrange(3, 60),
            name=name,
        )
    if kind == "sort":
        return rng.choice(_SORTS).format(words=", ".join(stem(rng) for _ in range(rng.randrange(4, 7))))
    return rng.choice(_LETTERS).format(
        name=name, number=rng.randrange(10000, 99999), goods=rng.choice(_GOODS), days=rng.randrange(2, 15)
    )


def read(text: str) -> OneOff | None:
    """The one-off request that a text makes, or None."""
    if text.strip() in SMALL_TALK:
        return OneOff("small talk", ())
    for reader in _SUM_READERS:
        if match := reader.search(text):
            return OneOff("sum", (str(int(match[1]) * int(match[2])),))
    if match := _SORT_READER.search(text):
        return OneOff("sort", tuple(sorted(w.strip() for w in match[1].split(",") if w.strip())))
    if match := _LETTER_READER.search(text):
        return OneOff("letter", (match[1], match[2], match[3]))
    return None


def templates() -> tuple[str, ...]:
    """Every template, for readers that must know the words in them."""
    return (*SMALL_TALK, *_SUMS, *_SORTS, *_LETTERS)
