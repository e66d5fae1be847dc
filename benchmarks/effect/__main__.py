"""Does a small model with past answers do what a large one does? First without the gateway, then through it.

    python -m benchmarks.effect --json effect.json [--only nl2bash,iii] [--quick] [--told FILE ...]
    python -m benchmarks.effect --offline [--questions N] --json offline.json
    python -m benchmarks.effect --rehearse [--only i,ii] [--questions N] --json rehearsed.json

Offline: real models are asked the questions of recorded sets, with examples chosen in every way (benchmarks.effect.asking)
Streams: requests through `understudy serve` at its defaults: does a small engine come to answer, and as well? i, ii and
v need recorded answers only. Real models are those of benchmarks.effect.weights, or SMALL and LARGE. What lacks something is
skipped, and says so. One at a time: models need the processors. What they said is kept in --cache, so that all of it can be
gone on with. --rehearse plays no stream: it prints what `understudy learn rehearse` foresees of each, beside
what opened when it
was played (--played). --told prints the tables of JSON files that were written before.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import aiohttp

from benchmarks.effect import offline, streams
from benchmarks.effect.engines import PACE_S, Engine, Real, Recorded
from benchmarks.effect.playing import played
from benchmarks.effect.rehearsed import rehearsed
from benchmarks.effect.rehearsed import table as rehearsals
from benchmarks.effect.sets import HELD_OUT, SETS, question_set
from benchmarks.effect.table import table
from benchmarks.effect.weights import WEIGHTS, NoModel, model_served
from benchmarks.options import options, where, write
from benchmarks.processes import NotReady
from benchmarks.recorded import ROOT, NoData
from router.embedding.onnx_session import import_onnxruntime

QUICK, QUICK_QUESTIONS = 300, 20
"""Requests of each stream, and questions of each set, with --quick."""
REHEARSED = 100


def main() -> None:
    """Asks and plays what is wanted, and prints a table of each set and one of the streams."""
    parser = options(__doc__, data=True, cache=True)
    every = [*SETS, *streams.KEYS]
    parser.add_argument(
        "--only", metavar="KEYS", type=lambda keys: keys.split(","), help=f"[{','.join(every)}]"
    )
    parser.add_argument("--offline", action="store_true", help=f"only {','.join(SETS)}")
    parser.add_argument(
        "--questions",
        type=int,
        metavar="N",
        help=f"of each set [{HELD_OUT}]; with --rehearse: of each stream [{REHEARSED}]",
    )
    parser.add_argument(
        "--quick", action="store_true", help=f"{QUICK_QUESTIONS} questions, and the first {QUICK} requests"
    )
    parser.add_argument(
        "--order",
        type=int,
        default=0,
        help="seed of the streams' order; 0: the order of record [%(default)s]",
    )
    parser.add_argument(
        "--kept", action="store_true", help="offline, of the answers that are kept; nobody is asked"
    )
    parser.add_argument(
        "--told", type=Path, nargs="+", metavar="FILE", help="print these files' tables; ask nobody"
    )
    parser.add_argument("--rehearse", action="store_true", help="rehearse the streams; play nothing")
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
        questions = asked.questions or (QUICK_QUESTIONS if asked.quick else HELD_OUT)
        usual = list(SETS) if asked.offline else list(streams.KEYS) if asked.rehearse else every
        keys = asked.only or usual
        try:
            sets = [key for key in keys if key in SETS]
            found = asyncio.run(_ask(sets, asked.data, asked.cache, questions, asked.kept)) if sets else []
        except (NoModel, NotReady) as why:
            _skipped("offline", why)
        for key in [key for key in keys if key not in SETS]:
            try:
                quick = QUICK if asked.quick else None
                questions = (asked.questions or REHEARSED) if asked.rehearse else 0
                row = asyncio.run(
                    _play(key, asked.data, asked.cache, quick, questions=questions, order=asked.order)
                )
            except (NoData, NoModel, NotReady) as why:
                _skipped(key, why)
                continue
            found.append(row | where())
            # What was played so far is kept if the rest is not.
            write(found, asked.json)
        write(found, asked.json)
    for row in found:
        if "set" in row:
            print(offline.table(row))
    of_streams = [row for row in found if "stream" in row]
    if asked.rehearse:
        played = json.loads(asked.played.read_text(encoding="utf-8"))
        print(rehearsals(of_streams, {row["stream"]: row["offloaded"] for row in played}))
    elif of_streams:
        print(table(of_streams))


def _skipped(what: str, why: Exception) -> None:
    print(f"{what}: {str(why) if str(why).startswith('skipped') else f'skipped: {why}'}")


async def _ask(
    keys: Sequence[str], data: Path, cache: Path, questions: int, kept: bool
) -> list[dict[str, Any]]:
    sets = []
    for key in keys:
        try:
            sets.append(question_set(key, data, cache, questions))
        except NoData as why:
            _skipped(key, why)
    if not sets:
        return []
    began = time.monotonic()
    with ExitStack() as stack:
        async with _session() as session:
            names = ["small"] if all(of.recorded_large for of in sets) else ["small", "large"]
            engines = {name: await _real(name, stack, session, cache, 0.0, kept) for name in names}
            rows = await offline.outcomes(sets, engines, cache)
    return [row | where() | {"wall_s": round(time.monotonic() - began, 1)} for row in rows]


async def _play(
    key: str, data: Path, cache: Path, requests: int | None, *, questions: int, order: int
) -> dict[str, Any]:
    stream, small = streams.stream(key, data, cache, requests, order)
    print(f"{key}: {stream.title}, {len(stream.texts)} requests", file=sys.stderr, flush=True)
    with ExitStack() as stack:
        async with _session() as session:
            engines: dict[str, Engine] = {
                "small": Recorded(small, PACE_S["small"]),
                "large": Recorded(stream.recorded, PACE_S["large"], streams.second_answer(stream)),
            }
            for name in engines:
                if getattr(stream, name) == "real":
                    engines[name] = await _real(name, stack, session, cache, PACE_S[name])
            if questions:
                return await rehearsed(stream, engines, questions=questions)
            return await played(stream, engines)


def _session() -> aiohttp.ClientSession:
    # While vectors are computed between two sets, a server closes connections that nobody uses.
    return aiohttp.ClientSession(connector=aiohttp.TCPConnector(force_close=True))


async def _real(
    name: str,
    stack: ExitStack,
    session: aiohttp.ClientSession,
    cache: Path,
    pace_s: float,
    kept: bool = False,
) -> Real:
    url = None if kept else (await asyncio.to_thread(stack.enter_context, model_served(name))).url
    return Real(url, session, cache / "effect" / f"{WEIGHTS[name].sha256[:8]}.jsonl", pace_s)


if __name__ == "__main__":
    main()
