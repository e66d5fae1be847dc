"""Algorithm 1 of the paper with the product's strategies: online and final accuracy under a budget of calls."""

from __future__ import annotations

import random
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from benchmarks.neural_caching.streams import Stream
from benchmarks.neural_caching.student import BatchStudent, predictions, trained
from router.tasks.strategies import STRATEGIES, Threshold
from router.tasks.task import Strategy

_COMMITTEE = 5
_FORMER_SHARES = (0.9, 0.8, 0.7, 0.6)
"""Of the initial labels: without retraining, the committee's students (section 5.1)."""
_EARLY_SHARE = 0.5
"""With retraining, the least share of the requests that is asked until the budget is spent (appendix A.1)."""


@dataclass(frozen=True, slots=True)
class Setting:
    """One run."""

    strategy: Strategy
    budget: float
    """Calls, as a share of the online requests."""
    initial: int
    every: int | None
    """Requests between trainings; None: never."""
    seed: int


@dataclass(frozen=True, slots=True)
class Run:
    """What came of it."""

    stream: str
    setting: Setting
    online: float
    """Accuracy against gold of what clients got, over the requests after the initial ones."""
    agreement: float
    """With the teacher, of the same."""
    final: float
    """Accuracy against gold of the last student on the test part."""
    calls: float
    """Share of these requests that the teacher answered."""


def played(stream: Stream, setting: Setting) -> Run:
    """Play one stream."""
    online, test = stream.split(setting.seed)
    first, rest = online[: setting.initial], online[setting.initial :]
    told = {int(place): str(stream.teacher[place]) for place in online}
    annotated = [int(place) for place in first]
    members = _initial(stream, annotated, told, setting)
    threshold, coins = Threshold(), random.Random(setting.seed)
    doubt = STRATEGIES[setting.strategy]
    budget, given, asked_at = round(setting.budget * len(rest)), [], []
    every, new = setting.every or len(rest), 0
    for start in range(0, len(rest), every):
        block = rest[start : start + every]
        if start and new and setting.every is not None:
            student = _trained(stream, annotated, told, start, setting.seed)
            members, new = [student, *members][:_COMMITTEE], 0
        wanted = members if setting.strategy == "committee" else members[:1]
        for offset, (place, prediction) in enumerate(
            zip(
                block,
                predictions(stream, block, wanted, distances=setting.strategy == "coreset"),
                strict=True,
            )
        ):
            share = budget / (len(rest) - start - offset)
            if setting.every is not None and setting.strategy not in ("random", "front_loading"):
                share = max(_EARLY_SHARE, share)
            ask = threshold.exceeded(doubt(prediction, coins.random()), min(1.0, share))
            if setting.strategy == "front_loading":
                ask = True
            if ask and budget > 0:
                budget, new = budget - 1, new + 1
                annotated.append(int(place))
                given.append(told[int(place)])
            else:
                given.append(prediction.label)
            asked_at.append(ask)
    last = members[0]
    if new:
        last = _trained(stream, annotated, told, 1, setting.seed)
    gold = [stream.gold[place] for place in rest]
    spent = round(setting.budget * len(rest)) - budget
    right = [
        said == stream.gold[place] for said, place in zip(last.labels_of(stream, test), test, strict=True)
    ]
    return Run(
        stream.name,
        setting,
        _equal(given, gold),
        _equal(given, [told[int(place)] for place in rest]),
        float(np.mean(right)),
        spent / len(rest),
    )


def _initial(
    stream: Stream, annotated: list[int], told: dict[int, str], setting: Setting
) -> list[BatchStudent]:
    members = [_trained(stream, annotated, told, 0, setting.seed)]
    if setting.strategy == "committee" and setting.every is None:
        cuts = [int(share * len(annotated)) for share in _FORMER_SHARES]
        members += [_trained(stream, annotated[:cut], told, 0, setting.seed) for cut in cuts]
    return members


def _trained(
    stream: Stream, places: list[int], told: dict[int, str], version: int, seed: int
) -> BatchStudent:
    student = trained(stream.labelled(places, [told[place] for place in places]), version, seed)
    assert student is not None, "the initial labels hold two labels twice"
    return student


def _equal(given: list[str], wanted: list[str]) -> float:
    return float(np.mean([a == b for a, b in zip(given, wanted, strict=True)]))


def area(budgets: list[float], values: list[float]) -> float:
    """Area under the curve of accuracy over budgets, divided by the budgets' range (section 5)."""
    if len(budgets) < 2:
        return values[0]
    return float(np.trapezoid(values, budgets) / (budgets[-1] - budgets[0]))


Places = npt.NDArray[np.int64]
