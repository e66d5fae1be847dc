"""A scenario: which engines a model has, how they fail, what is asked, and what is to come of it."""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from benchmarks.failover.asking import Answer, Client
from benchmarks.failover.scripts import healthy
from benchmarks.failover.texts import ANSWER
from benchmarks.failover.wall import Script, Seen, Wall

PASS, PARTIAL, SAFE, FAIL, SKIPPED = "pass", "partial", "safe", "fail", "skipped"


@dataclass(frozen=True)
class Behind:
    """One engine of a model: its script, or a base URL of its own, and settings beside those of the run."""

    script: Script = healthy
    base_url: Callable[[], str] | None = None
    """Made when the configuration is; None: the wall's."""
    settings: dict[str, Any] = field(default_factory=dict)
    """As in the configuration, below the engine."""
    replicas: Sequence[Script] = ()
    """The scripts of several base URLs, in place of one."""


@dataclass(frozen=True)
class Model:
    """A model name and its engines: who is asked first, and who stands by."""

    name: str
    primary: Behind
    fallback: Behind | None = field(default_factory=Behind)

    @property
    def engines(self) -> dict[str, Behind]:
        """By name; the last is asked first."""
        named = {} if self.fallback is None else {f"{self.name}-f": self.fallback}
        return {**named, f"{self.name}-p": self.primary}


def model(name: str, primary: Script, fallback: Script | None = healthy, **advanced: Any) -> Model:
    """A model of two scripted engines (one: `fallback` is None); `advanced` holds for both."""
    settings = {"advanced": advanced} if advanced else {}
    stands_by = None if fallback is None else Behind(fallback, settings=settings)
    return Model(name, Behind(primary, settings=settings), stands_by)


@dataclass(frozen=True)
class Found:
    """What one scenario came to."""

    verdict: str
    why: str
    figures: dict[str, Any] = field(default_factory=dict)


@dataclass
class Bench:
    """What a scenario has at hand."""

    wall: Wall
    client: Client

    def primary(self, name: str) -> list[Seen]:
        """What a model's first engine was asked."""
        return self.wall.calls(f"{name}-p")

    def fallback(self, name: str) -> list[Seen]:
        """What its stand-in was asked."""
        return self.wall.calls(f"{name}-f")

    async def ask(self, name: str, **more: Any) -> Answer:
        """One answer."""
        return await self.client.ask(name, **more)

    async def at_rate(self, name: str, per_s: float, seconds: float, **more: Any) -> list[Answer]:
        """Answers of an open loop: so many questions per second, whatever becomes of them."""
        began, tasks = time.monotonic(), []
        async with asyncio.TaskGroup() as group:
            for number in range(round(per_s * seconds)):
                await asyncio.sleep(max(0.0, began + number / per_s - time.monotonic()))
                tasks.append(group.create_task(self.ask(name, **more)))
        return [task.result() for task in tasks]

    async def at_once(self, name: str, count: int, **more: Any) -> list[Answer]:
        """Answers to so many questions of the same moment."""
        return await asyncio.gather(*(self.ask(name, **more) for _ in range(count)))


@dataclass(frozen=True)
class Scenario:
    """See the module. `before` says what commit fc0ad32 did with its defaults: a fact, measured elsewhere."""

    id: str
    title: str
    run: Callable[[Bench], Awaitable[Found]]
    models: Sequence[Model] = ()
    before: str = ""
    waits: bool = False
    """It takes its time and little else: it runs beside others."""
    skipped: str = ""
    """Why it cannot be run."""


@dataclass(frozen=True)
class Figure:
    """One measured figure and its target."""

    name: str
    value: float
    target: float
    before: str
    at_least: bool = False

    @property
    def reached(self) -> bool:
        """Whether the target is."""
        return self.value >= self.target if self.at_least else self.value <= self.target

    def __str__(self) -> str:
        sign, missed = "≥" if self.at_least else "≤", "" if self.reached else " (missed)"
        return f"{self.name} {self.value:.3g}, {sign} {self.target:g}{missed}, was {self.before}"


def judged(*figures: Figure, wrong: int = 0) -> Found:
    """pass: every target is reached; partial: some; fail: none, or an answer was wrong."""
    reached = sum(figure.reached for figure in figures)
    verdict = PASS if reached == len(figures) else PARTIAL if reached else FAIL
    why = "; ".join(map(str, figures))
    if wrong:
        verdict, why = FAIL, f"{wrong} answers were wrong or cut and looked whole; {why}"
    return Found(verdict, why, {figure.name: figure.value for figure in figures})


def served(answers: Sequence[Answer]) -> int:
    """How many got the whole answer."""
    return sum(whole(answer) for answer in answers)


def whole(answer: Answer) -> bool:
    """Whether it is all of what healthy engines say."""
    return answer.ok and answer.text.split() == ANSWER.split()


def cut(answers: Sequence[Answer]) -> int:
    """How many looked whole and were not."""
    return sum(answer.ok and not whole(answer) for answer in answers)


def quantile_s(answers: Sequence[Answer], share: float) -> float:
    """Of the times until the answers' ends, in seconds."""
    times = sorted(answer.seconds for answer in answers)
    if share == 0.5:
        return statistics.median(times)
    return times[min(len(times) - 1, int(share * len(times)))]
