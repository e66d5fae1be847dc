"""Passes on against off over two real vLLM servers on this machine: `python -m benchmarks.workflows --real`.

Real are the gateways and their sockets, the embedder, the indexes (usearch), vLLM and every time. The models are the tiny
ones of `benchmarks.tiny_models`, which know nothing of these documents: what they write is not worth reading.
"""

from __future__ import annotations

import argparse
import os
import platform
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from benchmarks.options import write
from benchmarks.recorded import NoData
from benchmarks.tiny_models import building
from benchmarks.vllm import environment
from benchmarks.vllm import serving as vllm_serving
from benchmarks.vllm.serving import Served
from benchmarks.workflows.questions import Question, questions
from benchmarks.workflows.real_measuring import WARM_UPS, Measured, measured

WRITER = "lead"
CONTEXT_TOKENS = 2048
LONGER = (
    *("--max-model-len", str(CONTEXT_TOKENS)),
    *("--hf-overrides", f'{{"max_position_embeddings": {CONTEXT_TOKENS}}}'),
)
"""The tiny models were made for 1,024 tokens. Their tokenizer takes one for 1.5 characters of these documents, so that a
prompt with a passage of 256 of the embedder's tokens has about 1,000 of them: they are served with more positions than they
were trained for."""
ABOUT = (
    f"Times are real, texts are not: the tiny model `{WRITER}` knows nothing of these documents. It is served twice, as two "
    f"replicas, with {CONTEXT_TOKENS} positions, of which it was trained for 1,024; it takes one token for 1.5 characters. "
    "The question's rewriting is held to a list by structured output, answers have 32 tokens."
)


class Absent(Exception):
    """Something that this needs is not here; the text says what, and what to do."""


def main(arguments: argparse.Namespace) -> int:
    """Measure and print; `arguments` has data, requests and json. 0 where it was skipped, 1 where a figure was missed."""
    try:
        asked = questions(arguments.data)[: WARM_UPS + arguments.requests]
        with (
            tempfile.TemporaryDirectory(prefix="understudy-workflows-") as folder,
            servers(Path(folder)) as two,
        ):
            found = both_ways(Path(folder), two, asked)
    except (NoData, Absent) as why:
        print(why)
        return 0
    return report(found, ABOUT, arguments.json)


@contextmanager
def servers(folder: Path) -> Iterator[tuple[Served, Served]]:
    """Two of the same model. Raises Absent."""
    installed, models = environment.folder(), building.folder()
    if not environment.is_installed(installed):
        raise Absent(f"skipped: vLLM is not installed in {installed}; run `make vllm-env`, or set VLLM_ENV")
    if not building.is_built(models, WRITER):
        raise Absent(f"skipped: no tiny models in {models}; run `make tiny-models`, or set TINY_MODELS")
    with ExitStack() as stack:
        two = []
        for _ in range(2):
            two.append(vllm_serving.start(installed, models / WRITER, WRITER, folder, *LONGER))
            stack.callback(two[-1].stop)
        say("two servers of vLLM are starting")
        vllm_serving.wait(*two)
        yield two[0], two[1]


def both_ways(folder: Path, two: tuple[Served, Served], asked: list[Question]) -> dict[str, Measured]:
    """As a chain of modules, and written with references alone."""
    found = {}
    for way, chained in (("chain", True), ("steps", False)):
        say(f"written as {way}: s without passes, s with them")
        found[way] = measured(folder / way, two, asked, say, chained=chained)
        say(f"{way}: {found[way].ratio:.2f}x; processes at work in the last minute: {os.getloadavg()[0]:.1f}")
        # Whoever comes next finds no prompt in the servers' caches: its tenants have other salts.
    return found


def report(found: dict[str, Measured], about: str, path: Path | None) -> int:
    """Print, and write. 1 where an asked figure was missed; those are of the chain, as in virtual time."""
    print(about)
    for way, one in found.items():
        print(f"\nWritten as `{way}:`\n")
        print("\n".join(one.lines()))
    machine = f"{platform.machine()}, {os.cpu_count()} CPUs, Python {platform.python_version()}"
    load = os.getloadavg()
    print(
        f"\n{machine}. Processes at work, mean of 1, 5 and 15 minutes: {', '.join(f'{each:.1f}' for each in load)}"
    )
    figures: dict[str, Any] = {name: one.as_json() for name, one in found.items()}
    write({"about": about, "machine": machine, "load": load, "found": figures}, path)
    chain = found["chain"].as_json()
    reached = chain["ratio"] >= chain["asked_ratio"]
    return 0 if reached else 1


_BEGAN = time.monotonic()


def say(what: str) -> None:
    """Progress."""
    print(f"{time.monotonic() - _BEGAN:6.0f} s  {what}", file=sys.stderr, flush=True)
