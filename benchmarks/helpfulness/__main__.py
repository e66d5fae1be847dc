"""Is what helps chosen, rather than what is similar? In the simulated world, where true gains are known.

    python -m benchmarks.helpfulness [--requests 3000] [--seed 7] [--worlds 7 11]

A stream is served with varying sets of examples (their number drawn, now and then one exchanged), each answer is graded
once, for some requests also an answer without examples; the scorer is trained on that and on which of the bank's own answers
agree. Then, on later requests of the same world and on another world whose facts it never saw, the understudy's true
expected quality under each way to choose: no examples, random, the nearest, by the prior, by the trained scorer and the
combiner, and the best set there is. And, with a bank that holds nothing about what is asked, whether choosing does harm.

The oracle knows which facts the understudy knows by itself, which no request tells; a scorer cannot reach it entirely.
benchmarks.helpfulness.recorded asks the same on recorded data, benchmarks.helpfulness.engines with real models.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.helpfulness.choosing import (
    CANDIDATES,
    MOST,
    choose,
    drawn,
    opened,
    outcome,
    study_options,
)
from benchmarks.helpfulness.world import (
    LEAD,
    SECONDS_APART,
    Bank,
    Played,
    best_set,
    expected_quality,
    graded,
    is_remembered,
    play,
    remembered,
)
from benchmarks.options import write
from benchmarks.tables import markdown
from learning.training.scorer.lessons import Lessons, lessons
from learning.training.scorer.rows import Row
from learning.training.scorer.training import trained
from router.embedding.embedder import Embedder
from router.embedding.model import prepare
from router.examples.features import Features, RequestView
from router.examples.prior import prior_model
from router.examples.rarity import Rarity
from router.examples.scorer import Scorer
from router.plan import Candidate
from router.prompt import example_tokens
from simulation.world import World

WARM_UP = 300
"""Requests before outcomes are collected: the bank is still empty."""
COUNTERFACTUAL = 0.3
"""Of the training stream: how often an answer without examples is asked for, too."""


@dataclass
class Clock:
    """The simulated world's: by any other, all of its examples are half a century old."""

    now_s: float = 0.0

    def __call__(self) -> float:
        return self.now_s


CLOCK = Clock()
SEED = 1


@dataclass
class Sum:
    """What one way of choosing came to."""

    quality: float = 0.0
    replies: float = 0.0
    tokens: int = 0
    examples: int = 0
    requests: int = 0

    def add(self, played: Played, i: int, chosen: Sequence[Candidate]) -> None:
        """Asks request `i` with these examples."""
        self.quality += expected_quality(played.world, played.asks[i], chosen)
        self.replies += graded(played.world, played.asks[i], chosen)
        self.tokens += sum(example_tokens(c) for c in chosen)
        self.examples += len(chosen)
        self.requests += 1

    def means(self) -> dict[str, float]:
        """Per request."""
        n = self.requests
        return {
            "quality": self.quality / n,
            "graded": self.replies / n,
            "tokens": self.tokens / n,
            "examples": self.examples / n,
        }


def view(played: Played, i: int) -> RequestView:
    """Request `i` as the scorer sees it."""
    return RequestView(played.texts[i], played.vectors[i], LEAD)


def collected(played: Played, upto: int, features: Features, seed: int) -> list[Row]:
    """Outcomes of the first `upto` requests, served with varying examples and graded once each."""
    rng, bank, rows = random.Random(seed), Bank(played), []
    for i in range(upto):
        near = bank.near(i, CANDIDATES) if i >= WARM_UP else []
        if near:
            rows.append(_row(played, i, near, drawn(rng, near), features, 1.0))
            if rng.random() < COUNTERFACTUAL:
                rows.append(_row(played, i, near, [], features, 1 / COUNTERFACTUAL))
        if is_remembered(i, seed):
            bank.add(i)
    return rows


def taught(played: Played, upto: int, features: Features, seed: int) -> Lessons:
    """What the bank of the first `upto` requests teaches by itself: texts and the lead's answers, no outcome, no truth."""
    bank = remembered(played, upto, seed)
    return lessons(bank.everything(), features, lambda asked: [], LEAD, seed=seed)


def _row(
    played: Played,
    i: int,
    near: Sequence[Candidate],
    sent: Sequence[Candidate],
    features: Features,
    weight: float,
) -> Row:
    quality = graded(played.world, played.asks[i], sent)
    return outcome(i, SECONDS_APART * i, view(played, i), near, sent, features, quality, weight)


def chosen_by(scorer: Scorer, played: Played, i: int, near: Sequence[Candidate]) -> list[Candidate]:
    """What the scorer and the combiner send with request `i`, at its time."""
    CLOCK.now_s = SECONDS_APART * i
    return choose(scorer, view(played, i), near)


def compared(played: Played, requests: range, scorers: Mapping[str, Scorer], seed: int) -> dict[str, Any]:
    """Every way to choose, on the same requests with the same 20 candidates, the bank growing all the while."""
    bank, rng = remembered(played, requests.start, seed), random.Random(seed)
    sums: dict[str, Sum] = {}
    gains: dict[str, list[float]] = {}
    for i in requests:
        near, world, ask = bank.near(i, CANDIDATES), played.world, played.asks[i]
        ways = {"none": [], "random 5": rng.sample(near, min(5, len(near)))}
        ways |= {f"nearest {k}": near[:k][::-1] for k in (1, 3, 5)}
        ways |= {name: chosen_by(scorer, played, i, near) for name, scorer in scorers.items()}
        ways["oracle"] = best_set(world, ask, near, MOST)
        for name, chosen in ways.items():
            sums.setdefault(name, Sum()).add(played, i, chosen)
        alone = expected_quality(world, ask, [])
        gains.setdefault("true", []).extend(expected_quality(world, ask, [c]) - alone for c in near)
        gains.setdefault("similarity", []).extend(c.similarity for c in near)
        CLOCK.now_s = SECONDS_APART * i
        for name, scorer in scorers.items():
            gains.setdefault(name, []).extend(scorer.score(view(played, i), near).worths)
        if is_remembered(i, seed):
            bank.add(i)
    ways_ = {name: total.means() for name, total in sums.items()}
    best, nearest = ways_["oracle"]["quality"], ways_["nearest 5"]["quality"]
    for figures in ways_.values():
        figures["closes"] = (figures["quality"] - nearest) / (best - nearest)
    true = gains.pop("true")
    correlation = {name: float(np.corrcoef(values, true)[0, 1]) for name, values in gains.items()}
    return {"requests": len(requests), "ways": ways_, "correlation_with_true_gain": correlation}


def nothing_relevant(played: Played, scorers: Mapping[str, Scorer]) -> dict[str, Any]:
    """A bank of half of the kinds of names, questions about the other half: nothing in it helps."""
    kinds = sorted({f.kind for ask in played.asks for f in ask.facts})
    there = set(kinds[::2])
    bank = Bank(played, scoped=False)
    about = [{f.kind for f in ask.facts} for ask in played.asks]
    for i, kind in enumerate(about):
        if kind and kind <= there:
            bank.add(i)
    strangers = [i for i, kind in enumerate(about) if kind and not kind & there][-400:]
    sums: dict[str, Sum] = {}
    for i in strangers:
        near = bank.near(i, CANDIDATES)
        ways = {"none": [], "nearest 5": near[:5][::-1]}
        ways |= {name: chosen_by(scorer, played, i, near) for name, scorer in scorers.items()}
        for name, chosen in ways.items():
            sums.setdefault(name, Sum()).add(played, i, chosen)
    return {"requests": len(strangers), "ways": {name: total.means() for name, total in sums.items()}}


def table(title: str, figures: Mapping[str, Any]) -> str:
    """Markdown."""
    head = ("chosen by", "expected quality", "graded once", "examples", "tokens", "of nearest 5 to oracle")
    rows = []
    for name, m in figures["ways"].items():
        closes = f"{m['closes']:.0%}" if "closes" in m else ""
        means = [f"{m['quality']:.3f}", f"{m['graded']:.3f}", f"{m['examples']:.2f}", f"{m['tokens']:.0f}"]
        rows.append([name, *means, closes])
    lines = [f"\n### {title} ({figures['requests']} requests)\n", markdown(head, rows)]
    for name, value in figures.get("correlation_with_true_gain", {}).items():
        lines.append(f"\nCorrelation of {name} with true gain: {value:.3f}")
    return "\n".join(lines)


def run(*, requests: int, seed: int, worlds: Sequence[int], cache: Path) -> dict[str, Any]:
    """Trains in the first world, measures there and in the others; prints as it goes."""
    features = Features(Rarity.read(prepare("package", cache).tokenizer))
    embedder = Embedder.open("package", cache, cache_entries=50_000)
    try:
        played = [play(World(w), requests, seed, embedder.embed_blocking, answers=True) for w in worlds]
    finally:
        embedder.close()
    upto = requests * 4 // 5
    rows = collected(played[0], upto, features, SEED)
    made = trained(
        rows,
        prior_model(),
        lessons=taught(played[0], upto, features, SEED),
        tell=lambda line: print(line, flush=True),
    )
    print(made.reason)
    found: dict[str, Any] = {
        "settings": {
            "requests": requests,
            "seed": seed,
            "worlds": list(worlds),
        },
        "training": made.metrics | {"accepted": made.accepted, "rows": len(rows)},
    }
    models = {"prior": prior_model(), "trained": made.data}
    with opened(models, features, CLOCK) as scorers:
        for world, stream in zip(worlds, played, strict=True):
            key = f"world {world}"
            found[key] = compared(stream, range(upto, requests), scorers, SEED)
            print(table(f"World {world}, later requests", found[key]), flush=True)
            strange = found[f"{key}, nothing relevant"] = nothing_relevant(stream, scorers)
            print(table(f"World {world}, a bank about other things", strange), flush=True)
    found["closes"] = closed_in_all([found[f"world {world}"] for world in worlds])
    for name, share in found["closes"].items():
        print(f"\nOf nearest 5 to oracle, all worlds together: {name} {share:.1%}")
    return found


def closed_in_all(worlds: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Of the distances of all worlds together, the share that each scorer's choice closes.

    Of one world's a single request may be several percent. `worlds`: as `compared` gives them.
    """

    def gained(name: str) -> float:
        ways = [world["ways"] for world in worlds]
        return sum(way[name]["quality"] - way["nearest 5"]["quality"] for way in ways)

    return {name: gained(name) / gained("oracle") for name in ("prior", "trained")}


def main() -> None:
    """Trains, compares and prints; with --json also writes the figures."""
    parser = study_options(__doc__, requests=3000)
    parser.add_argument("--worlds", type=int, nargs="+", default=[7, 11], help="the first is trained in")
    asked = parser.parse_args()
    found = run(
        requests=asked.requests,
        seed=asked.seed,
        worlds=asked.worlds,
        cache=asked.cache / "models",
    )
    write(found, asked.json)


if __name__ == "__main__":
    main()
