"""Does it answer while everything fails? `make chaos`, or `python -m benchmarks.chaos [--minutes 10] [--seed 1]`.

A gateway of two workers with learner and admin pages, and three engines, each a process that counts what it charges, stand
a steady load of chats, responses, feedback, corrections, demonstrations and clients that leave. Meanwhile, in an order that
the seed draws, workers, the learner and the supervisor are killed, engines killed or stopped, the disk filled, the store
locked; with reloads in between. docs/experiments/chaos.md says what counts as answered, kept, within
budget and recovered. Exit status 1: something was not.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.chaos.faults import KINDS, ORDERS, Fault, Schedule
from benchmarks.chaos.site import Site, site
from benchmarks.chaos.traffic import Traffic
from benchmarks.chaos.verdict import (
    Violation,
    books,
    charged,
    lost,
    money,
    p90,
    quiet_p90,
    recovered_s,
    slowest,
    unanswered,
)
from benchmarks.options import options, write
from benchmarks.tables import markdown
from store.people.allowance import NANO

_WARM_S = 5.0
_QUIET_S = 12.0
_DRAINS_WITHIN_S = 90.0
_SHOWN = 30
_TIGHT_USD_PER_REQUEST = 0.000_01
"""What the key that is to run dry may spend, for each request of all keys: about half of what it would."""


async def chaos(
    made: Site,
    minutes: float,
    seed: int,
    rate: float,
    *,
    quiet_s: float = _QUIET_S,
    kinds: Sequence[str] = KINDS,
    orders: Sequence[str] = ORDERS,
    happens: Callable[[Any, Traffic, int], Schedule] = Schedule,
) -> dict[str, Any]:
    """Everything that was measured, as it is written with --json.

    `kinds`: of faults; `orders`: what an operator does in between, drawn from these; `happens` knows how they are done.
    """
    traffic = Traffic(made.urls, rate, seed)
    schedule = happens(made, traffic, seed)
    zero_s = time.monotonic()
    asking = asyncio.create_task(traffic.run())
    try:
        await asyncio.sleep(_WARM_S + quiet_s)
        before_s = time.monotonic()
        await schedule.run(zero_s + minutes * 60, kinds, orders)
    finally:
        traffic.stopping = True
    async with asyncio.timeout(_DRAINS_WITHIN_S):
        await asking
    warm = [a for a in traffic.asked if a.began_s >= zero_s + _WARM_S]
    usual_s = quiet_p90(warm, before_s)
    violations = unanswered(traffic.asked, schedule.faults, zero_s)
    # What a rate would refuse is asked for as well.
    made.config["keys"]["rated"]["limits"] = {}
    await asyncio.to_thread(made.hang_up)
    violations += await lost(traffic)
    sums = await _money(made, traffic, schedule.faults, violations)
    status = await asyncio.to_thread(made.stop)
    if status != 0:
        violations.append(Violation("end", f"the gateway ended with status {status}"))
    rows = [
        _row(fault, traffic, schedule.faults, usual_s, zero_s, violations, orders)
        for fault in schedule.faults
    ]
    return {
        "seed": seed,
        "minutes": minutes,
        "disk": made.disk or "RLIMIT_FSIZE",
        "quiet_p90_s": round(usual_s, 3),
        "normal_p90_s": round(slowest(usual_s), 3),
        "outcomes": dict(
            Counter(f"{a.kind}: {a.outcome}" for a in sorted(traffic.asked, key=lambda a: a.kind))
        ),
        "tries": dict(sorted(Counter(str(a.tries) for a in traffic.asked).items())),
        "kept": dict(Counter(one.kind for one in traffic.acknowledged)) | {"settlement": len(traffic.bills)},
        "money": sums,
        "logged": made.told(),
        "faults": rows,
        "violations": [{"promise": v.promise, "text": v.text} for v in violations],
    }


async def _money(
    made: Site, traffic: Traffic, faults: list[Fault], violations: list[Violation]
) -> dict[str, dict[str, float]]:
    sums = {}
    carried = sum(f.kind in ("engine killed", "engine stopped") for f in faults)
    for key in ("wide", "tight"):
        standing = await books(made.data, key, made.database_url)
        told = charged(made.ledger, key)
        usd = made.config["keys"][key]["limits"]["budgets"][0]["usd"]
        cut = sum(a.outcome == "cut" and a.key == key for a in traffic.asked)
        dry = any(a.key == key and "insufficient_quota" in a.note for a in traffic.asked)
        spent, estimated, left = standing.spent, standing.estimated, traffic.left[key]
        violations += money(
            key, round(usd * NANO), spent, estimated, told, left=left, cuts=cut + 4 * carried, dry=dry
        )
        amounts = {
            "budget": usd * NANO,
            "booked": standing.spent,
            "of it estimated": standing.estimated,
            "charged": told.heard + told.left,
            "charged, nobody there": told.unheard,
        }
        sums[key] = {name: round(nano / NANO, 6) for name, nano in amounts.items()}
    return sums


def _row(
    fault: Fault,
    traffic: Traffic,
    faults: list[Fault],
    usual_s: float,
    zero_s: float,
    violations: list[Violation],
    orders: Sequence[str],
) -> dict[str, Any]:
    recovery = recovered_s(traffic.asked, faults, fault, usual_s) if fault.kind not in orders else 0.0
    if recovery is None:
        violations.append(Violation("recovery", f"{fault.kind} over at {fault.over_s - zero_s:.1f} s"))
    until = fault.over_s + (recovery or 0.0)
    then = [a for a in traffic.asked if fault.began_s <= a.ended_s and a.began_s <= until]
    count = Counter(a.outcome for a in then)
    return {
        "at_s": round(fault.began_s - zero_s, 1),
        "fault": fault.kind,
        "what": fault.what,
        "lasted_s": round(fault.over_s - fault.began_s, 1),
        "requests": len(then),
        "tried_again": sum(a.tries > 1 or a.waited for a in then),
        "cut": count["cut"],
        "refused": count["refused"],
        "unknown": count["unknown"],
        "failed": count["failed"],
        "p90_s": round(p90([a.ended_s - a.began_s for a in then if a.outcome == "answered"]), 2),
        "normal_after_s": recovery,
    }


def report(figures: dict[str, Any]) -> str:
    """For people."""
    faults = figures["faults"]
    table = (
        markdown([*faults[0]], [[("-" if v is None else v) for v in row.values()] for row in faults])
        if faults
        else ""
    )
    lines = [
        f"seed {figures['seed']}, {figures['minutes']:g} minutes, disk: {figures['disk']}; p90 in quiet times "
        f"{figures['quiet_p90_s']} s, normal up to {figures['normal_p90_s']} s",
        table,
        *(f"{name}: {figures[name]}" for name in ("outcomes", "tries", "kept", "money", "logged")),
        f"{len(figures['violations'])} violations",
        *(f"  {v['promise']}: {v['text']}" for v in figures["violations"][:_SHOWN]),
    ]
    return "\n".join(lines)


def run(
    minutes: float, seed: int, rate: float, folder: Path, *, kept: bool = False, **more: Any
) -> dict[str, Any]:
    """As `chaos`, with everything that it takes running in `folder`. `kept`: the data folder is left there, too."""
    folder.mkdir(exist_ok=True)
    with site(folder, tight_usd(minutes, rate), kept=kept) as made:
        return asyncio.run(chaos(made, minutes, seed, rate, **more))


def tight_usd(minutes: float, rate: float) -> float:
    """The budget of the key that is to run dry."""
    return round(minutes * 60 * rate * _TIGHT_USD_PER_REQUEST, 6)


def name_of(kind: str) -> str:
    """How a kind is named on the command line."""
    return kind.replace(" ", "-")


def named(names: str, all_kinds: Sequence[str]) -> list[str]:
    """Kinds of faults and orders, by their names. Raises argparse.ArgumentTypeError."""
    kinds = {name_of(kind): kind for kind in all_kinds}
    unknown = [name for name in names.split(",") if name not in kinds]
    if unknown:
        raise argparse.ArgumentTypeError(f"unknown: {', '.join(unknown)}; there are {', '.join(kinds)}")
    return [kinds[name] for name in names.split(",")]


def command_line(
    doc: str | None, run: Callable[..., dict[str, Any]], kinds: Sequence[str], orders: Sequence[str]
) -> None:
    """Read the options, `run`, print the report; ends with status 1 where something was promised and did not hold."""
    parser = options(doc)
    parser.add_argument("--minutes", type=float, default=10.0, help="how long [%(default)s]")
    parser.add_argument("--seed", type=int, default=1, help="of faults and load [%(default)s]")
    parser.add_argument("--rate", type=float, default=10.0, help="requests per second [%(default)s]")
    parser.add_argument(
        "--keep",
        type=Path,
        metavar="DIR",
        help="run in this new folder, and leave the logs and the data folder there",
    )
    parser.add_argument(
        "--faults",
        type=partial(named, all_kinds=(*kinds, *orders)),
        metavar="NAMES",
        default=(*kinds, *orders),
        help=f"only these, separated by commas: {', '.join(map(name_of, (*kinds, *orders)))}",
    )
    chosen = parser.parse_args()
    only: dict[str, Any] = {
        "kinds": [kind for kind in kinds if kind in chosen.faults],
        "orders": [order for order in orders if order in chosen.faults],
    }
    if chosen.keep is not None:
        figures = run(chosen.minutes, chosen.seed, chosen.rate, chosen.keep, kept=True, **only)
    else:
        with tempfile.TemporaryDirectory(prefix="understudy-chaos-") as folder:
            figures = run(chosen.minutes, chosen.seed, chosen.rate, Path(folder), **only)
    print(report(figures))
    write(figures, chosen.json)
    sys.exit(1 if figures["violations"] else 0)


if __name__ == "__main__":
    command_line(__doc__, run, KINDS, ORDERS)
