"""What examples do for a small model, without the gateway: every way of choosing them, on the same questions.

Figures are computed from the outcomes alone (scores, tokens and seconds by question; no text), so a file of them is printed
again without asking anybody. Differences are paired on the same questions, with 95 % bootstrap intervals
(learning.evaluation.intervals).
"""

from __future__ import annotations

import itertools
import statistics
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks.effect import asking
from benchmarks.effect.asking import ALONE, LARGE, NEAREST, Asking, Found, Outcome
from benchmarks.effect.engines import Engine
from benchmarks.effect.sets import Set
from benchmarks.helpfulness.choosing import opened
from benchmarks.helpfulness.recorded import Bank, bank_lessons
from benchmarks.tables import markdown
from learning.evaluation.intervals import Interval, Ratio, bootstrap
from learning.tasks.training import Labelled, train
from learning.training.scorer.rows import Row as LearntFrom
from learning.training.scorer.training import TooFewOutcomes, trained
from router.embedding.model import prepare
from router.examples.features import VERSION, Features
from router.examples.prior import prior_model
from router.examples.rarity import Rarity
from router.examples.scorer import Scorer, ScorerModel
from router.tasks.student import Student

Row = Mapping[str, Any]
"""Of one set: see `outcomes`."""
Floats = npt.NDArray[np.float64]
_CACHE_ENTRIES = 50_000
_NUMBERS = ("score", "exact", "tokens_in", "tokens_out", "prefill_s", "decode_s")
_HEAD = (
    "arm", "n", "score", "exact", "tokens in, out", "prefill, decode (s)", "less small alone", "less large alone",
)  # fmt: skip


async def outcomes(sets: Sequence[Set], engines: Mapping[str, Engine], cache: Path) -> list[dict[str, Any]]:
    """Asks everything. Of each set: ids, and by arm lists of numbers over the first so many of the questions.

    The trained scorer of a set is trained on the outcomes of the other sets, and the lessons of its own bank.
    """
    features = Features(Rarity.read(prepare("package", cache / "models").tokenizer), _CACHE_ENTRIES)
    every: list[Asking] = []
    made: list[dict[str, Any]] = []
    with ExitStack() as stack:
        prior = stack.enter_context(opened({"prior": prior_model()}, features))["prior"]
        for of in sets:
            every.append(Asking(of, Bank(of.case, of.bank, features.rarity), engines, features))
            await every[-1].ask_all(prior)
        for asked in every:
            others = [row for other in every if other is not asked for row in other.rows()]
            model, told = _trained(others, asked)
            scorer = prior
            if model is not None:
                scorer = stack.enter_context(opened({asked.of.key: model}, features))[asked.of.key]
                await asked.ask_trained(scorer)
            found = asked.found
            found.arms |= _without_models(asked.of, found)
            made.append(
                {
                    "set": asked.of.key,
                    "title": asked.of.title,
                    "questions": [asked.of.ids[place] for place in asked.of.asked],
                    "bank": len(asked.of.bank),
                    "load": round(statistics.fmean(found.load), 1) if found.load else None,
                    "trained": told,
                    "arms": {
                        name: lists
                        for name, came in found.arms.items()
                        if (lists := _lists(asked.of, came))["score"]
                    },
                    "features": VERSION,
                    "singles": list(_singles(asked, scorer)),
                }
            )
    return made


def _lists(of: Set, came: Mapping[int, Outcome]) -> dict[str, list[float]]:
    there = [came[place] for place in itertools.takewhile(came.__contains__, of.asked)]
    return {name: [round(one[k], 3) for one in there] for k, name in enumerate(_NUMBERS)}


def _singles(asked: Asking, trained_scorer: Scorer) -> Iterator[dict[str, Any]]:
    """Every example that was shown by itself: its question's number, its id, what it scored, and what chose it."""
    for number, each in enumerate(asked.found.questions):
        shown = asked.found.singles.get(each.place, {})
        scores = trained_scorer.score(asked.view(each), each.considered)
        for one, row, worth in zip(each.considered, scores.features, scores.worths, strict=True):
            if one.example.id in shown:
                yield {
                    "question": number,
                    "example": asked.of.ids[one.example.id],
                    "score": round(shown[one.example.id].score, 3),
                    "features": [round(float(value), 4) for value in row],
                    "trained": round(worth, 4),
                }


def _trained(rows: Sequence[LearntFrom], asked: Asking) -> tuple[bytes | None, str]:
    """A scorer that learnt from `rows` and the bank's lessons, or the prior where that is not accepted; and what was said.

    None where there is too little to learn from.
    """
    lessons = bank_lessons(asked.bank, Features(asked.features.rarity, _CACHE_ENTRIES))
    try:
        made = trained(rows, prior_model(), lessons=lessons)
    except TooFewOutcomes as few:
        return None, str(few)
    said = f"{'accepted' if made.accepted else 'not accepted, so the prior serves'}: {made.reason}"
    return (made.data if made.accepted else prior_model()), said


def _without_models(of: Set, found: Found) -> dict[str, dict[int, Outcome]]:
    """Copying, voting and a student; what a recorded large model said; and the best of all that was tried."""
    case, made = of.case, {asking.COPY: {}}  # type: ignore[var-annotated]
    for each in found.questions:
        made[asking.COPY][each.place] = Outcome(*of.score(each.place, each.near[0].example.answer))
    if case.kind == "labels":
        student = Student.open(train(_labelled(of), seed=0).data)
        for each in found.questions:
            said = {
                LARGE: case.answers[each.place],
                asking.MAJORITY: Counter(c.example.answer for c in each.near[:5]).most_common(1)[0][0],
                asking.STUDENT: student.predict(case.prompts[each.place], case.vectors[each.place], 1).label,
            }
            for name, label in said.items():
                made.setdefault(name, {})[each.place] = Outcome(*of.score(each.place, label))
    tried = [came for name, came in found.arms.items() if name in _BY_SMALL]
    tried += [{place: came for place, shown in found.singles.items() for came in [max(shown.values())]}]
    made[asking.ORACLE] = {
        place: max([came[place] for came in tried if place in came], key=lambda one: one.score)
        for place in found.arms.get(ALONE, {})
    }
    return made


_BY_SMALL = (
    ALONE, *(NEAREST.format(n) for n in (1, 3, 5)), asking.RANDOM, asking.WORDS, asking.PRIOR, asking.TRAINED,
)  # fmt: skip
"""Of whose answers the oracle takes the best, beside those with one example each."""


def _labelled(of: Set) -> list[Labelled]:
    case = of.case
    return [Labelled(case.prompts[j], case.vectors[j], case.answers[j]) for j in of.bank]


def difference(one: Sequence[float], other: Sequence[float], least: float = -1.0) -> tuple[float, Interval]:
    """Mean of the first less the second on the questions that both have, with its 95 % interval, which ends at `least`."""
    count = min(len(one), len(other))
    gaps = np.array(one[:count]) - np.array(other[:count])
    mean, (low, high) = bootstrap([Ratio(gaps, np.ones(count))])[0]
    return mean, Interval(max(least, low), min(1.0, high))


def arm_figures(row: Row, name: str) -> dict[str, Any]:
    """Of one arm: n, score and exact with intervals, means of tokens and seconds, differences to both models alone."""
    arms = row["arms"]
    arm = arms[name]
    nothing = [0.0] * len(arm["score"])
    made: dict[str, Any] = {"n": len(arm["score"])}
    made |= {key: difference(arm[key], nothing, 0.0) for key in ("score", "exact")}
    made |= {key: float(np.mean(arm[key])) for key in _NUMBERS[2:]}
    for key in (ALONE, LARGE):
        if name != key and key in arms:
            made[key] = difference(arm["score"], arms[key]["score"])
    return made


def example_figures(row: Row) -> dict[str, float]:
    """Of examples shown one by one: what chooses them against what they did (EchoLM, figure 6), and how often they harm.

    `help`: score with the example less score alone. `chosen by ...`: mean help of each question's best by that.
    """
    alone = row["arms"][ALONE]["score"]
    shown = row["singles"]
    helped = np.array([one["score"] - alone[one["question"]] for one in shown])
    by = {
        "similarity": _column(shown, 0),
        "the prior": prior_worths(shown),
        "the trained scorer": np.array([one["trained"] for one in shown]),
    }
    made = {f"correlation of {name}": _correlation(values, helped) for name, values in by.items()}
    made |= {"harmful": float(np.mean(helped < -1e-9)), "helpful": float(np.mean(helped > 1e-9))}
    groups = [np.flatnonzero([one["question"] == n for one in shown]) for n in range(len(alone))]
    groups = [group for group in groups if len(group)]
    made["help of any"] = float(np.mean([helped[group].mean() for group in groups]))
    for name, values in by.items():
        made[f"help, chosen by {name}"] = float(
            np.mean([helped[group[np.argmax(values[group])]] for group in groups])
        )
    made["help of the best"] = float(np.mean([helped[group].max() for group in groups]))
    return made


def prior_worths(shown: Sequence[Row]) -> Floats:
    """What the prior scorer gives them."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "prior.onnx"
        path.write_bytes(prior_model())
        model = ScorerModel(path)
        try:
            return np.array(model.worths(np.array([one["features"] for one in shown], np.float32)))
        finally:
            model.close()


def _column(shown: Sequence[Row], place: int) -> Floats:
    return np.array([one["features"][place] for one in shown])


def _correlation(one: Floats, other: Floats) -> float:
    """Pearson's; nan where one of them does not vary."""
    if one.std() == 0 or other.std() == 0:
        return float("nan")
    return float(np.corrcoef(one, other)[0, 1])


def table(row: Row) -> str:
    """One set as Markdown: its arms, then its examples one by one."""
    where = f"{row['date']}, commit {row['commit']}, {row['machine']}, load {row['load'] or 'unknown'}"
    lines = [
        f"\n### {row['title']}\n",
        f"{len(row['questions'])} questions, a bank of {row['bank']:,} others; {where}\n",
        markdown(_HEAD, [_cells(name, arm_figures(row, name)) for name in row["arms"]]),
    ]
    if row["singles"]:
        told = [(name, f"{value:+.3f}") for name, value in example_figures(row).items()]
        lines += ["", markdown((f"{len(row['singles'])} examples, one by one", "value"), told)]
    lines.append(f"\nTrained scorer: {row['trained']}")
    return "\n".join(lines)


def _cells(name: str, found: Mapping[str, Any]) -> list[str]:
    asked = found["tokens_in"] and name != asking.ORACLE
    tokens = f"{found['tokens_in']:.0f}, {found['tokens_out']:.0f}" if asked else ""
    seconds = f"{found['prefill_s']:.1f}, {found['decode_s']:.1f}" if asked else ""
    return [
        name,
        str(found["n"]),
        _with_interval(found["score"], ".3f"),
        f"{found['exact'][0]:.3f}",
        tokens,
        seconds,
        *(_with_interval(found[key], "+.3f") if key in found else "" for key in (ALONE, LARGE)),
    ]


def _with_interval(value: tuple[float, Interval], form: str) -> str:
    mean, (low, high) = value
    return f"{mean:{form}} [{low:{form}}, {high:{form}}]"
