"""What is wanted of the gateway, and whether a run has it: a row for each goal, with what was measured.

A figure is the median over rounds of a ratio that is formed inside each round. Rows go into the README, with
their figures beside them in docs/experiments/overhead.json.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.options import where
from benchmarks.recorded import ROOT
from benchmarks.tables import markdown, write_between

FILE = ROOT / "docs" / "experiments" / "overhead.json"
PAGE = ROOT / "README.md"
COMMAND = "make bench"

Figures = Mapping[str, Any]
"""Of a run, by part."""
Rounds = Mapping[str, Sequence[Mapping[str, float]]]
"""Of a part: what each round measured, by subject."""


@dataclass(frozen=True)
class Spread:
    """Median, smallest and largest of the rounds."""

    middle: float
    least: float
    most: float

    @classmethod
    def of(cls, values: Iterable[float]) -> Spread:
        """The spread of at least one value."""
        known = sorted(values)
        return cls(statistics.median(known), known[0], known[-1])

    def text(self, unit: str, digits: int) -> str:
        """`1.23 ms (1.20-1.31)`; of one round `1.23 ms`."""
        middle = f"{self.middle:,.{digits}f}{unit}"
        if self.least == self.most:
            return middle
        return f"{middle} ({self.least:,.{digits}f}-{self.most:,.{digits}f})"


def column(rounds: Sequence[Mapping[str, float]], name: str) -> list[float]:
    """One figure of every round."""
    return [figures[name] for figures in rounds]


def paired(part: Rounds, name: str, key: str, base: str, how: str = "ratio") -> Spread:
    """One figure of `key` against that of `base`, round by round: the ratio, or else the difference."""
    pairs = zip(column(part[key], name), column(part[base], name), strict=True)
    return Spread.of(a / b if how == "ratio" else a - b for a, b in pairs)


@dataclass(frozen=True)
class Goal:
    """One line of the table."""

    part: str
    what: str
    found: Callable[[Any], Spread]
    """What was measured, from the part's figures."""
    unit: str
    digits: int
    most: float | None = None
    least: float | None = None
    beside: Callable[[Any], str] = lambda part: ""
    """The same in absolute terms."""

    @property
    def goal(self) -> str:
        """In words."""
        sign, number = ("<=", self.most) if self.least is None else (">=", self.least)
        return f"{sign} {number:,g}{self.unit}"

    def reached(self, figure: float) -> bool:
        """Whether the goal is met."""
        return figure <= self.most if self.most is not None else figure >= (self.least or 0.0)

    def row(self, part: Any) -> dict[str, Any]:
        """As it is written into the file."""
        found = self.found(part)
        return {
            "part": self.part,
            "row": self.what,
            "now": found.text(self.unit, self.digits),
            "beside": self.beside(part),
            "goal": self.goal,
            "reached": self.reached(found.middle),
            "figure": found.middle,
        }


def _against(key: str, base: str, name: str = "cpu_ms") -> Callable[[Rounds], Spread]:
    return lambda part: paired(part, name, key, base)


def _shown(key: str, name: str, unit: str, digits: int) -> Callable[[Rounds], str]:
    return lambda part: Spread.of(column(part[key], name)).text(unit, digits)


def _each(key: str, name: str, factor: float = 1.0) -> Callable[[Rounds], Spread]:
    return lambda part: Spread.of(factor * one for one in column(part[key], name))


def _per_s(key: str) -> Callable[[Rounds], Spread]:
    return lambda part: Spread.of(1000 / one for one in column(part[key], "cpu_ms"))


def _loaded(key: str) -> Callable[[Rounds], str]:
    def told(part: Rounds) -> str:
        (one,) = part[key]
        return f"{one['asked_per_s']:.0f} a second; p50 {one['p50_ms']:.0f} ms, p99 {one['p99_ms']:.0f} ms"

    return told


def _miscounted(part: Mapping[str, float]) -> Spread:
    wrong = abs(part["booked_nano"] - part["charged_nano"]) / part["charged_nano"] * 100
    return Spread(wrong, wrong, wrong)


def _answers(part: Mapping[str, float]) -> str:
    booked, charged = part["booked_nano"] / 1e9, part["charged_nano"] / 1e9
    return f"${booked:.4f} booked, ${charged:.4f} charged; {part['kills']:.0f} kills"


_REQUEST = ("cpu_ms", " ms", 3)
GOALS = (
    Goal(
        "requests",
        "passing through, CPU",
        _against("passthrough", "relay"),
        "x",
        2,
        most=1.15,
        beside=_shown("passthrough", *_REQUEST),
    ),
    Goal(
        "requests",
        "exact hit, CPU",
        _against("exact", "relay"),
        "x",
        2,
        most=1.2,
        beside=_shown("exact", *_REQUEST),
    ),
    Goal(
        "paced",
        "exact hit, p99 at 1,000 a second",
        _against("exact", "relay", "p99_ms"),
        "x",
        1,
        most=2.0,
        beside=_shown("exact", "p99_ms", " ms", 1),
    ),
    Goal(
        "requests",
        "data folder, can neither hit nor teach, CPU",
        _against("no_embedding", "relay"),
        "x",
        2,
        most=1.4,
        beside=_shown("no_embedding", *_REQUEST),
    ),
    Goal(
        "requests",
        "whole line, embedding kept, CPU",
        _against("warm", "relay"),
        "x",
        1,
        most=8.0,
        beside=_shown("warm", *_REQUEST),
    ),
    Goal(
        "paced",
        "whole line, embedding kept, p99 at 400 a second",
        _each("warm", "p99_ms"),
        " ms",
        0,
        most=50.0,
    ),
    Goal(
        "requests",
        "whole line, embedding made, CPU against the embedding alone",
        _against("cold", "embedding"),
        "x",
        2,
        most=1.3,
        beside=_shown("cold", *_REQUEST),
    ),
    Goal(
        "first_minute",
        "share that keeps its embedding, first minute, at 70 % of a core",
        _each("cold", "embedded_share", 100),
        " %",
        0,
        least=95.0,
        beside=_shown("cold", "asked_per_s", " a second", 0),
    ),
    Goal(
        "overload",
        "share that keeps its embedding at 0.7x of capacity",
        _each("busy", "embedded_share", 100),
        " %",
        0,
        least=95.0,
        beside=_loaded("busy"),
    ),
    Goal(
        "overload",
        "proven requests that the small engine answers at 1.5x of capacity",
        _each("over", "small_share", 100),
        " %",
        0,
        least=90.0,
        beside=_loaded("over"),
    ),
    Goal(
        "chunks",
        "paced chunk, passing through, CPU",
        _against("passthrough", "relay", "cpu_us"),
        "x",
        2,
        most=0.8,
        beside=_shown("passthrough", "cpu_us", " µs", 0),
    ),
    Goal(
        "chunks",
        "paced chunk, few_shot, CPU",
        _against("few_shot", "relay", "cpu_us"),
        "x",
        2,
        most=1.2,
        beside=_shown("few_shot", "cpu_us", " µs", 0),
    ),
    Goal(
        "crowd",
        "1,000 held streams, memory of each",
        _each("passthrough", "kib_per_stream"),
        " KiB",
        1,
        most=34.0,
    ),
    Goal(
        "governed",
        "key, budget, durable books: CPU against our own passing through",
        _against("governed", "through"),
        "x",
        2,
        most=1.3,
        beside=_shown("governed", *_REQUEST),
    ),
    Goal(
        "governed",
        "the same, requests a second of a core",
        _per_s("governed"),
        "",
        0,
        least=2000.0,
    ),
    Goal(
        "books",
        "the same, booked otherwise than charged, workers killed ten times",
        _miscounted,
        " %",
        3,
        most=0.0,
        beside=_answers,
    ),
)


def rows(figures: Figures) -> list[dict[str, Any]]:
    """Those goals whose part was measured."""
    return [goal.row(figures[goal.part]) for goal in GOALS if goal.part in figures]


def missed(found: Sequence[Mapping[str, Any]]) -> list[str]:
    """Names of goals that are not reached."""
    return [row["row"] for row in found if not row["reached"]]


def table(found: Sequence[Mapping[str, Any]]) -> str:
    """Markdown; what misses its goal is bold."""
    cells = []
    for row in found:
        now = row["now"] if row["reached"] else f"**{row['now']}**"
        beside = f"; {row['beside']}" if row["beside"] else ""
        cells.append((row["row"], now + beside, row["goal"], "yes" if row["reached"] else "**no**"))
    return markdown(("", "now", "goal", "reached"), cells)


def told(figures: Figures) -> dict[str, Any]:
    """As the file holds it: what, where, when, on which commit, and how busy the machine was."""
    machine, counts = figures["machine"], figures["counts"]
    return where() | {
        "command": COMMAND,
        "load_average": machine["load_average"],
        "cpu": machine["cpu"],
        "rounds": counts["rounds"],
        "requests": counts["requests"],
        "rows": rows(figures),
    }


def page(run: Mapping[str, Any]) -> str:
    """The table with what it was measured by."""
    head = (
        f"{run['cpu']}, {run['machine']}, {run['date']}, commit {run['commit']}, load average {run['load_average']}\n"
        f"before the start; median (least-most) of {run['rounds']} rounds of {run['requests']} requests, in one run:\n"
        f"`{run['command']}`. `x`: times what a bare aiohttp relay takes in the same round. Bold: the goal is missed.\n"
        "Rows at a given rate, and under load, go by the clock: with other work on the machine they say nothing.\n\n"
    )
    return head + table(run["rows"])


def write_page(figures: Figures) -> None:
    """Write the file and the table of the page. Raises ValueError where the page has no place for it."""
    run = told(figures)
    FILE.write_text(json.dumps(run, indent=1) + "\n", encoding="utf-8")
    write_between(PAGE, "overhead", page(run))
