"""Does a student save calls, and is it right where it answers? `python -m benchmarks.neural_caching
[policies|calls|promise|soft|latency]`.

`policies`: the paper's experiments with the product's features, training and strategies: accuracy against gold under budgets
of teacher calls, its area under the curve over them, the last student's accuracy, and accuracy less a price per call; the
paper's figures beside ours. `calls`: how few calls keep the teacher's accuracy less a point, every call counted, beside a
cache by nearest neighbours. `promise`: the default without a budget, on every labelled file and on two streams that change
half-way, in many orders: how much is taken over, and how often more than 5 % is ever lost. In the first seconds of a
file its texts are embedded, once.

`soft`: students of hard and of soft labels. The recorded teachers' labels come without log-probabilities, so the teacher of
this part is a model that is trained here.

With `--runs FILE` every run is kept as it ends, and a command that was stopped goes on where it was.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

from scipy.stats import t

from benchmarks.neural_caching import paper
from benchmarks.neural_caching.kept import Kept
from benchmarks.neural_caching.latency import steps
from benchmarks.neural_caching.nearest import DISTANCES, ENTROPIES, NearestRun, remembered
from benchmarks.neural_caching.online import Run, Setting, area, played
from benchmarks.neural_caching.promised import MAX_LOSS, PromiseRun, promised
from benchmarks.neural_caching.soft import SoftRun, compared
from benchmarks.neural_caching.streams import Stream, drifting, streams
from benchmarks.options import options, write
from benchmarks.recorded import some_fit
from benchmarks.tables import markdown
from router.tasks.strategies import STRATEGIES

_SHORT = 2000
_PRICES = (0.05, 0.2)
"""What a call costs, in accuracy: discounted accuracy as OCaTS has it."""
_SHARES = (0.5, 0.6)
"""Of the requests, that may be called for where every call counts."""
_STREAMS: dict[str, Stream] = {}
"""Read before the workers are forked."""


def main() -> None:
    """Run what was asked for, and print its tables."""
    parser = options(__doc__, data=True, cache=True)
    parser.add_argument("parts", nargs="*", help=f"{', '.join(_PARTS)} [all]")
    parser.add_argument("--seeds", type=int, help="orders [policies: 3, calls: 5, promise: 20]")
    parser.add_argument(
        "--files", nargs="*", metavar="NAME", help="only files whose name contains one of these"
    )
    parser.add_argument("--strategies", nargs="*", choices=list(STRATEGIES), default=list(STRATEGIES))
    parser.add_argument(
        "--budgets", nargs="*", type=float, default=[0.1, 0.25, 0.4], help="shares of requests"
    )
    parser.add_argument("--initial", nargs="*", type=int, default=[500, 1000, 2000, 3000])
    parser.add_argument("--every", nargs="*", type=int, default=[1000], help="requests between trainings (f)")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--runs", type=Path, metavar="FILE", help="keep each run, and make none again")
    parser.add_argument("--no-drift", action="store_true", help="promise: without the streams that change")
    args = parser.parse_args()
    found = streams(args.data, args.cache, args.files)
    some_fit(found, args.data)
    for stream in found:
        _ = stream.columns
        _STREAMS[stream.name] = stream
    figures: dict[str, Any] = {}
    for part in args.parts or tuple(_PARTS):
        figures[part] = _PARTS[part](found, args)
    write(figures, args.json)


def _policies(found: Sequence[Stream], args: argparse.Namespace) -> list[dict[str, Any]]:
    settings = []
    for stream in found:
        short = len(stream.texts) < _SHORT
        initials = [min(n, 300) for n in args.initial[:1]] if short else args.initial
        for seed in range(args.seeds or 3):
            for budget in args.budgets:
                for strategy in args.strategies:
                    settings += [
                        (stream.name, Setting(strategy, budget, n, None, seed))
                        for n in initials
                        if strategy in ("random", "margin", "committee")
                    ]
                    settings += [
                        (
                            stream.name,
                            Setting(
                                strategy, budget, 200 if short else 100, min(f, 100) if short else f, seed
                            ),
                        )
                        for f in args.every
                    ]
    runs: list[Run] = list(Kept(args.runs).each(_play, settings, Run, args.jobs))
    for every, title in (
        (None, "without retraining"),
        *((f, f"retrained every {f} requests") for f in args.every),
    ):
        chosen = [r for r in runs if (r.setting.every is None) == (every is None)]
        if every is not None:
            chosen = [r for r in chosen if r.setting.every in (every, 100)]
        print(f"\n{title}")
        head = ["file", "first labels", "strategy", "online AUC", "paper", "final AUC", "paper"]
        print(markdown([*head, *(f"less {price} a call" for price in _PRICES)], _policy_rows(chosen)))
    return [asdict(run) for run in runs]


def _policy_rows(runs: Sequence[Run]) -> Iterable[list[str]]:
    groups: dict[tuple[str, int, str], list[Run]] = {}
    for run in runs:
        groups.setdefault((run.stream, run.setting.initial, run.setting.strategy), []).append(run)
    for (stream, initial, strategy), group in groups.items():
        by_seed: dict[int, list[Run]] = {}
        for run in sorted(group, key=lambda r: r.setting.budget):
            by_seed.setdefault(run.setting.seed, []).append(run)

        def mean(value: Callable[[Run], float], by_seed: dict[int, list[Run]] = by_seed) -> str:
            areas = [
                area([r.setting.budget for r in each], [value(r) for r in each]) for each in by_seed.values()
            ]
            return f"{statistics.mean(areas):.3f}"

        retrained = group[0].setting.every is not None
        table = paper.RETRAINED
        if not retrained:
            table = {name: figures.get(initial, {}) for name, figures in paper.NOT_RETRAINED.items()}
        short_name = stream.removesuffix("_llm").removesuffix("_gold")
        yield [
            stream,
            str(initial),
            paper.STRATEGY_NAMES[strategy],
            mean(lambda r: r.online),
            paper.told(table, short_name, strategy),
            mean(lambda r: r.final),
            paper.told(paper.FINAL, short_name, strategy) if retrained else "-",
            *(mean(partial(_discounted, price)) for price in _PRICES),
        ]


def _discounted(price: float, run: Run) -> float:
    return run.online - price * run.calls


def _calls(found: Sequence[Stream], args: argparse.Namespace) -> list[dict[str, Any]]:
    """Every call counts, also those of the first labels: the budget is what is left of the wanted share."""
    seeds = args.seeds or 5
    table: list[list[str]] = []
    kept: list[dict[str, Any]] = []
    for stream in found:
        count = sum(label is not None for label in stream.teacher)
        if count > _SHORT:
            continue
        teacher = statistics.mean(said == g for said, g in zip(stream.teacher, stream.gold, strict=True))
        wanted = [(stream.name, share, seed) for share in _SHARES for seed in range(seeds)]
        made = Kept(args.runs).each(_whole, wanted, tuple[float, float], args.jobs)
        for (_, share, _), (accuracy, calls) in zip(wanted, made, strict=True):
            kept.append(
                {
                    "stream": stream.name,
                    "share": share,
                    "accuracy": accuracy,
                    "calls": calls,
                    "teacher": teacher,
                }
            )
        for share in _SHARES:
            mine = [k for k in kept if k["stream"] == stream.name and k["share"] == share]
            table.append(
                [stream.name, "student, margin sampling", f"{statistics.mean(k['calls'] for k in mine):.1%}",
                 _with_interval([k['accuracy'] for k in mine]), f"{teacher:.2%}"]
            )  # fmt: skip
        pairs = [(stream.name, seed, d, e) for d in DISTANCES for e in ENTROPIES for seed in range(seeds)]
        swept: dict[tuple[float, float], list[Any]] = {}
        for run in Kept(args.runs).each(_nearest, pairs, NearestRun, args.jobs):
            swept.setdefault((run.distance, run.entropy), []).append(run)
        for share in _SHARES:
            means = [
                (statistics.mean(r.accuracy for r in runs), statistics.mean(r.calls for r in runs))
                for runs in swept.values()
            ]
            fitting = [each for each in means if each[1] <= share]
            if fitting:
                accuracy, calls = max(fitting)
                table.append(
                    [
                        stream.name,
                        "nearest neighbours, best thresholds",
                        f"{calls:.1%}",
                        f"{accuracy:.2%}",
                        f"{teacher:.2%}",
                    ]
                )
    print(f"\nevery call counted, from an empty start; {seeds} orders, ± half a 95 % interval over them")
    print(
        "calls: answers of the teacher, the first labels included, of all requests; the student gives the others"
    )
    print("accuracy: of all answers, whoever gave them, against people's labels")
    print(markdown(["file", "cache", "calls", "accuracy", "teacher"], table))
    return kept


def _with_interval(values: Sequence[float]) -> str:
    """The mean, and half its 95 % interval (Student's t) where there are several values."""
    if len(values) < 2:
        return f"{values[0]:.2%}"
    half = float(t.ppf(0.975, len(values) - 1)) * statistics.stdev(values) / len(values) ** 0.5
    return f"{statistics.mean(values):.2%} ± {half:.2%}"


def _promise(found: Sequence[Stream], args: argparse.Namespace) -> list[dict[str, Any]]:
    every = [*found, *([] if args.no_drift else drifting(found))]
    _STREAMS.update({stream.name: stream for stream in every})
    wanted = [(stream.name, seed) for seed in range(args.seeds or 20) for stream in every]
    runs: list[PromiseRun] = list(Kept(args.runs).each(_promised, wanted, PromiseRun, args.jobs))
    groups = {stream.name: [r for r in runs if r.stream == stream.name] for stream in every}
    head = ["stream", "orders", "violations", "lost at most", "lost", "student's own agreement", "taken over",
            "last tenth", "oracle", "of the oracle", "first at", "taken back"]  # fmt: skip

    def row(group: list[PromiseRun]) -> list[str]:
        def mean(name: str) -> float:
            return statistics.mean(getattr(run, name) for run in group)

        own = [run.own for run in group if run.own == run.own]
        first = [run.first for run in group if run.first is not None]
        late, oracle = mean("taken_late"), mean("oracle")
        return [
            group[0].stream,
            str(len(group)),
            str(sum(run.most_lost > MAX_LOSS for run in group)),
            f"{max(run.most_lost for run in group):.2%}",
            f"{mean('lost'):.2%}",
            f"{statistics.mean(own):.1%}" if own else "-",
            f"{mean('taken'):.1%}",
            f"{late:.1%}",
            f"{oracle:.1%}",
            f"{late / oracle:.0%}" if oracle else "-",
            f"{statistics.median(first):.0f}" if first else "never",
            f"{mean('closed'):.1f}",
        ]

    print("\nwithout a budget: at most 5 % of the answers differ from the teacher's")
    print(markdown(head, [row(group) for group in groups.values()]))
    return [asdict(run) for run in runs]


def _play(wanted: tuple[str, Setting]) -> Run:
    return played(_STREAMS[wanted[0]], wanted[1])


def _promised(wanted: tuple[str, int]) -> PromiseRun:
    return promised(_STREAMS[wanted[0]], wanted[1])


def _nearest(wanted: tuple[str, int, float, float]) -> NearestRun:
    return remembered(_STREAMS[wanted[0]], *wanted[1:])


def _compared(wanted: tuple[str, int]) -> list[SoftRun]:
    return compared(_STREAMS[wanted[0]], wanted[1])


def _whole(wanted: tuple[str, float, int]) -> tuple[float, float]:
    """Accuracy and calls over all labelled requests of a file, at this share of calls."""
    name, share, seed = wanted
    stream = _STREAMS[name]
    first = 100
    online = stream.ordered(seed)
    budget = (share * len(online) - first) / (len(online) - first)
    run: Run = played(_Whole(stream), Setting("margin", budget, first, 50, seed))  # type: ignore[arg-type]
    gold = [stream.gold[p] == str(stream.teacher[p]) for p in online[:first]]
    rest = len(online) - first
    accuracy: float = (sum(gold) + run.online * rest) / len(online)
    return accuracy, (first + run.calls * rest) / len(online)


class _Whole:
    """A stream of which nothing is held out."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def split(self, seed: int) -> tuple[Any, Any]:
        """All, and all again."""
        order = self._stream.ordered(seed)
        return order, order


def _soft(found: Sequence[Stream], args: argparse.Namespace) -> list[dict[str, Any]]:
    wanted = [(stream.name, seed) for stream in found for seed in range(args.seeds or 3)]
    made = Kept(args.runs).each(_compared, wanted, list[SoftRun], args.jobs)
    runs = [run for each in made for run in each]
    groups: dict[tuple[str, int], list[SoftRun]] = {}
    for run in runs:
        groups.setdefault((run.stream, run.size), []).append(run)
    table = [
        [
            name,
            str(size),
            str(len(group)),
            *(f"{statistics.mean(getattr(r, of) for r in group):.3f}" for of in ("teacher", "hard", "soft")),
            f"{sum(r.soft > r.hard for r in group)} of {len(group)}",
        ]
        for (name, size), group in groups.items()
    ]
    print("\nlabels of a logistic regression over TF-IDF, accuracy against people's")
    print(markdown(["file", "labels", "orders", "teacher", "hard", "soft", "soft is better in"], table))
    return [asdict(run) for run in runs]


def _latency(found: Sequence[Stream], args: argparse.Namespace) -> list[dict[str, Any]]:
    kept = [{"stream": stream.name, **steps(stream)} for stream in found]
    print("\nCPU time beside the embedding")
    print(
        markdown(
            list(kept[0]), [[v if isinstance(v, str) else f"{v:.1f}" for v in each.values()] for each in kept]
        )
    )
    return kept


_PARTS: dict[str, Callable[[Sequence[Stream], argparse.Namespace], list[dict[str, Any]]]] = {
    "policies": _policies,
    "calls": _calls,
    "promise": _promise,
    "soft": _soft,
    "latency": _latency,
}

if __name__ == "__main__":
    main()
