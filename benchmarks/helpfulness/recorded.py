"""Does a trained scorer pick more of the right examples than nearness does? `python -m benchmarks.helpfulness.recorded`.

On recorded requests where the label of a good example is known: banking77 (the same intent) and nl2bash (a command of the
same utility). Five folds: each prompt is asked once, with the pairs of the other folds as its bank. The scorer is trained on
prompts of those other folds only, on single examples that were right (quality 1) or wrong (0), by
learning.training.scorer.training. The same candidates, the 20 nearest by exact search, are then given to every way to
choose. Side by side: the share of chosen examples with the right label, at the same number of examples; and what is
chosen as it would be served, where one right example is all that counts and the combiner sends as few as it may.

What it does not show: that a model answers better with them. benchmarks.helpfulness asks that, in the simulated world.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.helpfulness.cases import Case, banking77, folds, nearest, nl2bash
from benchmarks.helpfulness.choosing import CANDIDATES, opened
from benchmarks.options import options, write
from benchmarks.recorded import NoData
from benchmarks.tables import markdown
from learning.training.scorer.rows import Row
from learning.training.scorer.training import trained
from router.embedding import model as embedding_model
from router.examples.combiner import Knobs, combine, with_gains
from router.examples.features import Features, RequestView
from router.examples.prior import prior_model
from router.examples.rarity import Rarity
from router.plan import Candidate
from router.prompt import example_tokens

PLENTY_TOKENS = 1_000_000
FILLING = Knobs(order="helpful_last", min_gain=0.0, redundancy=0.0, distraction=0.0)
"""As many as asked for: what is compared is which, not how many."""
NOW_S = 86_400.0
CASES: dict[str, Callable[[Path, Path, int | None], Case]] = {"banking77": banking77, "nl2bash": nl2bash}


@dataclass
class Chosen:
    """What one way of choosing chose, over all prompts."""

    right: list[int] = field(default_factory=list)
    """Per prompt: how many chosen examples were right."""
    sent: list[int] = field(default_factory=list)
    tokens: list[int] = field(default_factory=list)

    def add(self, case: Case, i: int, examples: Sequence[Candidate]) -> None:
        """Notes what was chosen for prompt `i`."""
        self.right.append(sum(case.right(i, c.example.id) for c in examples))
        self.sent.append(len(examples))
        self.tokens.append(sum(example_tokens(c) for c in examples))

    def figures(self) -> dict[str, float]:
        """Share of right ones among all that were chosen, and how many that is per prompt."""
        right, sent = np.array(self.right), np.array(self.sent)
        return {
            "right_share": float(right.sum() / max(1, sent.sum())),
            "any_right_share": float(np.mean(right > 0)),
            "examples": float(sent.mean()),
            "tokens": float(np.mean(self.tokens)),
        }


@dataclass(frozen=True)
class Settings:
    """How much of everything."""

    k: int = 5
    folds: int = 5
    prompts: int | None = None
    """Pairs of each file to use; None: all."""
    learnt_from: int = 6000
    """Prompts of the training folds whose examples are labelled."""
    labelled_each: int = 6
    """Of the candidates of each."""
    seed: int = 0
    loss: Any = "pointwise"
    members: int = 1
    """Networks that are averaged: more take as many times longer, and help most where there is little to learn from."""


def measured(case: Case, settings: Settings, rarity: Rarity) -> dict[str, Any]:
    """Everything about one case."""
    ways = ("random of the bank", "random of the 20 nearest", "nearest", "prior", "trained", "oracle")
    served = ("trained, as served", "nearest, as many as served")
    chosen: dict[str, Chosen] = {way: Chosen() for way in (*ways, *served)}
    fold_shares: list[dict[str, float]] = []
    rng = np.random.default_rng(settings.seed)
    features = Features(rarity, cache_entries=len(case.prompts))
    orders: dict[str, list[tuple[Candidate, ...]]] = {"helpful_last": [], "stable": []}
    trainings = []
    for number, (bank, asked) in enumerate(folds(case, settings.folds, settings.seed)):
        before = {way: (sum(chosen[way].right), sum(chosen[way].sent)) for way in ways}
        began = time.process_time()
        model, metrics = learnt(case, bank, settings, features, rng)
        trainings.append({**metrics, "cpu_s": time.process_time() - began})
        print(f"{case.name}: fold {number + 1} of {settings.folds} trained", flush=True)
        models = {"prior": prior_model(), "trained": model}
        with opened(models, case.vectors.shape[1], features, lambda: NOW_S) as scorers:
            for i, candidates in zip(asked.tolist(), nearest(case, asked, bank, CANDIDATES), strict=True):
                k = min(settings.k, len(candidates))
                chance = rng.choice(bank, k, replace=False)
                chosen["random of the bank"].add(
                    case, i, [Candidate(case.example(int(j)), 0.0) for j in chance]
                )
                picked = rng.permutation(len(candidates))[:k]
                chosen["random of the 20 nearest"].add(case, i, [candidates[n] for n in picked])
                chosen["nearest"].add(case, i, candidates[:k])
                best = sorted(candidates, key=lambda c: not case.right(i, c.example.id))
                chosen["oracle"].add(case, i, best[:k])
                request = RequestView(case.prompts[i], case.vectors[i], "large")
                for way, scorer in scorers.items():
                    scores = scorer.score(request, candidates)
                    scored = with_gains(candidates, scores.gains.tolist(), scores.effects)
                    chosen[way].add(case, i, _filled(scored, scores.quality_alone, k))
                    if way == "trained":
                        for order in orders:
                            together = combine(
                                scored,
                                quality_alone=scores.quality_alone,
                                most=k,
                                budget_tokens=PLENTY_TOKENS,
                                knobs=Knobs(order=order),  # type: ignore[arg-type]
                            )
                            orders[order].append(together.chosen)
                        chosen[served[0]].add(case, i, together.chosen)
                        chosen[served[1]].add(case, i, candidates[: len(together.chosen)])
        fold_shares.append(
            {
                way: (sum(chosen[way].right) - before[way][0]) / (sum(chosen[way].sent) - before[way][1])
                for way in ways
            }
        )
    return {
        "prompts": len(chosen["nearest"].right),
        "k": settings.k,
        "ways": {way: found.figures() for way, found in chosen.items()},
        "folds": fold_shares,
        "trained_less_nearest": _difference(chosen["trained"], chosen["nearest"], settings.seed),
        "prefix_shared": {order: prefix_share(sets) for order, sets in orders.items()},
        "training": trainings,
    }


def learnt(
    case: Case, bank: np.ndarray, settings: Settings, features: Features, rng: np.random.Generator
) -> tuple[bytes, dict[str, Any]]:
    """A scorer trained on some prompts of the bank, each with some of its nearest others."""
    asked = rng.permutation(bank)[: settings.learnt_from]
    rows: list[Row] = []
    for place, (i, candidates) in enumerate(
        zip(asked.tolist(), nearest(case, asked, bank, CANDIDATES), strict=True)
    ):
        request = RequestView(case.prompts[i], case.vectors[i], "large")
        scalars = features.rows(request, candidates, NOW_S)
        nothing = np.zeros((0, case.vectors.shape[1]), np.float32)
        row = Row(str(i), float(place), case.vectors[i], nothing, nothing, scalars[:0], 0.0)
        # Without any example there is none that is right.
        rows.append(row)
        # Half from the top, where the choice is made, half from anywhere.
        first = rng.choice(
            min(6, len(candidates)), min(settings.labelled_each // 2, len(candidates)), replace=False
        )
        rest = np.setdiff1d(np.arange(len(candidates)), first)
        wanted = min(settings.labelled_each - len(first), len(rest))
        for n in (*first, *rng.choice(rest, wanted, replace=False)):
            candidate = candidates[n]
            rows.append(
                replace(
                    row,
                    questions=case.vectors[[candidate.example.id]],
                    answers=case.answer_vectors[[candidate.example.id]],
                    scalars=scalars[n : n + 1],
                    quality=float(case.right(i, candidate.example.id)),
                )
            )
    made = trained(rows, prior_model(), seed=settings.seed, loss=settings.loss, members=settings.members)
    return made.model, {"accepted": made.accepted, "reason": made.reason, "rows": len(rows)}


def prefix_share(sets: Iterable[Sequence[Candidate]]) -> float:
    """Share of the examples' tokens that stand in a prefix sent before: what a cache of prefixes without end would save."""
    known: set[tuple[int, ...]] = set()
    total = shared = 0
    for examples in sets:
        prefixes = list(itertools.accumulate(((c.example.id,) for c in examples), lambda a, b: a + b))
        for candidate, prefix in zip(examples, prefixes, strict=True):
            total += example_tokens(candidate)
            shared += example_tokens(candidate) * (prefix in known)
        known.update(prefixes)
    return shared / total if total else 0.0


def _filled(scored: Sequence[Candidate], quality_alone: float, k: int) -> list[Candidate]:
    """What the combiner chooses when it is to choose k; with the next best where it would rather send fewer."""
    together = combine(
        scored, quality_alone=quality_alone, most=k, budget_tokens=PLENTY_TOKENS, knobs=FILLING
    )
    there = {c.example.id for c in together.chosen}
    rest = sorted((c for c in scored if c.example.id not in there), key=lambda c: -(c.gain or 0.0))
    return [*together.chosen, *rest[: k - len(there)]]


def _difference(one: Chosen, other: Chosen, seed: int, draws: int = 1000) -> dict[str, float]:
    """Of their shares, with a 95 % percentile bootstrap over prompts."""
    rng = np.random.default_rng(seed)
    a, b = np.array(one.right) - np.array(other.right), np.array(one.sent)
    picks = rng.integers(len(a), size=(draws, len(a)), dtype=np.int32)
    found = a[picks].sum(axis=1) / b[picks].sum(axis=1)
    low, high = np.percentile(found, [2.5, 97.5])
    return {"difference": float(a.sum() / b.sum()), "low": float(low), "high": float(high)}


def table(name: str, figures: dict[str, Any]) -> str:
    """One case as Markdown, with the verdict."""
    head = ("chosen by", "right label", "at least one right", "examples", "their tokens")
    rows = [
        [
            way,
            f"{f['right_share']:.4f}",
            f"{f['any_right_share']:.4f}",
            f"{f['examples']:.2f}",
            f"{f['tokens']:.0f}",
        ]
        for way, f in figures["ways"].items()
    ]
    gap, prefix = figures["trained_less_nearest"], figures["prefix_shared"]
    each = ", ".join(f"{f['trained'] - f['nearest']:+.4f}" for f in figures["folds"])
    verdict = "beats nearest" if gap["low"] > 0 else "does NOT beat nearest"
    lines = [
        f"{name}: {figures['prompts']} prompts, {len(figures['folds'])} folds, {figures['k']} examples each",
        "",
        markdown(head, rows),
        "",
        f"trained less nearest: {gap['difference']:+.4f} ({gap['low']:+.4f} to {gap['high']:+.4f})"
        f" by prompts; by fold {each}: {verdict}",
        "examples' tokens in a prefix sent before, as served: "
        + ", ".join(f"{share:.4f} {order}" for order, share in prefix.items()),
    ]
    return "\n".join(lines)


def run(
    data: Path, json: Path | None, *, cache: Path, settings: Settings, cases: Sequence[str] = tuple(CASES)
) -> dict[str, Any]:
    """Measures, prints, and writes JSON if asked. A case whose file is absent is left out with a reason."""
    figures: dict[str, Any] = {"settings": asdict(settings), "cases": {}}
    for name in cases:
        try:
            case = CASES[name](data, cache, settings.prompts)
        except NoData as absent:
            print(f"{name}: {absent}")
            continue
        found = figures["cases"][name] = measured(case, settings, _rarity(cache))
        print("\n" + table(name, found) + "\n", flush=True)
        write(figures, json)
    return figures


def _rarity(cache: Path) -> Rarity:
    return Rarity.read(embedding_model.prepare("package", cache / "models").tokenizer)


def main() -> None:
    """From the command line."""
    parser = options(__doc__, data=True, cache=True)
    parser.add_argument(
        "--case", choices=tuple(CASES), action="append", help="only this one; may be repeated"
    )
    parser.add_argument("--prompts", type=int, help="pairs of each file to use [all]")
    parser.add_argument("--k", type=int, default=Settings.k, help="examples to choose [%(default)s]")
    parser.add_argument("--folds", type=int, default=Settings.folds)
    parser.add_argument("--learnt-from", type=int, default=Settings.learnt_from)
    parser.add_argument("--labelled-each", type=int, default=Settings.labelled_each)
    parser.add_argument("--seed", type=int, default=Settings.seed)
    parser.add_argument("--loss", choices=("pointwise", "pairwise", "auto"), default=Settings.loss)
    chosen = parser.parse_args()
    settings = Settings(**{f.name: getattr(chosen, f.name) for f in fields(Settings) if f.name in chosen})
    run(chosen.data, chosen.json, cache=chosen.cache, settings=settings, cases=chosen.case or tuple(CASES))


if __name__ == "__main__":
    main()
