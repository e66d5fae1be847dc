"""What does a dollar of replay buy? `python -m benchmarks.replay --seeds 1 2 3 4 5`.

In the simulated world (benchmarks/replay/stage.py says what is simulated and what is real). A bank is filled from the log
of the engine that answered before the gateway came, which was wrong about three facts in ten and got no feedback. A second
day of traffic uses the bank: uses and gains gather, and a judge sees a small share. Then each arm gets a copy of that bank
and the same budget in dollars, spends it through the real planner and runner, and a third day shows what the small engine
makes of it:

    none        nothing is replayed
    random      distil examples in random order
    newest      distil the latest first
    most used   distil by uses alone
    gain        the plan as `understudy learn replay` makes it, distil only
    expand      the lines of that plan that expand, alone

quality: the mean grade of the small engine's answers where the rule offloads (nearest example of the same names within
0.77), by the world's own truth, each answered four times. share at .9: of all requests, the largest share that the small
engine could take, nearest first, with a mean grade of 0.9 at least. coverage: of requests about facts, the share with a
right example of every fact among the five that are sent. per dollar: gains over none, each over what was spent. All arms of
a seed meet the same requests.
"""

from __future__ import annotations

import asyncio
import json
import random
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from prometheus_client import CollectorRegistry

from benchmarks.options import options, write
from benchmarks.replay.stage import TENANT, THETA, Served, Stage, copied, follow
from benchmarks.tables import markdown
from engines.engine import Engine
from learning.replay.run import Replay
from router.embedding.model import users_models
from store.jobs.replay_records import NewStep, ReplayBudget
from store.records import Example
from understudy.memory import Memory
from understudy.settings.config import Config
from understudy.setup.engines import Tenants, engines
from understudy.setup.replay import replay

ARMS = ("none", "random", "newest", "most used", "gain", "expand")
DAYS = (1500, 1500, 1500)
GOOD = 0.9
MOST_STEPS = 20_000
"""Of a plan: more than there are examples, so that the money alone bounds what is done."""


def order(arm: str, seed: int) -> Callable[[Example], float]:
    """What an arm without a planner replays first: the highest."""
    rng = random.Random(seed)
    if arm == "random":
        return lambda example: rng.random()
    if arm == "newest":
        return lambda example: example.created_at_s
    return lambda example: example.used


async def spend(made: Replay, memory: Memory, arm: str, seed: int, usd: float) -> dict[str, Any]:
    """Spend the budget as the arm would; gives what came of it."""
    budget = ReplayBudget(usd=usd)
    if arm in ("gain", "expand"):
        # Planned with more than there is: estimates are for the most a step can cost, and the run stops at the budget.
        kind = "expand" if arm == "expand" else "distil"
        lines = await made.plan(ReplayBudget(usd=100 * usd), TENANT)
        planned = [line for line in lines if line.kind == kind]
    else:
        ranked = sorted(memory.store.examples.page(TENANT, limit=100_000), key=order(arm, seed), reverse=True)
        # No gain, so that what comes of a step moves no other: these arms keep to their order.
        planned = [
            NewStep(TENANT, "distil", e.id, 0.0, float(len(ranked) - n), 0.0, 0, 0.0)
            for n, e in enumerate(ranked)
        ]
    run_id = await asyncio.wrap_future(made.jobs.want(TENANT, budget, asked_by="command"))
    await asyncio.wrap_future(made.jobs.plan(run_id, planned))
    await made.take_up(run_id)
    steps = made.jobs.steps(run_id)
    results = [step.result for step in steps if step.state == "done"]
    return {
        "usd": made.jobs.asks.spent(run_id).most_usd,
        "steps": len(results),
        "results": {name: results.count(name) for name in sorted(set(results))},
    }


def figures(day: Sequence[Served]) -> dict[str, float]:
    """Of a day on one bank."""
    offloaded = [each for each in day if each.nearest >= THETA]
    facts = [each for each in day if each.about_facts]
    return {
        "quality": statistics.mean(each.grade for each in offloaded),
        "offloaded": len(offloaded) / len(day),
        "right": sum(each.grade for each in offloaded) / len(day),
        "share_good": share_at(day, GOOD),
        "coverage": statistics.mean(each.holds for each in facts),
    }


def share_at(day: Sequence[Served], quality: float) -> float:
    """The largest share of requests, nearest first, whose mean grade reaches `quality`."""
    best, total = 0, 0.0
    near = sorted((each for each in day if each.nearest > 0.0), key=lambda served: -served.nearest)
    for count, each in enumerate(near, 1):
        total += each.grade
        if total >= quality * count:
            best = count
    return best / len(day)


def arm_of(
    stage: Stage, prepared: Path, folder: Path, arm: str, usd: float, **settings: Any
) -> dict[str, Any]:
    """One arm: a copy of the bank, the money spent, the last day on it."""
    copied(prepared, folder)
    with stage.memory(folder, expand=arm == "expand", **settings) as (memory, config):
        follow(memory)
        spent: dict[str, Any] = {"usd": 0.0, "steps": 0, "results": {}}
        if arm != "none":
            spent = asyncio.run(_spent(stage, memory, config, arm, usd))
            follow(memory)
        return {**spent, **figures(stage.day(memory)), "right_in_bank": stage.right(memory)}


async def _spent(stage: Stage, memory: Memory, config: Config, arm: str, usd: float) -> dict[str, Any]:
    made: dict[str, Engine] = engines(config, Tenants(memory.store.secret))
    ready = replay(config, memory, made, CollectorRegistry())
    ready.planner = replace(ready.planner, most=MOST_STEPS)
    return await spend(ready, memory, arm, stage.seed, usd)


def seed_of(
    seed: int,
    arms: Sequence[str],
    usd: float,
    days: Sequence[int],
    facts: int,
    judged: float,
    **settings: Any,
) -> dict[str, Any]:
    """All arms of one seed."""
    with tempfile.TemporaryDirectory(prefix="replay-") as name:
        folder = Path(name)
        stage = Stage(seed, days, facts, users_models())
        prepared = stage.prepare(folder / "bank", judged)
        found = {
            arm: arm_of(stage, folder / "bank", folder / arm.replace(" ", "-"), arm, usd, **settings)
            for arm in arms
        }
    none = found["none"]
    for row in found.values():
        for figure in ("quality", "right", "share_good", "coverage"):
            row[f"{figure}_per_usd"] = (row[figure] - none[figure]) / row["usd"] if row["usd"] else 0.0
    return {"seed": seed, "prepared": prepared, "arms": found}


def main() -> None:
    """Prints a table per seed and the means; with --json also writes every figure."""
    parser = options(__doc__)
    parser.add_argument("--seeds", type=int, nargs="*", default=[1, 2, 3, 4, 5])
    parser.add_argument("--arms", nargs="*", default=list(ARMS), choices=ARMS)
    parser.add_argument("--usd", type=float, default=0.5, help="budget of each arm")
    parser.add_argument("--days", type=int, nargs=3, default=list(DAYS), help="requests of each day")
    parser.add_argument("--facts", type=int, default=3000)
    parser.add_argument("--judged", type=float, default=0.05, help="share of offloaded answers a judge sees")
    parser.add_argument("--samples", type=int, default=3)
    chosen = parser.parse_args()
    settings = {"samples": chosen.samples}
    found = []
    for seed in chosen.seeds:
        row = seed_of(seed, chosen.arms, chosen.usd, chosen.days, chosen.facts, chosen.judged, **settings)
        found.append(row)
        print(f"\nseed {seed}: {json.dumps({k: round(v, 3) for k, v in row['prepared'].items()})}")
        table({arm: [figures] for arm, figures in row["arms"].items()})
    print(f"\nmeans of seeds {', '.join(map(str, chosen.seeds))}, {chosen.usd:g} dollars each")
    table({arm: [row["arms"][arm] for row in found] for arm in chosen.arms})
    if {"random", "gain"} <= set(chosen.arms):
        ratio(found)
    write(found, chosen.json)


def table(rows: dict[str, list[dict[str, Any]]]) -> None:
    """Means of the rows of each arm."""
    head = ["arm", "dollars", "steps", "bettered", "added", "quality", "offloaded", "share at .9", "coverage"]
    head += ["bank right", "quality per dollar", "share per dollar"]
    formats = {"usd": ".3f", "steps": ".0f", "replaced": ".0f", "expanded": ".0f", "quality": ".3f"}
    formats |= {"offloaded": ".1%", "share_good": ".1%", "coverage": ".1%", "right_in_bank": ".1%"}
    formats |= {"quality_per_usd": ".3f", "share_good_per_usd": ".3f"}
    shown = []
    for arm, each in rows.items():
        means = [statistics.mean((row | row["results"]).get(name, 0) for row in each) for name in formats]
        shown.append([arm, *(f"{mean:{how}}" for mean, how in zip(means, formats.values(), strict=True))])
    print(markdown(head, shown), flush=True)


def ratio(found: Sequence[dict[str, Any]]) -> None:
    """What a dollar buys in the order of gain, over what it buys in random order, seed by seed and of the means."""

    def per_dollar(arm: str, row: dict[str, Any]) -> float:
        return float(row["arms"][arm]["quality_per_usd"])

    each = [(per_dollar("gain", row), per_dollar("random", row)) for row in found]
    seeds = ", ".join(f"{g / r:.1f}" if r > 0 else "inf" for g, r in each)
    mean_gain, mean_random = (statistics.mean(values) for values in zip(*each, strict=True))
    whole = mean_gain / mean_random if mean_random > 0 else float("inf")
    print(f"\ngain over random, quality per dollar: {whole:.2f} of the means; by seed {seeds}")


if __name__ == "__main__":
    began = time.perf_counter()
    main()
    print(f"{time.perf_counter() - began:.0f} s")
