"""Does routing learn from what it sees? `python -m benchmarks.routing`, on recorded quality of two engines per request.

Prequential: requests come one by one; router.choosing.chooser decides with router.choosing.bandit_vw; only the chosen
engine's outcome is seen; now and then a new bandit is trained on the log as the learner does it
(learning.training.bandit) and taken into use. Between trainings nothing changes, as in a worker. "bootstrap" is told
both outcomes of the first half, by labels.

APGR, CPT(50 %) and CPT(80 %) are RouteLLM's, over the second half of each stream, from the score each policy gave a request
before its outcome was known. kNN and logistic regression are told both outcomes of the first half. Regret is cumulative,
at the middle of the dial, against choosing by both outcomes. Prices and speeds of the two engines are assumptions (below);
APGR and CPT do not depend on them but through what was explored. Means over seeds, which shuffle the stream.
"""

from __future__ import annotations

import math
import platform
import random
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from benchmarks.options import options, write
from benchmarks.recorded import NoData
from benchmarks.routing.baselines import THETA, at_random, logistic, nearest_outcomes, novelty, prompt_length
from benchmarks.routing.data import Recorded, load
from benchmarks.routing.metrics import apgr, cpt
from benchmarks.routing.stream import DIAL, Stream, rewards

SETS = ("mmlu", "gsm8k", "mmlupro", "llmrouter", "alpacaeval")


def main() -> None:
    """Prints the tables; with --json also writes every figure."""
    arguments = options(__doc__, data=True, cache=True)
    arguments.add_argument("--seeds", type=int, default=5)
    arguments.add_argument("--sets", default=",".join(SETS))
    arguments.add_argument("--limit", type=int, help="requests per set, for a quick look")
    arguments.add_argument("--no-drift", action="store_true")
    chosen = arguments.parse_args()
    figures: dict[str, Any] = {
        "machine": f"{platform.machine()}, Python {platform.python_version()}",
        "seeds": chosen.seeds,
        "dial": DIAL,
        "sets": {},
    }
    for name in chosen.sets.split(","):
        try:
            recorded = load(name, chosen.data, chosen.cache, chosen.limit)
        except NoData as absent:
            print(f"{name}: {absent}")
            continue
        figures["sets"][name] = one_set(recorded, chosen.seeds)
        if name == "mmlu":
            figures["cost"] = cost(recorded)
            print_cost(figures["cost"])
        if name == "mmlupro" and not chosen.no_drift:
            figures["drift"] = drift(recorded, chosen.seeds)
            print_drift(figures["drift"])
        sys.stdout.flush()
        write(figures, chosen.json)


def one_set(recorded: Recorded, seeds: int) -> dict[str, Any]:
    """Every policy on one set, averaged over `seeds` orders of it."""
    found: dict[str, list[dict[str, float]]] = {}

    def note(policy: str, **figures: float) -> None:
        found.setdefault(policy, []).append(figures)

    for seed in range(seeds):
        stream = recorded.shuffled(seed)
        half = len(stream.prompts) // 2
        quality = stream.quality[half:]
        worth = rewards(stream.quality)

        def score(policy: str, scores: Any, truth: Any = quality, **more: float) -> None:
            note(
                policy,
                apgr=apgr(scores, truth),
                cpt50=cpt(scores, truth, 0.5),
                cpt80=cpt(scores, truth, 0.8),
                **more,
            )

        def played(picks: Any, stream: Recorded = stream, worth: Any = worth) -> dict[str, float]:
            rows = np.arange(len(picks))
            return {
                "quality": float(stream.quality[rows, picks].mean()),
                "large": float(picks.mean()),
                "regret": float((worth.max(1) - worth[rows, picks]).sum()),
            }

        n = len(stream.prompts)
        note("always small", **played(np.zeros(n, int)))
        note("always large", **played(np.ones(n, int)))
        coin = at_random(stream, seed)
        score("random", coin[half:], **played((coin < 0.5).astype(int)))
        score("prompt length", prompt_length(stream)[half:])
        new = novelty(stream)
        score("novelty (few_shot)", new[half:], **played((new > 1 - THETA).astype(int)))
        score("kNN, both outcomes", nearest_outcomes(stream, half))
        score("logistic, both outcomes", logistic(stream, half))
        for policy, told in (("learned, bandit feedback", 0), ("learned, bootstrap on half", half)):
            run = Stream(stream, seed, told=told).run()
            score(policy, run.scores[half:], **played(run.picks))
        best = worth.argmax(1)
        score("oracle", (stream.quality[:, 1] - stream.quality[:, 0])[half:], **played(best))
        print(".", end="", flush=True)
    print()
    summed = {policy: _means(rows) for policy, rows in found.items()}
    print_set(recorded, summed)
    return {
        "requests": len(recorded.prompts),
        "quality": [float(q) for q in recorded.quality.mean(0)],
        "policies": summed,
        "per_seed": found,
    }


def drift(recorded: Recorded, seeds: int) -> dict[str, Any]:
    """The engines swap their outcomes half-way: how long until the router follows, with old rows fading and without."""
    found: dict[str, Any] = {}
    for policy, half_life in (("old rows fade", 500.0), ("no decay", math.inf)):
        shares, waits = [], []
        for seed in range(seeds):
            stream = recorded.shuffled(seed)
            half = len(stream.prompts) // 2
            swapped = stream.quality.copy()
            swapped[half:] = swapped[half:, ::-1]
            run = Stream(replace(stream, quality=swapped), seed, dial=0.9, half_life_requests=half_life).run()
            right = np.zeros(len(swapped))
            right[half:] = (run.picks[half:] == swapped[half:].mean(0).argmax()).astype(float)
            right[:half] = (run.picks[:half] == swapped[:half].mean(0).argmax()).astype(float)
            shares.append([float(right[i : i + 250].mean()) for i in range(half - 500, half + 2500, 250)])
            rolling = np.convolve(right[half:], np.ones(200) / 200, "valid")
            reached = np.flatnonzero(rolling >= 0.5)
            waits.append(float(reached[0] + 200) if len(reached) else float(len(right) - half))
        found[policy] = {
            "share_on_the_better_engine": [float(s) for s in np.mean(shares, 0)],
            "requests_until_half_went_to_it": statistics.fmean(waits),
        }
    return found


def cost(recorded: Recorded, decisions: int = 5000) -> dict[str, float]:
    """CPU of one decision and of one lesson, on one thread: features, estimate, weighing and the draw."""
    stream = Stream(recorded.shuffled(0), 0)
    stream.told = min(2000, len(recorded.prompts) // 2)
    stream.train_now(stream.told)
    rng = random.Random(0)
    situations = [stream.situation(i % len(recorded.prompts)) for i in range(decisions)]
    choose: Callable[..., Any] = stream.chooser.choose
    for situation in situations[:200]:
        choose(situation, stream.bandit, rng)
    # In batches: on a machine that others use too, the quickest says what it costs, the median what it cost here.
    batches = []
    for start in range(0, decisions, decisions // 20):
        part = situations[start : start + decisions // 20]
        cpu = time.thread_time()
        for situation in part:
            choose(situation, stream.bandit, rng)
        batches.append((time.thread_time() - cpu) / len(part))
    lessons = stream.lessons(range(min(1000, len(recorded.prompts))))
    cpu = time.thread_time()
    assert stream.bandit is not None
    stream.bandit.learn(lessons)
    taught = time.thread_time() - cpu
    return {
        "decision_cpu_ms": min(batches) * 1e3,
        "decision_cpu_ms_median": statistics.median(batches) * 1e3,
        "decisions_per_cpu_s": 1 / min(batches),
        "lesson_cpu_ms": taught / len(lessons) * 1e3,
        "artifact_bytes": float(len(stream.bandit.save())),
    }


def print_set(recorded: Recorded, summed: dict[str, dict[str, float]]) -> None:
    """One table."""
    small, large = recorded.quality.mean(0)
    print(
        f"\n{recorded.name}: {len(recorded.prompts)} requests, {recorded.small} {small:.3f}, {recorded.large} {large:.3f}"
    )
    print(f"{'policy':28} {'APGR':>14} {'CPT50':>6} {'CPT80':>6} {'quality':>8} {'large':>6} {'regret':>7}")
    for policy, row in summed.items():
        spread = f"{row['apgr']:.3f} ±{row['apgr_sd']:.3f}" if "apgr" in row else ""
        print(
            f"{policy:28} {spread:>14} {_shown(row, 'cpt50', 2):>6} {_shown(row, 'cpt80', 2):>6}"
            f" {_shown(row, 'quality', 3):>8} {_shown(row, 'large', 2):>6} {_shown(row, 'regret', 0):>7}"
        )


def print_cost(figures: dict[str, float]) -> None:
    """One line."""
    print(
        f"\none decision {figures['decision_cpu_ms']:.3f} ms CPU (median batch {figures['decision_cpu_ms_median']:.3f}),"
        f" {figures['decisions_per_cpu_s']:.0f}/s on one core;"
        f" one lesson {figures['lesson_cpu_ms']:.3f} ms; artifact {figures['artifact_bytes'] / 1024:.0f} KiB"
    )


def print_drift(figures: dict[str, Any]) -> None:
    """Share of requests on the better engine around the swap."""
    print(
        "\nswap of outcomes half-way (dial 0.9): share on the better engine, 250 requests at a time, two before it"
    )
    for policy, row in figures.items():
        shares = " ".join(f"{s:4.2f}" for s in row["share_on_the_better_engine"])
        print(f"{policy:14} {shares}   half of them after {row['requests_until_half_went_to_it']:.0f}")


def _shown(row: dict[str, float], name: str, digits: int) -> str:
    return f"{row[name]:.{digits}f}" if name in row else ""


def _means(rows: list[dict[str, float]]) -> dict[str, float]:
    found = {name: float(np.mean([row[name] for row in rows])) for name in rows[0]}
    if "apgr" in found:
        found["apgr_sd"] = float(np.std([row["apgr"] for row in rows]))
    return found


if __name__ == "__main__":
    main()
