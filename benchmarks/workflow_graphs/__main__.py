"""What does planning a workflow of twelve steps cost?

CPU time of this process, all passes on; the fastest round counts, since whatever else the machine does only adds to it.

    python -m benchmarks.workflow_graphs [--json FILE] [--rounds N]
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping
from typing import Any

from benchmarks.options import options, write
from benchmarks.tables import markdown
from workflows.declared import World, read_definition
from workflows.definition import PASSES, Definition
from workflows.plan import Profile, planned

ASKED_MS = {"planned": 0.5}
_PER_ROUND = 20
PROFILE = Profile({"local": 16, "scores": 8})
WORLD = World(
    {"scores": frozenset({"rerank"}), "notify": frozenset({"tool"})},
    is_model=lambda name: True,
    taken=lambda name: False,
)


def _questions(number: int, then: str) -> dict[str, Any]:
    """Six steps: advanced RAG."""
    n = str(number)
    return {
        f"chunks{n}": {"split": "{{documents}}", "tokens": 256, "overlap": 30},
        f"index{n}": {"ingest": f"{{{{chunks{n}}}}}"},
        f"queries{n}": {
            "chat": f"As a JSON list: {{{{{then}}}}}",
            "model": "m",
            "splits": "json",
            "items": 3,
        },
        f"found{n}": {"search": f"{{{{queries{n}}}}}", "in": f"{{{{index{n}}}}}", "k": 16},
        f"top{n}": {"rerank": f"{{{{found{n}}}}}", "by": "{{question}}", "k": 3},
        f"answer{n}": {"fold": f"{{{{top{n}}}}}", "chat": "{{question}} {{item}} {{so_far}}", "model": "m"},
    }


def definitions() -> Mapping[str, Definition]:
    """Workflows of twelve steps, by what they are."""
    inputs = {"question": "last_user", "documents": "texts"}
    twice = {**_questions(1, "question"), **_questions(2, "answer1")}
    acting = dict(_questions(1, "question"))
    for number in range(6):
        acting[f"tell{number}"] = {"tool": "notify", "args": {"text": "{{answer1}}"}, "effects": True}
    chain = [{name: step} for name, step in acting.items()]
    written = {
        "advanced RAG, twice": {"inputs": inputs, "steps": twice, "output": "answer2"},
        "the same as a chain": {
            "inputs": inputs,
            "chain": [{name: step} for name, step in twice.items()],
            "output": "answer2",
        },
        "a chain with six effects": {"inputs": inputs, "chain": chain, "output": "answer1"},
    }
    return {name: read_definition("benchmarked", value, WORLD) for name, value in written.items()}


def cpu_ms(work: Callable[[], object], times: int, rounds: int) -> float:
    """Milliseconds of CPU that one call takes, in the fastest of some rounds of so many calls."""
    fastest = float("inf")
    for _ in range(rounds):
        began = time.process_time()
        for _ in range(times):
            work()
        fastest = min(fastest, (time.process_time() - began) / times)
    return fastest * 1000


def measured(definition: Definition, rounds: int) -> dict[str, float]:
    """Milliseconds of CPU by what is done."""
    everything = frozenset(PASSES)
    return {"planned": cpu_ms(lambda: planned(definition, PROFILE, everything), _PER_ROUND, rounds)}


def main(arguments: list[str] | None = None) -> int:
    """Print the table. 1 where something takes longer than was asked for."""
    parser = options(__doc__)
    parser.add_argument("--rounds", type=int, default=10, help="of each measurement [%(default)s]")
    asked = parser.parse_args(arguments)
    figures = {name: measured(definition, asked.rounds) for name, definition in definitions().items()}
    rows = [[name, *(f"{of[what]:.3f} ms" for what in ASKED_MS)] for name, of in figures.items()]
    print(markdown(["twelve steps", *(f"{what} (asked: {ms} ms)" for what, ms in ASKED_MS.items())], rows))
    write({"asked_ms": ASKED_MS, "cpu_ms": figures}, asked.json)
    slow = [(name, what) for name, of in figures.items() for what, ms in ASKED_MS.items() if of[what] > ms]
    for name, what in slow:
        print(f"missed: {name}, {what}")
    return 1 if slow else 0


if __name__ == "__main__":
    sys.exit(main())
