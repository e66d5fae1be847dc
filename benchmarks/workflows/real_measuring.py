"""The same questions of two real gateways, with passes and without, before the same two real engines.

Each gateway has a process, an embedder and a tenant of its own, so that neither finds what the other's run has left in a
cache; each question is asked of both, one after the other, and who is first changes from question to question.
"""

from __future__ import annotations

import json
import random
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.processes import cpu_s as used_s
from benchmarks.tables import markdown
from benchmarks.vllm.serving import Served
from benchmarks.workflows.questions import Question
from benchmarks.workflows.real_workflow import MODEL, NAME, STEPS, workflow
from tests.vllm.guide import Guide, guided, pooled, settings

ON, OFF = "passes on", "passes off"
WARM_UPS = 3
"""Questions that are asked of both and not counted: they measure what a step and a prompt's token take."""
ASKED_RATIO = 1.2
_DRAWS = 2000


@dataclass(frozen=True, slots=True)
class Answered:
    """One question's run."""

    seconds: float
    """From the request's first byte to the answer's last, at the client."""
    text: str
    values: Mapping[str, Any]
    """Of the steps as they are declared, in their order."""
    cached_tokens: int
    prompt_tokens: int
    cpu_s: float
    """That its gateway and the servers used meanwhile; other processes on the machine change it little."""


@dataclass(frozen=True, slots=True)
class Pair:
    """One question's runs."""

    question: str
    on: Answered
    off: Answered

    @property
    def differs_at(self) -> str:
        """The first step of the two whose values differ; empty where none does."""
        for name, value in self.off.values.items():
            if self.on.values.get(name) != value:
                return name
        return "" if self.on.text == self.off.text else "answer"


@dataclass(slots=True)
class Measured:
    """What was found for one way of writing the workflow."""

    pairs: list[Pair] = field(default_factory=list)

    @property
    def ratio(self) -> float:
        """Time without passes over time with them, of all questions."""
        return sum(pair.off.seconds for pair in self.pairs) / sum(pair.on.seconds for pair in self.pairs)

    def ratio_between(self) -> tuple[float, float]:
        """95 % interval of `ratio`: 2,000 draws of the questions with replacement (the percentile bootstrap)."""
        chance = random.Random(1)
        drawn = sorted(Measured(chance.choices(self.pairs, k=len(self.pairs))).ratio for _ in range(_DRAWS))
        return drawn[_DRAWS // 40], drawn[-_DRAWS // 40]

    def as_json(self) -> dict[str, Any]:
        """For the output: every figure, no text."""
        return {
            "questions": len(self.pairs),
            "ratio": self.ratio,
            "ratio_95": self.ratio_between(),
            "asked_ratio": ASKED_RATIO,
            "seconds": {
                ON: [pair.on.seconds for pair in self.pairs],
                OFF: [pair.off.seconds for pair in self.pairs],
            },
            "differ_at": [pair.differs_at for pair in self.pairs],
            "pairs": [
                {name: _without_texts(one) for name, one in ((ON, pair.on), (OFF, pair.off))}
                for pair in self.pairs
            ],
        }

    def lines(self) -> list[str]:
        """In words."""
        on = [pair.on.seconds for pair in self.pairs]
        off = [pair.off.seconds for pair in self.pairs]
        low, high = self.ratio_between()
        cpu_s = {OFF: [pair.off.cpu_s for pair in self.pairs], ON: [pair.on.cpu_s for pair in self.pairs]}
        rows = [
            (name, *_quantiles(seconds), f"{statistics.fmean(cpu_s[name]):.2f}")
            for name, seconds in ((OFF, off), (ON, on))
        ]
        told = [
            markdown(("", "mean s", "median s", "fastest s", "slowest s", "mean CPU s"), rows),
            f"{len(self.pairs)} questions: {self.ratio:.2f}x (95 % of draws {low:.2f} to {high:.2f}); asked {ASKED_RATIO}x: "
            f"{'reached' if self.ratio >= ASKED_RATIO else 'MISSED'}",
        ]
        return [*told, self._equal()]

    def _equal(self) -> str:
        differ = [pair.differs_at for pair in self.pairs if pair.differs_at]
        if not differ:
            return "values: equal in all steps of all questions"
        where = ", ".join(f"{differ.count(step)} first at `{step}`" for step in dict.fromkeys(differ))
        return (
            f"values: {len(differ)} of {len(self.pairs)} questions differ ({where}). What a prompt is computed with, and "
            "how much of it is cached, changes the order in which floats are added: a near tie may end otherwise"
        )


def measured(
    folder: Path,
    replicas: Sequence[Served],
    asked: Sequence[Question],
    say: Callable[[str], None],
    *,
    chained: bool = True,
) -> Measured:
    """Asks all questions of both gateways; the first `WARM_UPS` are not counted. `folder` takes the gateways' files."""
    found = Measured()
    with (
        _gateway(folder / "on", replicas, passes=True, chained=chained) as on,
        _gateway(folder / "off", replicas, passes=False, chained=chained) as off,
    ):
        for number, question in enumerate(asked):
            if number % 2:
                first = answered(on, question, replicas)
                pair = Pair(question.text, first, answered(off, question, replicas))
            else:
                first = answered(off, question, replicas)
                pair = Pair(question.text, answered(on, question, replicas), first)
            say(f"{number + 1} of {len(asked)}: {pair.off.seconds:.2f} s, {pair.on.seconds:.2f} s")
            if number >= WARM_UPS:
                found.pairs.append(pair)
    return found


def answered(guide: Guide, question: Question, replicas: Sequence[Served]) -> Answered:
    """Asks the workflow as a model, and reads what its run tells. Nothing kept is used, and nothing is kept."""
    more = {"understudy": {"inputs": {"documents": [question.document]}}}
    processes = (guide.gateway.process, *(one.process for one in replicas))
    pids = [process.pid for process in processes if process is not None]
    began, cpu_s = time.perf_counter(), sum(map(used_s, pids))
    said = guide.ask(question.text, fresh=True, model=NAME, **more)
    seconds, cpu_s = time.perf_counter() - began, sum(map(used_s, pids)) - cpu_s
    text = said.text
    run = guide.send("GET", f"/runs/{said.headers['x-understudy-run']}").json
    values = {name: run["variables"][name]["value"] for name in STEPS}
    usage = run["usage"]
    return Answered(seconds, text, values, usage["cached_tokens"], usage["prompt_tokens"], cpu_s)


@contextmanager
def _gateway(folder: Path, replicas: Sequence[Served], *, passes: bool, chained: bool) -> Iterator[Guide]:
    """A real one, in a process of its own; its tenant is its own, too."""
    folder.mkdir(parents=True)
    pool = pooled(*replicas)
    model = next(iter(pool["models"].values()))
    config = settings(folder / "data", replicas[0], replicas[-1]) | {
        "engines": pool["engines"],
        "models": {MODEL: model},
        "workflows": {NAME: workflow(passes=passes, chained=chained)},
    }
    with guided(folder, config) as guide:
        guide.key = f"sk-{folder.name}"
        guide.fields = {}
        yield guide


def _quantiles(seconds: Sequence[float]) -> tuple[str, ...]:
    shown = (statistics.fmean(seconds), statistics.median(seconds), min(seconds), max(seconds))
    return tuple(f"{each:.2f}" for each in shown)


def _without_texts(one: Answered) -> dict[str, Any]:
    fields: dict[str, Any] = json.loads(json.dumps(asdict(one)))
    return {name: value for name, value in fields.items() if name not in ("text", "values")}
