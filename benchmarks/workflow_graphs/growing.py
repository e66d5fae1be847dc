"""What does it cost that a run grows by itself: to unfold, to take up, and to say what follows from each answer?

CPU time of this process for all steps of a run, in the fastest round. No engine is asked, and nothing is stored. With ten
times the items it should cost ten times as much: no piece may cost what the run has.

    python -m benchmarks.workflow_graphs.growing [--json FILE] [--rounds N]
"""

from __future__ import annotations

import sys
import time
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from benchmarks.options import options, write
from benchmarks.tables import markdown
from benchmarks.workflow_graphs.__main__ import PROFILE, WORLD
from workflows.declared import read_definition
from workflows.definition import Definition
from workflows.graph import Graph
from workflows.plan import planned
from workflows.progress import Changes, Progress
from workflows.transform import Value
from workflows.unfolding import Added, Unfolding
from workflows.values import Opaque

_CHAT = {"chat": "Of {{item}}", "model": "m"}
_ANSWER = {"chat": "Of {{notes}}", "model": "m"}
_WRITTEN: Mapping[str, Mapping[str, Any]] = {
    "chunks ingested": {
        "chunks": {"split": "{{documents}}", "tokens": 256, "overlap": 30},
        "index": {"ingest": "{{chunks}}"},
        "found": {"search": "{{question}}", "in": "{{index}}", "k": 16},
        "notes": {"rerank": "{{found}}", "by": "{{question}}", "k": 3},
        "answer": _ANSWER,
    },
    "items mapped": {"notes": {"map": "{{documents}}", **_CHAT}, "answer": _ANSWER},
    "items of a splitting chat mapped twice": {
        "list": {"chat": "List {{question}}", "model": "m", "splits": "lines"},
        "first": {"map": "{{list}}", **_CHAT},
        "notes": {"map": "{{first}}", **_CHAT},
        "answer": _ANSWER,
    },
}
COUNTS: Mapping[str, tuple[int, int]] = {
    "chunks ingested": (500, 5000),
    "items mapped": (100, 1000),
    "items of a splitting chat mapped twice": (100, 1000),
}


def definition(name: str) -> Definition:
    """One of the workflows that are measured."""
    inputs = {"question": "last_user", "documents": "texts"}
    return read_definition(
        "benchmarked", {"inputs": inputs, "steps": _WRITTEN[name], "output": "answer"}, WORLD
    )


@dataclass
class Run:
    """A run that is answered at once: by lists of so many items, else by as little as can be."""

    unfolding: Unfolding
    texts: Sequence[str]
    steps: int = 0
    progress: Progress = field(default_factory=lambda: Progress(Graph()))
    left: deque[str] = field(default_factory=deque)

    def carry_out(self) -> None:
        """From the first step to the last."""
        self._grow(self.unfolding.begin())
        while self.left:
            id = self.left.popleft()
            self.steps += 1
            self.progress.running(id)
            if id == "list":
                for index, text in enumerate(self.texts):
                    self._grow(self.unfolding.item(id, index, text))
            (variable,) = self.progress.graph.steps[id].writes.values()
            self._apply(self.progress.answered(id, {variable: self._value(id)}))

    def _grow(self, added: Added) -> None:
        if added:
            self._apply(self.progress.grow(added))

    def _apply(self, changes: Changes) -> None:
        self.left += changes.start
        for variable, ended in changes.variables.items():
            if ended.value is not None:
                self._grow(self.unfolding.ready(variable, ended.value))

    def _value(self, id: str) -> Value | Opaque:
        step = self.progress.graph.steps[id]
        if step.primitive in ("embed", "ingest") or step.what.get("how") == "index":
            return Opaque(None)
        return list(self.texts) if id in ("chunks", "list", "first") else ["1.0"]


def measured(name: str, count: int, rounds: int) -> dict[str, float]:
    """Steps of the run, milliseconds of CPU for all of them, and for what is derived of the whole graph at its end."""
    workflow, texts = definition(name), [f"text {number}" for number in range(count)]
    plans = planned(workflow, PROFILE).plans
    inputs: Mapping[str, Value] = {"question": "?", "documents": texts}
    fastest = derived = float("inf")
    for _ in range(rounds):
        run = Run(Unfolding("run_1", workflow, plans, inputs), texts)
        began = time.process_time()
        run.carry_out()
        ended = time.process_time()
        run.progress.graph.order()
        fastest, derived = min(fastest, ended - began), min(derived, time.process_time() - ended)
    return {"steps": run.steps, "ms": fastest * 1000, "derived_ms": derived * 1000}


def main(arguments: list[str] | None = None) -> int:
    """Print the table."""
    parser = options(__doc__)
    parser.add_argument("--rounds", type=int, default=5, help="of each measurement [%(default)s]")
    asked = parser.parse_args(arguments)
    found = {
        name: {count: measured(name, count, asked.rounds) for count in counts}
        for name, counts in COUNTS.items()
    }
    rows = [
        [f"{count} {name}", f"{of['steps']:.0f}", f"{of['ms']:.1f} ms", f"{of['derived_ms']:.1f} ms"]
        for name, each in found.items()
        for count, of in each.items()
    ]
    print(markdown(["run", "steps", "all of them", "its order"], rows))
    write({"cpu": found}, asked.json)
    return 0


if __name__ == "__main__":
    sys.exit(main())
