"""Trains a bandit from the log or from labels, on a window in which older rows count less.

It is accepted only if one that was trained without the latest rows predicts them no worse than the incumbent.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from learning.learned.learner import Trained
from learning.training.comparison import comparison
from router.choosing import features
from router.choosing.bandit import BanditError, BanditInput, Lesson, Option, Scene, check_lesson
from router.choosing.bandit_vw import BanditSettings, Shares, VowpalBandit, action_key
from store.records import ChoiceRecord, OutcomeRecord


@dataclass(frozen=True, slots=True)
class Row:
    """A lesson and the time of its latest outcome."""

    lesson: Lesson
    at_s: float
    chosen: int = -1
    """Index of the option that was drawn; -1 for labels, as nothing was drawn."""


HALF_LIFE_S = 14 * 86_400.0
"""Age at which an outcome counts half: how fast the past is forgotten."""


@dataclass(frozen=True, slots=True)
class TrainingKnobs:
    """The settings of training and comparing a bandit."""

    half_life_s: float = HALF_LIFE_S
    """A row this much older than the latest counts half."""
    least_weight: float = 0.01
    """Rows with a lower weight are left out."""
    held_out: float = 0.2
    """Share of the rows, the latest ones, on which bandits are compared."""
    least_held_out: int = 30
    """With fewer rows bandits are not compared, and nothing replaces an incumbent."""


class NothingToLearn(Exception):
    """No row can be trained on."""


def rows_from_log(choice: ChoiceRecord, outcomes: Iterable[OutcomeRecord]) -> Row | None:
    """A choice and its outcomes as a row; None if no quality is known.

    Several outcomes of one action are averaged. A single known action has the probability it was drawn with; where a
    comparison revealed more, all became known together, so no action is over-represented and each counts fully.
    """
    if choice.features_version != features.VERSION or len(choice.actions) < 1:
        return None
    options = [
        Option(str(a["engine"]), bool(a["with_examples"]), dict(a.get("features") or {}))
        for a in choice.actions
    ]
    found: dict[int, list[float]] = {}
    latest = choice.at_s
    for outcome in outcomes:
        index = _action_of(choice, outcome, options)
        if index is not None and math.isfinite(outcome.quality):
            found.setdefault(index, []).append(min(1.0, max(0.0, outcome.quality)))
            latest = max(latest, outcome.at_s)
    if not found:
        return None
    alone = list(found) == [choice.chosen]
    lesson = Lesson(
        Scene(choice.vector, choice.context, options),
        {index: sum(qs) / len(qs) for index, qs in found.items()},
        probability=min(1.0, max(1e-6, choice.probability)) if alone else 1.0,
    )
    try:
        check_lesson(lesson, None)
    except BanditInput:
        return None
    return Row(lesson, latest, choice.chosen)


def _action_of(choice: ChoiceRecord, outcome: OutcomeRecord, options: Sequence[Option]) -> int | None:
    if outcome.served and 0 <= choice.chosen < len(options):
        # An engine that answered in place of the chosen one says nothing about it.
        return choice.chosen if options[choice.chosen].engine == outcome.engine else None
    with_examples = bool(outcome.example_ids)
    for index, option in enumerate(options):
        if option.engine == outcome.engine and option.with_examples == with_examples:
            return index
    return None


def enough(rows: Sequence[Row], needed: int) -> bool:
    """Tell if these are as much evidence as `needed` outcomes are if nothing is clear.

    Either there are so many rows, or an action other than the reference is known as precisely as so many outcomes of which
    half are good would tell: 124 lost judgements of 124 tell more than 200 of which 100 are lost.
    """
    if len(rows) >= needed:
        return True
    found = [(q, row.lesson.scene.options[i]) for row in rows for i, q in row.lesson.qualities.items()]
    of_others: dict[str, list[float]] = {}
    for quality, option in found:
        if option.features.get("rank", 0.0) < 1.0:
            of_others.setdefault(action_key(option), []).append(quality)
    asked = _half_width(needed / 2, needed)
    return any(_half_width(sum(each), len(each)) <= asked for each in of_others.values())


def _half_width(good: float, count: int) -> float:
    """Return half the width of the 95 % interval of a share (Wilson 1927)."""
    share, z2 = good / count, 1.96**2
    return math.sqrt(z2 * (share * (1.0 - share) / count + z2 / (4.0 * count * count))) / (1.0 + z2 / count)


def train(
    rows: Sequence[Row],
    *,
    settings: BanditSettings,
    knobs: TrainingKnobs,
    incumbent: bytes | None = None,
) -> Trained:
    """A new bandit, compared with the incumbent on the latest rows. Blocks: about 1 ms per row.

    An incumbent that cannot be loaded, or was made for another embedder, is ignored. `metrics["comparison"]` tells how much
    better it is than the incumbent, or than what is built in, on the latest rows. Raises NothingToLearn, BanditMissing.
    """
    usable = sorted((r for r in rows if _usable(r, settings)), key=lambda r: r.at_s)
    if not usable:
        raise NothingToLearn("no row can be trained on")
    now_s = usable[-1].at_s
    held = int(len(usable) * knobs.held_out)
    early, late = usable[: len(usable) - held], usable[len(usable) - held :]
    old = _loaded(incumbent, settings)
    made = fresh_bandit(usable, settings, knobs, now_s=now_s)
    metrics: dict[str, Any] = {"rows": len(usable), "held_out": held, "until_s": now_s}
    metrics["learner"] = settings.learner
    for action, shares in made.shares.items():
        metrics |= {f"{part}_{action}": round(value, 3) for part, value in shares._asdict().items()}
    accepted, reason = old is None, "first of its kind" if old is None else "too few rows to compare on"
    if held >= knobs.least_held_out:
        errors = _errors(fresh_bandit(early, settings, knobs, now_s=now_s), late)
        before = _errors(old or VowpalBandit(settings), late)
        metrics["squared_error"] = round(float(errors.mean()), 5)
        metrics["comparison"] = comparison("squared_error", before, errors, with_built_in=old is None)
        if old is not None:
            metrics["incumbent_squared_error"] = round(float(before.mean()), 5)
            lost = errors - before
            accepted = float(lost.mean()) <= float(lost.std(ddof=1)) / math.sqrt(len(lost))
            reason = "not worse than the incumbent" if accepted else "it predicts worse than the incumbent"
    return Trained(made.save(), metrics, accepted, reason)


def fresh_bandit(
    rows: Sequence[Row], settings: BanditSettings, knobs: TrainingKnobs, *, now_s: float
) -> VowpalBandit:
    """A bandit trained on these rows alone, the latest last. Raises BanditInput, BanditMissing."""
    lessons = [lesson for r in rows if (lesson := _aged(r, now_s, knobs)).weight >= knobs.least_weight]
    bandit = VowpalBandit(settings)
    bandit.shares = _shares(lessons[-_WEIGHED_ON:], settings)
    bandit.learn(lessons)
    return bandit


_FOLDS = 5
_WEIGHED_ON = 5_000
"""Latest lessons on which the parts are weighed: each of them is learnt from _FOLDS - 1 times."""
_BEFORE = 0.25
"""Share of each part before any lesson: less than half of what it says, for few outcomes say little."""
_BELIEF = 1.0
"""Weight of that: as much as 100 outcomes if a part is 0.1 from the mean."""
_MOST_SHARE = 1.5
"""Of a part: few outcomes may make the linear model too careful, so that it is followed for more than it says."""
_BELIEF_APART = 5.0
"""Outcomes' worth that the deviation among requests before any lesson counts."""


def _shares(lessons: Sequence[Lesson], settings: BanditSettings) -> dict[str, Shares]:
    """By action, how far to follow each part of its estimate: cross-validated, so that a part which tells nothing beyond the
    action's mean moves nothing.
    """
    found: dict[str, list[tuple[float, float, float]]] = {}
    for fold in range(_FOLDS):
        bandit = VowpalBandit(settings)
        bandit.learn([lesson for at, lesson in enumerate(lessons) if at % _FOLDS != fold])
        for lesson in lessons[fold::_FOLDS]:
            parts = bandit.parts(lesson.scene)
            for index, quality in lesson.qualities.items():
                part, action = parts[index], action_key(lesson.scene.options[index])
                row = part.local, part.linear, quality - part.near.overall
                found.setdefault(action, []).append(row)
    return {action: _fitted(np.array(rows)) for action, rows in found.items()}


def _fitted(rows: npt.NDArray[np.float64]) -> Shares:
    """Non-negative ridge regression of the last column on the first two, drawn to the shares before any lesson."""
    parts = rows[:, :2]
    square = parts.T @ parts + _BELIEF * np.eye(2)
    product = parts.T @ (rows[:, 2] - rows[:, 2].mean()) + _BELIEF * _BEFORE
    shares = np.linalg.solve(square, product)
    if shares.min() < 0.0:
        # With one part at 0 the other stands alone.
        shares = np.where(shares < 0.0, 0.0, product / square.diagonal())
    shares = np.clip(shares, 0.0, _MOST_SHARE)
    variance = float((parts @ shares).var())
    apart = (_BELIEF_APART * Shares().apart ** 2 + len(rows) * variance) / (_BELIEF_APART + len(rows))
    return Shares(float(shares[0]), float(shares[1]), math.sqrt(apart))


def _errors(bandit: VowpalBandit, rows: Sequence[Row]) -> npt.NDArray[np.float64]:
    """The squared error of every known quality's prediction."""
    found = []
    for row in rows:
        expected = bandit.estimate(row.lesson.scene).qualities
        found += [(expected[index] - quality) ** 2 for index, quality in row.lesson.qualities.items()]
    return np.array(found)


def _aged(row: Row, now_s: float, knobs: TrainingKnobs) -> Lesson:
    return replace(row.lesson, weight=row.lesson.weight * 0.5 ** ((now_s - row.at_s) / knobs.half_life_s))


def _usable(row: Row, settings: BanditSettings) -> bool:
    try:
        check_lesson(row.lesson, settings.dimensions)
    except BanditInput:
        return False
    return bool(row.lesson.qualities) and math.isfinite(row.at_s)


def _loaded(incumbent: bytes | None, settings: BanditSettings) -> VowpalBandit | None:
    if incumbent is None:
        return None
    try:
        bandit = VowpalBandit.load(incumbent)
    except BanditError:
        return None
    fits = bandit.settings.dimensions == settings.dimensions
    return bandit if fits and bandit.settings.embedding_version == settings.embedding_version else None
