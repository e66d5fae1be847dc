"""Is a small engine kept from answering until it is proven, and does it then answer? `python -m benchmarks.proof`.

Streams of recorded requests with scripted engines (benchmarks/proof/streams.py): junk, a mimic of the nearest example, good
ones, some that change, and one that is good at half of the topics. Every stream is played in 20 orders
through the product's gate, in process. A violation is an order in which the quality lost, averaged over the requests so
far, ever exceeds `max_loss`. With --sockets the orders go through `understudy serve --small --large`. Long answers need
a judge: it is simulated here, and always right but for the share of verdicts that --flips turns round.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import sys
from collections.abc import Sequence
from dataclasses import asdict
from typing import TypeVar

from benchmarks.options import options, write
from benchmarks.proof.replayed import MAX_LOSS, Run, replayed
from benchmarks.proof.sockets import SocketRun, over_sockets
from benchmarks.proof.streams import ENGINES, STREAMS
from benchmarks.recorded import NoData
from benchmarks.tables import markdown
from benchmarks.vectors import embedded

_Played = TypeVar("_Played", Run, SocketRun)


def main() -> None:
    """Play, and print one row per stream and engine."""
    parser = options(__doc__, data=True, cache=True)
    parser.add_argument("--seeds", type=int, default=20, help="orders of each stream [%(default)s]")
    parser.add_argument(
        "--first-seed", type=int, default=0, help="with --sockets: of the first order [%(default)s]"
    )
    parser.add_argument("--requests", type=int, default=5000, help="requests per stream [%(default)s]")
    parser.add_argument("--streams", nargs="*", choices=STREAMS, default=list(STREAMS))
    parser.add_argument("--engines", nargs="*", choices=ENGINES, default=list(ENGINES))
    parser.add_argument(
        "--theta", type=float, default=-1.0, help="least similarity of examples, in process [%(default)s]"
    )
    parser.add_argument(
        "--flips", type=float, default=0.0, help="share of verdicts that are wrong, in process"
    )
    parser.add_argument("--sockets", action="store_true", help="through a running gateway")
    parser.add_argument("--priced", action="store_true", help="with --sockets: with prices of 1 to 10")
    args = parser.parse_args()
    if args.sockets:
        _sockets(args)
        return
    runs: list[Run] = []
    for name in args.streams:
        runs += _played(name, args)
    print(markdown(_HEAD, [_row(group) for group in _grouped(runs)]))
    write([asdict(run) for run in runs], args.json)


def _sockets(args: argparse.Namespace) -> None:
    runs: list[SocketRun] = []
    for name in args.streams:
        try:
            recorded = STREAMS[name](args.data)
        except NoData as missing:
            print(missing)
            continue
        for engine in args.engines:
            for seed in range(args.first_seed, args.first_seed + args.seeds):
                run = asyncio.run(over_sockets(recorded, engine, seed, args.requests, priced=args.priced))
                print(run, file=sys.stderr, flush=True)
                runs.append(run)
                # What was played so far is kept if the rest is not.
                write([asdict(each) for each in runs], args.json)
    print(markdown(_SOCKETS_HEAD, [_sockets_row(group) for group in _grouped(runs)]))


_SOCKETS_HEAD = (
    "stream",
    "engine",
    "violations",
    "lost at most",
    "offloaded",
    "least offloaded",
    "last tenth",
    "first at",
    "compared",
    "seconds",
)


def _sockets_row(runs: Sequence[SocketRun]) -> tuple[object, ...]:
    first = [run.first for run in runs if run.first is not None]
    return (
        runs[0].stream,
        runs[0].engine,
        f"{sum(run.violated for run in runs)} of {len(runs)}",
        f"{max(run.most_lost for run in runs):.2%}",
        f"{statistics.mean(run.offloaded for run in runs):.1%}",
        f"{min(run.offloaded for run in runs):.1%}",
        f"{statistics.mean(run.offloaded_late for run in runs):.1%}",
        f"{statistics.median(first):.0f}" if first else "never",
        f"{statistics.mean(run.compared for run in runs):.0f}",
        f"{statistics.mean(run.seconds for run in runs):.0f}",
    )


def _played(name: str, args: argparse.Namespace) -> list[Run]:
    try:
        recorded = STREAMS[name](args.data)
    except NoData as missing:
        print(missing)
        return []
    vectors = embedded(recorded.texts, args.cache)
    return [
        replayed(recorded, vectors, engine, seed, args.requests, args.theta, args.flips)
        for engine in args.engines
        for seed in range(args.seeds)
    ]


_HEAD = (
    "stream",
    "engine",
    "violations",
    "lost at most",
    "lost",
    "offloaded",
    "last tenth",
    "oracle",
    "first at",
    "compared",
    "net saving",
    "least net, requests",
)


def _grouped(runs: Sequence[_Played]) -> list[list[_Played]]:
    groups: dict[tuple[str, str], list[_Played]] = {}
    for run in runs:
        groups.setdefault((run.stream, run.engine), []).append(run)
    return list(groups.values())


def _row(runs: Sequence[Run]) -> tuple[object, ...]:
    def mean(name: str) -> float:
        return statistics.mean(getattr(run, name) for run in runs)

    first = [run.first for run in runs if run.first is not None]
    return (
        runs[0].stream,
        runs[0].engine,
        f"{sum(run.most_lost > MAX_LOSS for run in runs)} of {len(runs)}",
        f"{max(run.most_lost for run in runs):.2%}",
        f"{mean('lost'):.2%}",
        f"{mean('offloaded'):.1%}",
        f"{mean('offloaded_late'):.1%}",
        f"{mean('oracle'):.1%}",
        f"{statistics.median(first):.0f}" if first else "never",
        f"{mean('compared'):.0f}",
        f"{mean('saved'):+.1%}",
        f"{min(run.least_saved for run in runs):.0f}",
    )


if __name__ == "__main__":
    main()
