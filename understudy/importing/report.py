"""What an import made of each setting: taken as it was, taken in another way, or left out, and why."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

STANDS_AT = "what stands at "
"""Before the place of a secret in the file, where a variable's source is told."""


@dataclass(frozen=True, slots=True)
class Note:
    """One setting of the file, by its place in it, and what became of it."""

    where: str
    text: str


@dataclass(slots=True)
class Report:
    """Notes in the order in which they were made. Holds no value that may be a secret."""

    taken: list[Note] = field(default_factory=list)
    changed: list[Note] = field(default_factory=list)
    left_out: list[Note] = field(default_factory=list)
    variables: dict[str, str] = field(default_factory=dict)
    """Names of variables that the configuration reads, and where each one's value comes from."""
    secrets: dict[str, str] = field(default_factory=dict, repr=False)
    """Which variable stands for a secret of the file, by that secret. Never shown."""

    def take(self, where: str, text: str) -> None:
        """It means the same here."""
        self.taken.append(Note(where, text))

    def change(self, where: str, text: str) -> None:
        """It is here in another way."""
        self.changed.append(Note(where, text))

    def leave(self, where: str, text: str) -> None:
        """It is not here."""
        self.left_out.append(Note(where, text))

    def repeat(self, other: Report, place: Callable[[str], str]) -> None:
        """Take over another's notes. `place`: what a place in its file is called here."""
        for ours, theirs in (
            (self.taken, other.taken),
            (self.changed, other.changed),
            (self.left_out, other.left_out),
        ):
            ours += [Note(place(note.where), note.text) for note in theirs]
        for name, source in self.variables.items():
            if source.startswith(STANDS_AT):
                self.variables[name] = STANDS_AT + place(source.removeprefix(STANDS_AT))

    def lines(self) -> list[str]:
        """For a person."""
        told = []
        for title, notes in (("Taken", self.taken), ("Changed", self.changed), ("Left out", self.left_out)):
            if notes:
                told += [f"{title}:", *(f"  {note.where}: {note.text}" for note in notes)]
        if self.variables:
            told += ["Set in the environment before the start:"]
            told += [f"  {name}: {source}" for name, source in self.variables.items()]
        return told


def shown(value: Any) -> str:
    """A number, a word or a switch as it stands in the file; of anything else only what it is."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        return f"{value:g}" if isinstance(value, float) else str(value)[:40]
    return {"dict": "a mapping", "list": "a list", "NoneType": "nothing"}.get(type(value).__name__, "a text")
