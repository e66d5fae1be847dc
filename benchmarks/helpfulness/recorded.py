"""Are the examples that the gateway sends worth more than the nearest ones? `python -m benchmarks.helpfulness.recorded`.

On every file of --data that fits (benchmarks.helpfulness.cases). Five folds: each prompt is asked once, with the pairs of
the other folds as its bank. What an example is worth is recorded; what a set of them does is modelled
(benchmarks.helpfulness.judge: two families, set once, never tuned). Training is as in service: outcomes of other prompts,
served by the prior with its exploration, a share of them also answered without examples; lessons of the bank; and the
trained scorer serves only where it is accepted. Every way chooses for the same prompts.

What it does not show: that a real model answers better with these examples.
"""

from __future__ import annotations

import random
import sqlite3
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from benchmarks.helpfulness import judge
from benchmarks.helpfulness.cases import Case, cases, folds
from benchmarks.options import options, write
from benchmarks.recorded import some_fit
from benchmarks.tables import markdown
from benchmarks.vectors import exact_nearest
from learning.training.scorer.lessons import Lessons, lessons
from learning.training.scorer.rows import Row
from learning.training.scorer.training import TooFewOutcomes, trained
from router.choosing.label_exploration import explored
from router.embedding import model as embedding_model
from router.embedding.retriever import BY_WORDS, NEIGHBOURS
from router.examples import count
from router.examples.combiner import combine, with_worths
from router.examples.features import Features, RequestView
from router.examples.fusion import CONSTANT, best_fused
from router.examples.prior import prior_model
from router.examples.rarity import Rarity
from router.examples.scorer import Scorer
from router.examples.set_quality import UNLEARNT, same_answer
from router.plan import Candidate
from router.prompt import example_tokens
from store.sqlite import words

_WORDS_TABLE = (
    "CREATE VIRTUAL TABLE example_words USING fts5"
    " (tenant, scope, question, answer, tokenize = 'unicode61 remove_diacritics 2')"
)
"""As SQLite's schema makes it."""
CANDIDATES, MOST = 20, 8
BUDGET_TOKENS = 2000
NOW_S = 86_400.0
LABEL_SHARE, ALONE_SHARE = 0.05, 0.2
"""Of the requests that are learnt from: an example dropped or swapped; also answered without examples."""
MMR_RELEVANCE = 0.7
SERVED, SAME_TOKENS = "trained, as served", "nearest, same tokens"


@dataclass(frozen=True)
class Settings:
    """How much of everything."""

    folds: int = 5
    prompts: int | None = None
    """Pairs of each file to use; None: all."""
    asked: int | None = None
    """Prompts of each fold that are asked; None: all."""
    outcomes: int = 1000
    """Requests that are learnt from."""
    seed: int = 0


class Bank:
    """The examples of a fold, found by vector and by words as the gateway finds them."""

    def __init__(self, case: Case, places: np.ndarray, rarity: Rarity) -> None:
        self.case, self.places, self._rarity = case, places, rarity
        self._groups = np.array(case.groups)
        self._db = sqlite3.connect(":memory:")
        self._db.execute(_WORDS_TABLE)
        self._db.execute("CREATE VIRTUAL TABLE example_vocabulary USING fts5vocab ('example_words', 'row')")
        self._db.executemany(
            "INSERT INTO example_words (rowid, tenant, scope, question, answer) VALUES (?, 't', 's', ?, '')",
            [(int(j), case.prompts[j]) for j in places],
        )

    def by_words(self, i: int) -> list[tuple[int, float]]:
        """(place, BM25) of the best by words, none of the prompt's own group."""
        match = words.any_of(self._db, "t", "s", self._rarity.telling(self.case.prompts[i]))
        if match is None:
            return []
        query = "SELECT rowid, -bm25(example_words, 0, 0, 1, 0) AS s FROM example_words WHERE example_words MATCH ?"
        found = self._db.execute(query + " ORDER BY s DESC LIMIT ?", (match, BY_WORDS + 20)).fetchall()
        return [(j, s) for j, s in found if self._groups[j] != self._groups[i]][:BY_WORDS]

    def near(self, asked: Sequence[int]) -> list[list[Candidate]]:
        """The candidates of each prompt, nearest first."""
        case, made = self.case, []
        wanted = min(len(self.places), NEIGHBOURS + 30)
        for start in range(0, len(asked), 500):
            some = list(asked[start : start + 500])
            found = exact_nearest(case.vectors[self.places], case.vectors[some], wanted)
            for i, rows in zip(some, found, strict=True):
                ids = self.places[rows]
                ids = ids[self._groups[ids] != self._groups[i]]
                cosines = case.vectors[ids] @ case.vectors[i]
                ids = ids[np.argsort(-cosines, kind="stable")[:NEIGHBOURS]]
                by_words = dict(self.by_words(i))
                both = list(dict.fromkeys([*ids.tolist(), *by_words]))
                made.append(
                    sorted(
                        (self._candidate(i, j, by_words.get(j, 0.0)) for j in both),
                        key=lambda c: -c.similarity,
                    )
                )
        return made

    def _candidate(self, i: int, j: int, by_words: float) -> Candidate:
        case = self.case
        answer = None if case.answer_vectors is None else case.answer_vectors[j]
        return Candidate(
            case.example(j), float(case.vectors[j] @ case.vectors[i]), case.vectors[j], answer, words=by_words
        )


@dataclass
class Chosen:
    """What one way of choosing chose, over all prompts."""

    quality: list[float] = field(default_factory=list)
    sent: list[int] = field(default_factory=list)
    tokens: list[int] = field(default_factory=list)
    worth: list[float] = field(default_factory=list)
    """Of every example that was sent."""

    def figures(self) -> dict[str, float]:
        """Means over the prompts."""
        return {
            "quality": float(np.mean(self.quality)),
            "examples": float(np.mean(self.sent)),
            "tokens": float(np.mean(self.tokens)),
            "worth": float(np.mean(self.worth)) if self.worth else 0.0,
        }


def measured(case: Case, settings: Settings, rarity: Rarity) -> dict[str, Any]:
    """Everything about one case, by family."""
    features = Features(rarity, cache_entries=2 * len(case.prompts))
    chosen: dict[str, dict[str, Chosen]] = {family: {} for family in judge.FAMILIES}
    trainings: dict[str, list[dict[str, Any]]] = {family: [] for family in judge.FAMILIES}
    rng = random.Random(settings.seed)
    for number, (places, asked) in enumerate(folds(case, settings.folds, settings.seed)):
        bank = Bank(case, places, rarity)
        asked = np.array(rng.sample(asked.tolist(), min(len(asked), settings.asked or len(asked))))
        taught = bank_lessons(bank, features)
        learnt_from = rng.sample(places.tolist(), min(len(places), settings.outcomes))
        seen = list(zip(learnt_from, bank.near(learnt_from), strict=True))
        near = bank.near(asked.tolist())
        for family in judge.FAMILIES:
            model, told = _learnt(case, family, seen, features, taught, settings)
            trainings[family].append(told)
            with TemporaryDirectory() as folder:
                prior, scorer = (
                    opened(Path(folder) / f"{n}.onnx", m, features)
                    for n, m in enumerate((prior_model(), model))
                )
                for i, found in zip(asked.tolist(), near, strict=True):
                    for way, examples in _ways(case, family, i, found, prior, scorer, rng, settings.seed):
                        note = chosen[family].setdefault(way, Chosen())
                        worths = [case.worth(i, c.example.id) for c in examples]
                        note.quality.append(_quality(case, family, settings.seed, i, examples))
                        note.sent.append(len(examples))
                        note.tokens.append(sum(map(example_tokens, examples)))
                        note.worth += worths
                prior.close()
                scorer.close()
            print(
                f"{case.name}, {family}: fold {number + 1} of {settings.folds}: {told['reason']}", flush=True
            )
    return {
        "kind": case.kind,
        "families": {
            family: {
                "prompts": len(ways["none"].quality),
                "ways": {way: found.figures() for way, found in ways.items()},
                "differences": _differences(ways, settings.seed),
                "trainings": trainings[family],
            }
            for family, ways in chosen.items()
        },
        "qualities": {
            family: {way: found.quality for way, found in ways.items()} for family, ways in chosen.items()
        },
    }


def bank_lessons(bank: Bank, features: Features) -> Lessons:
    """What a bank teaches by itself."""
    case = bank.case
    remembered = [
        Candidate(
            case.example(int(j)),
            0.0,
            case.vectors[j],
            None if case.answer_vectors is None else case.answer_vectors[j],
        )
        for j in bank.places
    ]
    return lessons(remembered, features, lambda asked: bank.by_words(asked.example.id), "large")


def _learnt(
    case: Case,
    family: judge.Family,
    seen: Sequence[tuple[int, list[Candidate]]],
    features: Features,
    taught: Lessons,
    settings: Settings,
) -> tuple[bytes, dict[str, Any]]:
    """The scorer that serves after these requests: the trained one where it is accepted, else the prior."""
    rng, rows = random.Random(settings.seed), []
    with TemporaryDirectory() as folder:
        prior = opened(Path(folder) / "prior.onnx", prior_model(), features)
        for number, (i, near) in enumerate(seen):
            considered = best_fused(near, CANDIDATES)
            scores = prior.score(RequestView(case.prompts[i], case.vectors[i], "large"), considered)
            scored = with_worths(considered, scores.worths)
            sent = _explored(scored, rng)
            answers = tuple(same_answer(c.example.answer) for c in scored)
            place = {c.example.id: n for n, c in enumerate(scored)}
            for examples in (sent, []) if rng.random() < ALONE_SHARE else (sent,):
                expected = _quality(case, family, settings.seed, i, examples)
                outcome = judge.observed(expected, case.kind == "commands", rng)
                places = tuple(place[c.example.id] for c in examples)
                rows.append(Row(f"{number:06}", float(number), scores.features, answers, places, outcome))
        prior.close()
    try:
        made = trained(rows, prior_model(), lessons=taught)
    except TooFewOutcomes as few:
        return prior_model(), {"accepted": False, "reason": str(few)}
    told = {**made.metrics, "accepted": made.accepted, "reason": f"{made.reason} ({made.metrics['ranking']})"}
    return made.data if made.accepted else prior_model(), told


def _explored(scored: list[Candidate], rng: random.Random) -> list[Candidate]:
    """What the prior sends, with the exploration of router.policies.in_context."""
    found = combine(scored, quality=UNLEARNT, most=MOST, budget_tokens=BUDGET_TOKENS)
    drawn = count.drawn(len(found.chosen), MOST, count.Knobs(), rng)
    if drawn.explored:
        found = combine(scored, quality=UNLEARNT, most=MOST, budget_tokens=BUDGET_TOKENS, number=drawn.number)
        return list(found.chosen)
    return list(explored(found, scored, LABEL_SHARE, rng, budget_tokens=BUDGET_TOKENS).chosen)


def _ways(
    case: Case,
    family: judge.Family,
    i: int,
    near: list[Candidate],
    prior: Scorer,
    scorer: Scorer,
    rng: random.Random,
    seed: int,
) -> list[tuple[str, list[Candidate]]]:
    """What every way of choosing would send for prompt `i`."""
    by_words = sorted((c for c in near if c.words), key=lambda c: -c.words)
    # What only one of both rankings found counts in that one.
    place = {c.example.id: n for n, c in enumerate(by_words)}
    ranked = [
        1 / (CONSTANT + 1 + n) + (1 / (CONSTANT + 1 + place[c.example.id]) if c.words else 0.0)
        for n, c in enumerate(near)
    ]
    fused = [near[n] for n in sorted(range(len(near)), key=lambda n: -ranked[n])]
    considered = best_fused(near, CANDIDATES)
    request = RequestView(case.prompts[i], case.vectors[i], "large")
    by_prior = sent(prior, request, considered)
    served = sent(scorer, request, considered)
    return [
        ("none", []),
        ("random 5", rng.sample(near, min(5, len(near)))),
        *((f"nearest {k}", near[:k]) for k in (1, 3, 5)),
        ("MMR 5", _mmr(near[:CANDIDATES], 5)),
        *((f"BM25 {k}", by_words[:k]) for k in (1, 5)),
        *((f"RRF {k}", fused[:k]) for k in (1, 3, 5)),
        *((f"prior {k}", by_prior[:k]) for k in (1, 3)),
        ("prior, as served", by_prior),
        (SERVED, served),
        (SAME_TOKENS, same_tokens(near, sum(map(example_tokens, served)))),
        ("oracle", _oracle(case, family, seed, i, considered)),
    ]


def sent(scorer: Scorer, request: RequestView, considered: list[Candidate]) -> list[Candidate]:
    """Best first."""
    scores = scorer.score(request, considered)
    scored = with_worths(considered, scores.worths)
    found = combine(scored, quality=scores.quality, most=MOST, budget_tokens=BUDGET_TOKENS)
    return sorted(found.chosen, key=lambda c: -(c.gain or 0.0))


def same_tokens(near: Sequence[Candidate], tokens: int) -> list[Candidate]:
    """As many of the nearest as take about so many tokens: one more where half of it fits."""
    picked: list[Candidate] = []
    left = float(tokens)
    for candidate in near:
        needed = example_tokens(candidate)
        if needed / 2 > left or not tokens:
            break
        picked.append(candidate)
        left -= needed
    return picked


def _mmr(near: Sequence[Candidate], k: int) -> list[Candidate]:
    """Maximal marginal relevance (Carbonell, Goldstein 1998)."""
    waiting, picked = list(near), []
    while waiting and len(picked) < k:
        best = max(
            waiting,
            key=lambda c: (
                MMR_RELEVANCE * c.similarity
                - (1 - MMR_RELEVANCE) * max([float(c.vector @ p.vector) for p in picked], default=0.0)
            ),
        )
        waiting.remove(best)
        picked.append(best)
    return picked


def _oracle(
    case: Case, family: judge.Family, seed: int, i: int, considered: list[Candidate]
) -> list[Candidate]:
    """Greedy, by what the judge will say."""
    picked: list[Candidate] = []
    best = _quality(case, family, seed, i, picked)
    while len(picked) < MOST:
        rest = [c for c in considered if c not in picked]
        better = [(_quality(case, family, seed, i, [*picked, c]), n) for n, c in enumerate(rest)]
        value, n = max(better, default=(0.0, 0))
        if value <= best:
            break
        best = value
        picked.append(rest[n])
    return picked


def _quality(case: Case, family: judge.Family, seed: int, i: int, examples: Sequence[Candidate]) -> float:
    worths = [case.worth(i, c.example.id) for c in examples]
    return judge.quality(family, judge.alone(seed, i), worths, [c.example.answer for c in examples])


def opened(path: Path, model: bytes, features: Features) -> Scorer:
    path.write_bytes(model)
    # What is measured is the choice: on a busy machine a late score would make it another one.
    return Scorer.open(path, version=path.stem, features=features, deadline_s=60.0, clock=lambda: NOW_S)


_PAIRS = (
    (SERVED, SAME_TOKENS),
    (SERVED, "nearest 5"),
    (SERVED, "none"),
    ("prior 1", "nearest 1"),
    ("prior 3", "nearest 3"),
    ("prior, as served", "nearest 5"),
)


def _differences(ways: dict[str, Chosen], seed: int) -> dict[str, tuple[float, float, float]]:
    return {
        f"{one} less {other}": interval(np.array(ways[one].quality) - np.array(ways[other].quality), seed)
        for one, other in _PAIRS
    }


def interval(differences: np.ndarray, seed: int, draws: int = 1000) -> tuple[float, float, float]:
    """Mean with a 95 % percentile bootstrap over prompts."""
    rng = np.random.default_rng(seed)
    found = [
        float(differences[rng.integers(len(differences), size=len(differences))].mean()) for _ in range(draws)
    ]
    low, high = np.percentile(found, [2.5, 97.5])
    return float(differences.mean()), float(low), float(high)


def table(name: str, family: str, figures: dict[str, Any]) -> str:
    """One case and family as Markdown."""
    head = ("chosen by", "quality", "examples", "their tokens", "worth of one")
    rows = [
        [way, f"{f['quality']:.4f}", f"{f['examples']:.2f}", f"{f['tokens']:.0f}", f"{f['worth']:.3f}"]
        for way, f in figures["ways"].items()
    ]
    lines = [f"{name}, {family}: {figures['prompts']} prompts", "", markdown(head, rows), ""]
    for pair, (mean, low, high) in figures["differences"].items():
        lines.append(f"{pair}: {mean:+.4f} ({low:+.4f} to {high:+.4f})")
    return "\n".join(lines)


def averaged(
    figures: dict[str, Any], seed: int = 0, draws: int = 1000
) -> dict[str, tuple[float, float, float]]:
    """The differences over all files and families, each counting the same, with a bootstrap over prompts of each."""
    rng = np.random.default_rng(seed)
    found = {}
    for one, other in _PAIRS:
        gaps = [
            np.array(of[one]) - np.array(of[other])
            for case in figures["cases"].values()
            for of in case["qualities"].values()
        ]
        if gaps:
            means = [
                np.mean([gap[rng.integers(len(gap), size=len(gap))].mean() for gap in gaps])
                for _ in range(draws)
            ]
            low, high = np.percentile(means, [2.5, 97.5])
            found[f"{one} less {other}"] = (
                float(np.mean([gap.mean() for gap in gaps])),
                float(low),
                float(high),
            )
    return found


def run(
    data: Path, json: Path | None, *, cache: Path, settings: Settings, named: Sequence[str] = ()
) -> dict[str, Any]:
    """Measures, prints, and writes JSON if asked."""
    figures: dict[str, Any] = {"settings": asdict(settings), "cases": {}}
    rarity = Rarity.read(embedding_model.prepare("package", cache / "models").tokenizer)
    for case in cases(data, cache, settings.prompts, named):
        found = figures["cases"][case.name] = measured(case, settings, rarity)
        for family, of in found["families"].items():
            print("\n" + table(case.name, family, of) + "\n", flush=True)
    some_fit(list(figures["cases"]), data)
    figures["average"] = averaged(figures, settings.seed)
    print("over all files and families:")
    for pair, (mean, low, high) in figures["average"].items():
        print(f"{pair}: {mean:+.4f} ({low:+.4f} to {high:+.4f})")
    for found in figures["cases"].values():
        del found["qualities"]
    write(figures, json)
    return figures


def main() -> None:
    """From the command line."""
    parser = options(__doc__, data=True, cache=True)
    parser.add_argument(
        "--case", action="append", default=[], help="only files whose names begin so; may be repeated"
    )
    parser.add_argument("--prompts", type=int, help="pairs of each file to use [all]")
    parser.add_argument("--asked", type=int, help="prompts of each fold that are asked [all]")
    parser.add_argument("--folds", type=int, default=Settings.folds)
    parser.add_argument("--outcomes", type=int, default=Settings.outcomes)
    parser.add_argument("--seed", type=int, default=Settings.seed)
    chosen = parser.parse_args()
    settings = Settings(**{f.name: getattr(chosen, f.name) for f in fields(Settings)})
    run(chosen.data, chosen.json, cache=chosen.cache, settings=settings, named=chosen.case)


if __name__ == "__main__":
    main()
