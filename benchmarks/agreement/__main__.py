"""Does it pay to ask two small engines and serve what they agree on? `python -m benchmarks.agreement`, on recorded MMLU-Pro.

The first table ranks the second half of each order, as benchmarks.routing does: APGR by calls of the large engine
(RouteLLM's), and by what is spent with every extra small call paid for at 1:10. kNN sees both outcomes of the first half and
its own choices after. The second table plays each order through the gate: nothing is served before it is proven.
"""

from __future__ import annotations

import math
import statistics
from typing import Any

import numpy as np

from benchmarks.agreement.replayed import (
    MAX_LOSS,
    PRICE_SMALL,
    SMALL,
    Answers,
    Run,
    answers,
    paid_apgr,
    played,
)
from benchmarks.options import options, where, write
from benchmarks.recorded import NoData
from benchmarks.routing.baselines import at_random, prompt_length
from benchmarks.routing.estimators import nearest
from benchmarks.routing.metrics import apgr
from benchmarks.routing.stream import play

CASCADES = {"agreement of two": SMALL[:2], "agreement of three": SMALL}


def main() -> None:
    """Prints the tables; with --json also writes every figure."""
    arguments = options(__doc__, data=True, cache=True)
    arguments.add_argument("--seeds", type=int, default=10, help="orders of the stream")
    chosen = arguments.parse_args()
    try:
        recorded = answers(chosen.data, chosen.cache)
    except NoData as absent:
        print(absent)
        return
    ranked: dict[str, list[tuple[float, float]]] = {}
    runs: dict[str, list[Run]] = {}
    for seed in range(chosen.seeds):
        _one_order(recorded.shuffled(seed), seed, ranked, runs)
        print(".", end="", flush=True)
    figures: dict[str, Any] = {
        **where(),
        "ranked": ranked,
        "played": {name: _shown(each) for name, each in runs.items()},
    }
    write(figures, chosen.json)
    print(f"\n{len(recorded.letters)} requests, {chosen.seeds} orders\n")
    print("| policy | APGR by calls | APGR by spend |\n|---|---|---|")
    for name, pairs in ranked.items():
        print(f"| {name} | {_mean([a for a, _ in pairs])} | {_mean([b for _, b in pairs])} |")
    print(
        "\n| cascade, judge | promise kept | lost, at most | offloaded | last tenth | first | compared | net saving |"
    )
    print("|---|---|---|---|---|---|---|---|")
    for name, each in figures["played"].items():
        print(f"| {name} | {' | '.join(each.values())} |")


def _one_order(
    asked: Answers, seed: int, ranked: dict[str, list[tuple[float, float]]], runs: dict[str, list[Run]]
) -> None:
    stream = asked.stream
    half = len(stream.prompts) // 2
    quality = stream.quality[half:]

    def rank(name: str, scores: Any, extra: float = 0.0) -> None:
        found = apgr(scores[half:], quality), paid_apgr(scores[half:], quality, extra)
        ranked.setdefault(name, []).append(found)

    rank("random", at_random(stream, seed))
    rank("prompt length", prompt_length(stream))
    for k in (20, 50):
        rank(f"kNN {k}", play(stream, nearest(stream, k), "bootstrap", seed).scores)
    for name, members in CASCADES.items():
        extra = PRICE_SMALL * (len(members) - 1)
        rank(f"{name}, unranked", -asked.agree(members).astype(np.float64), extra)
        by_right = played(asked, members, "right", seed)
        rank(name, by_right.scores, extra)
        runs.setdefault(f"{name}, right", []).append(by_right)
        runs.setdefault(f"{name}, equal", []).append(played(asked, members, "equal", seed))


def _shown(runs: list[Run]) -> dict[str, str]:
    kept = sum(run.most_lost <= MAX_LOSS for run in runs)
    firsts = [run.first for run in runs if run.first is not None]
    return {
        "kept": f"{kept} of {len(runs)}",
        "most_lost": f"{statistics.fmean(r.lost for r in runs):.1%}, {max(r.most_lost for r in runs):.1%}",
        "offloaded": f"{statistics.fmean(run.offloaded for run in runs):.1%}",
        "last_tenth": f"{statistics.fmean(run.offloaded_late for run in runs):.1%}",
        "first": f"{statistics.median(firsts):.0f}" if firsts else "never",
        "compared": f"{statistics.fmean(run.compared for run in runs):.0f}",
        "saved": f"{statistics.fmean(run.saved for run in runs):.1%} ({min(run.saved for run in runs):.1%})",
    }


def _mean(values: list[float]) -> str:
    spread = statistics.stdev(values) / math.sqrt(len(values)) if len(values) > 1 else math.nan
    return f"{statistics.fmean(values):.3f} ± {1.96 * spread:.3f}"


if __name__ == "__main__":
    main()
