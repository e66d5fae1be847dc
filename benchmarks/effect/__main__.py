"""Streams of requests through `understudy serve` at its defaults: does a small engine come to answer, and is it as good?

    python -m benchmarks.effect --json effect.json [--only i,iii] [--quick] [--told FILE ...]

Recorded streams (i, ii, v) need recorded data; iii and iv real models (benchmarks/effect/weights.py; SMALL and LARGE name
others). A stream that lacks something is skipped, and says so. One at a time: models need the processors. What real models
said is kept in --cache. --rehearse plays none: it prints what `understudy rehearse` foresees of each, beside what opened as
it was played (--played). --told prints the table of JSON files that were written before.
"""

from __future__ import annotations

import asyncio
import datetime
import json
import os
import platform
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import aiohttp

from benchmarks.effect import streams
from benchmarks.effect.engines import PACE_S, Engine, Real, Recorded
from benchmarks.effect.playing import played
from benchmarks.effect.rehearsed import rehearsed
from benchmarks.effect.rehearsed import table as rehearsals
from benchmarks.effect.table import table
from benchmarks.effect.weights import WEIGHTS, NoModel, model_served
from benchmarks.options import options, write
from benchmarks.processes import NotReady
from benchmarks.recorded import ROOT, NoData
from router.embedding.onnx_session import import_onnxruntime

QUICK = 300
"""Requests of each stream with --quick."""


def main() -> None:
    """Plays what is asked for, and prints one table."""
    parser = options(__doc__, data=True, cache=True)
    parser.add_argument("--only", metavar="KEYS", default=",".join(streams.KEYS), help="[%(default)s]")
    parser.add_argument("--quick", action="store_true", help=f"the first {QUICK} requests of each stream")
    parser.add_argument(
        "--told", type=Path, nargs="+", metavar="FILE", help="print these files' table; play nothing"
    )
    parser.add_argument("--rehearse", action="store_true", help="rehearse the streams; play nothing")
    parser.add_argument(
        "--questions", type=int, default=100, help="with --rehearse: asked of each [%(default)s]"
    )
    parser.add_argument(
        "--played",
        type=Path,
        metavar="FILE",
        default=ROOT / "docs" / "experiments" / "effect.json",
        help="with --rehearse: what the streams came to [%(default)s]",
    )
    asked = parser.parse_args()
    found: list[dict[str, Any]] = []
    if asked.told:
        found = [row for file in asked.told for row in json.loads(file.read_text(encoding="utf-8"))]
    else:
        import_onnxruntime()  # before anything imports usearch
        for key in asked.only.split(","):
            try:
                quick = QUICK if asked.quick else None
                questions = asked.questions if asked.rehearse else 0
                row = asyncio.run(_play(key, asked.data, asked.cache, quick, questions=questions))
            except (NoData, NoModel, NotReady) as why:
                print(f"{key}: {str(why) if str(why).startswith('skipped') else f'skipped: {why}'}")
                continue
            found.append(row | where())
            # What was played so far is kept if the rest is not.
            write(found, asked.json)
    if asked.rehearse:
        played = json.loads(asked.played.read_text(encoding="utf-8"))
        print(rehearsals(found, {row["stream"]: row["offloaded"] for row in played}))
    else:
        print(table(found))


async def _play(key: str, data: Path, cache: Path, requests: int | None, *, questions: int) -> dict[str, Any]:
    stream, small = streams.stream(key, data, cache, requests)
    print(f"{key}: {stream.title}, {len(stream.texts)} requests", file=sys.stderr, flush=True)
    with ExitStack() as stack:
        async with aiohttp.ClientSession() as session:
            engines: dict[str, Engine] = {
                "small": Recorded(small, PACE_S["small"]),
                "large": Recorded(stream.recorded, PACE_S["large"], streams.second_answer(stream)),
            }
            for name in engines:
                if getattr(stream, name) == "real":
                    url = await asyncio.to_thread(stack.enter_context, model_served(name))
                    kept = cache / "effect" / f"{WEIGHTS[name].sha256[:8]}.jsonl"
                    engines[name] = Real(url.url, session, kept, PACE_S[name])
            if questions:
                return await rehearsed(stream, engines, questions=questions)
            return await played(stream, engines)


def where() -> dict[str, str]:
    """The date, commit and machine of what is measured."""
    commit = subprocess.run(
        ["git", "rev-parse", "--short=8", "HEAD"], cwd=ROOT, capture_output=True, text=True
    ).stdout
    return {
        "date": datetime.date.today().isoformat(),
        "commit": commit.strip(),
        "machine": f"{platform.machine()}, {os.cpu_count()} CPUs, Python {platform.python_version()}",
    }


if __name__ == "__main__":
    main()
