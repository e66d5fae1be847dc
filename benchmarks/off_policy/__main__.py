"""Do the intervals of `understudy learn evaluate` cover the truth? `python -m benchmarks.off_policy`.

On recorded questions the answers of both engines are known, so what any policy would have brought is known too. Each
repetition draws questions, lets a logging policy with known probabilities decide, hides the answer not taken and, where
judging is sampled, most of what was, and estimates the quality of other policies from what is left. "covers" is the share of
repetitions whose 95 % interval holds the truth; with 200 repetitions 95 % comes out between 92 % and 98 %, and 90 %
between 86 % and 94 %. Widths are medians; ESS is the median effective sample size; "rmse" is the estimate's own error.

Questions are drawn with replacement, so the log may be longer than the file. Cost is modelled: price by length.
"""

from __future__ import annotations

import time
import zlib
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from benchmarks.options import options, write
from benchmarks.recorded import NoData, rows
from learning.evaluation.off_policy import METHODS, Figure, Log, estimate

Floats = npt.NDArray[np.float64]
SIZES = (200, 1000, 5000)
JUDGED = (1.0, 0.3)
FILES = {
    "mmlu": ("router_mmlu_routellm_open.jsonl.gz", "mixtral-8x7b-instruct", "gpt-4-1106-preview"),
    "gsm8k": ("router_gsm8k_routellm.jsonl.gz", "mixtral-8x7b-instruct", "gpt-4-1106-preview"),
    "mmlu-pro": ("router_mmlupro_open.jsonl.gz", "Meta-Llama-3_1-8B-Instruct", "Meta-Llama-3_1-70B-Instruct"),
}
HASHED = 24
USD_PER_CHARACTER = (0.06e-6, 2.5e-6)
"""Small and large, about 0.24 and 10 USD per million tokens."""


class Recorded(NamedTuple):
    """Questions with both engines' outcomes."""

    name: str
    quality: Floats
    """[questions, 2]: small, large."""
    cost_usd: Floats
    features: Floats
    """[questions, d]"""
    score: Floats
    """[questions]: rank by length, 0 to 1; what logging and target policies look at."""


def main() -> None:
    """Prints a table per file; with --json also writes every figure."""
    arguments = options(__doc__, data=True)
    arguments.add_argument("--repetitions", type=int, default=200)
    arguments.add_argument("--resamples", type=int, default=400)
    arguments.add_argument("--sizes", type=int, nargs="*", default=list(SIZES))
    arguments.add_argument("--only", nargs="*", default=list(FILES), choices=list(FILES))
    chosen = arguments.parse_args()
    found: list[dict[str, Any]] = []
    for name in chosen.only:
        file, small, large = FILES[name]
        try:
            recorded = read(name, chosen.data / file, small, large)
        except NoData as absent:
            print(absent)
            continue
        print(
            f"\n{name}: {len(recorded.quality)} questions, right: small {recorded.quality[:, 0].mean():.3f},"
            f" large {recorded.quality[:, 1].mean():.3f}"
        )
        print(
            f"{'log':<8} {'judged':>6} {'n':>5} {'target':<10} {'truth':>6} {'ESS':>6}"
            + "".join(f" | {method:>5}: covers width  rmse" for method in METHODS)
        )
        for n in chosen.sizes:
            for logging in ("even", "leaning", "greedy"):
                for judged in JUDGED:
                    measured = measure(recorded, logging, judged, n, chosen.repetitions, chosen.resamples)
                    found += measured
                    for row in measured:
                        print(line(row), flush=True)
    summary(found)
    write(found, chosen.json)


def read(name: str, path: Path, small: str, large: str) -> Recorded:
    """Both engines' outcomes and cheap features of the question: lengths, shape, and hashed words. Raises NoData."""
    quality, texts = [], []
    for each in rows(path):
        texts.append(each.get("prompt") or "\n".join([each["question"], *each["options"]]))
        told = each.get("correct") or {engine: each["models"][engine]["correct"] for engine in (small, large)}
        quality.append([float(told[small]), float(told[large])])
    lengths = np.array([len(text) for text in texts], np.float64)
    features = np.zeros((len(texts), HASHED + 3))
    for row, text in enumerate(texts):
        for word in text.lower().split():
            features[row, zlib.crc32(word.encode()) % HASHED] += 1.0
        features[row, HASHED:] = [
            np.log1p(len(text)),
            sum(c.isdigit() for c in text) / len(text),
            text.count("\n"),
        ]
    features[:, :HASHED] = np.log1p(features[:, :HASHED])
    score = np.argsort(np.argsort(lengths, kind="stable"), kind="stable") / len(lengths)
    return Recorded(name, np.array(quality), lengths[:, None] * np.array(USD_PER_CHARACTER), features, score)


def logged_with(logging: str, score: Floats) -> Floats:
    """[n, 2]: even takes either engine alike; leaning has 0.1 to 0.9 by length; greedy is sure but for 5 %."""
    if logging == "even":
        large = np.full(len(score), 0.5)
    elif logging == "leaning":
        large = 0.1 + 0.8 / (1.0 + np.exp(-8.0 * (score - 0.5)))
    else:
        large = np.where(score > 0.5, 0.95, 0.05)
    return np.stack([1.0 - large, large], axis=1)


def targets(score: Floats) -> dict[str, Floats]:
    """Other policies' probabilities, [n, 2] each."""
    n = len(score)
    longest = (score > 0.75).astype(np.float64)
    return {
        "small": np.tile([1.0, 0.0], (n, 1)),
        "large": np.tile([0.0, 1.0], (n, 1)),
        "longest": np.stack([1.0 - longest, longest], axis=1),
        "mixed": np.tile([0.7, 0.3], (n, 1)),
    }


def measure(
    recorded: Recorded, logging: str, judged: float, n: int, repetitions: int, resamples: int
) -> list[dict[str, Any]]:
    """Coverage, width and error of each method for each target."""
    truths = {
        name: float((target * recorded.quality).sum(1).mean())
        for name, target in targets(recorded.score).items()
    }
    seen: dict[tuple[str, str], list[tuple[float, float, float]]] = {}
    samples: dict[str, list[float]] = {}
    for repetition in range(repetitions):
        rng = np.random.default_rng([repetition, n, zlib.crc32(f"{recorded.name}{logging}{judged}".encode())])
        log, score = drawn(recorded, logging, judged, n, rng)
        for name, target in targets(score).items():
            figure = Figure(log.quality, np.isfinite(log.quality), (0.0, 1.0))
            estimates = estimate(log, target, {"quality": figure}, resamples=resamples, seed=repetition)[
                "quality"
            ]
            samples.setdefault(name, []).append(estimates["ips"].effective_samples)
            for method, each in estimates.items():
                seen.setdefault((name, method), []).append((each.value, *each.interval))
    found = []
    for name, truth in truths.items():
        row: dict[str, Any] = {
            "file": recorded.name,
            "logging": logging,
            "judged": judged,
            "n": n,
            "target": name,
            "truth": truth,
            "effective_samples": float(np.median(samples[name])),
        }
        for method in METHODS:
            value, low, high = np.array(seen[name, method]).T
            row[method] = {
                "covers": float(((low <= truth) & (truth <= high)).mean()),
                "width": float(np.median(high - low)),
                "rmse": float(np.sqrt(np.mean((value - truth) ** 2))),
                "bias": float(np.mean(value) - truth),
            }
        found.append(row)
    return found


def drawn(
    recorded: Recorded, logging: str, judged: float, n: int, rng: np.random.Generator
) -> tuple[Log, Floats]:
    """A log of n decisions, and the questions' scores."""
    which = rng.integers(0, len(recorded.quality), n)
    score = recorded.score[which]
    probabilities = logged_with(logging, score)
    chosen = (rng.random(n) < probabilities[:, 1]).astype(np.int64)
    quality = recorded.quality[which, chosen]
    quality = np.where(rng.random(n) < judged, quality, np.nan)
    cost_usd = recorded.cost_usd[which, chosen]
    log = Log(
        probabilities, chosen, quality, np.full(n, judged), cost_usd, cost_usd * 0.0, recorded.features[which]
    )
    return log, score


def line(row: dict[str, Any]) -> str:
    """One row of the table."""
    return (
        f"{row['logging']:<8} {row['judged']:>6} {row['n']:>5} {row['target']:<10} {row['truth']:>6.3f}"
        f" {row['effective_samples']:>6.0f}"
        + "".join(
            f" | {row[m]['covers']:>12.1%} {row[m]['width']:>6.3f} {row[m]['rmse']:>5.3f}" for m in METHODS
        )
    )


def summary(found: list[dict[str, Any]]) -> None:
    """Least and mean coverage per size and method, and how much narrower dr is than ips."""
    print("\nover all files, logs and targets")
    for n in sorted({row["n"] for row in found}):
        of = [row for row in found if row["n"] == n]
        for method in METHODS:
            covers = [row[method]["covers"] for row in of]
            width = np.median([row[method]["width"] / max(row["ips"]["width"], 1e-9) for row in of])
            below = sum(each < 0.9 for each in covers)
            print(
                f"n={n:<5} {method:<6} covers {np.mean(covers):.1%} on average, {min(covers):.1%} at least,"
                f" below 90 % in {below} of {len(of)} settings; width {width:.2f} of ips'"
            )


if __name__ == "__main__":
    began = time.perf_counter()
    main()
    print(f"{time.perf_counter() - began:.0f} s")
