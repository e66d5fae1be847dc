"""Rows of what is measured over sockets: now, the goal, and whether it is reached."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

from benchmarks.tables import markdown


@dataclass(frozen=True, slots=True)
class Row:
    """One figure. `least`: it is to be at least its goal; else at most."""

    what: str
    now: float
    goal: float | None = None
    least: bool = False
    unit: str = ""
    """Empty: a ratio."""

    @property
    def reached(self) -> bool | None:
        """Whether it is what is wanted; None where nothing is."""
        if self.goal is None:
            return None
        return self.now >= self.goal if self.least else self.now <= self.goal

    def as_json(self) -> dict[str, Any]:
        """For the file."""
        return {**asdict(self), "reached": self.reached}

    def _shown(self, value: float) -> str:
        return f"{value:.2f} {self.unit}" if self.unit else f"{value:.2f}x"

    def cells(self) -> tuple[str, str, str, str]:
        """For a table."""
        word = "at least" if self.least else "at most"
        goal = "" if self.goal is None else f"{word} {self._shown(self.goal)}"
        return self.what, self._shown(self.now), goal, {None: "", True: "yes", False: "NO"}[self.reached]


def table(rows: Iterable[Row]) -> str:
    """Rows side by side."""
    return markdown(("", "now", "goal", "reached"), [row.cells() for row in rows])
