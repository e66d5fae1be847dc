"""Whether answers that are offloaded have become bad: what the overview, metrics and webhooks warn of.

Per served model and engine, by what judges, people and reviewers said lately, each apart. Pure but for reading the sums.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from learning.evaluation.mean_quality import MeanQuality, mean_quality
from store.decisions.quality_rollups import QualityRollups, QualitySums
from store.decisions.rollups import DAY_S, HOUR_S, MINUTE_S

By = Literal["judge", "feedback", "review"]
Level = Literal["critical", "warning", "good", "not known yet"]
FEWEST = 30
"""Outcomes below which nothing is claimed."""
LATEST: Mapping[By, int] = {"judge": 100, "feedback": 200, "review": 100}
"""The latest outcomes that count: a collapse is not to hide behind a good month."""
_SOURCES: Mapping[str, By] = {"judge": "judge", "user": "feedback", "label": "review"}
_WEEK_S = 7 * DAY_S
_LEAST_FALL = 0.02
"""Of the mean since last week; less is not worth a warning however sure it is."""
_SURE = 1.96


@dataclass(frozen=True, slots=True)
class QualityStanding:
    """How good an engine's offloaded answers to one model's requests are, as one kind of source says."""

    model: str
    engine: str
    by: By
    level: Level
    bar: float
    """What the mean is held against."""
    latest: MeanQuality
    """Of the latest outcomes: LATEST of them, with the rest of the minute or hour in which the first of them came."""
    week: MeanQuality
    """Of the last seven days."""
    week_before: MeanQuality | None
    """Of the seven days before those."""
    fallen: bool
    """Whether the mean is surely lower than in the week before."""


def quality_standings(
    quality: QualityRollups,
    references: Mapping[str, str],
    bar: float,
    now_s: float,
    *,
    tenant: str | None = None,
) -> list[QualityStanding]:
    """Every model and engine that offloaded and of which anything is known, the worst first; of one tenant if named.

    `references`: the reference engine of each served model. `bar`: the setting quality_alarm. Blocks for some milliseconds.
    """
    # Minutes are kept for three hours; what is older is read by the hour.
    seam_s = (now_s // HOUR_S - 2) * HOUR_S
    rows = [
        row
        for row in (
            *quality.sums(HOUR_S, now_s - 2 * _WEEK_S, seam_s, tenant=tenant),
            *quality.sums(MINUTE_S, seam_s, tenant=tenant),
        )
        if row.model in references and not row.failed_over and row.source in _SOURCES
    ]
    groups: dict[tuple[str, str, By], list[QualitySums]] = {}
    for row in rows:
        groups.setdefault((row.model, row.engine, _SOURCES[row.source]), []).append(row)
    found = []
    for (model, engine, by), mine in groups.items():
        if engine != references[model]:
            usual = groups.get((model, references[model], by), ()) if by == "feedback" else ()
            standing = _standing((model, engine, by), mine, _held_against(bar, usual, now_s), now_s)
            if standing is not None:
                found.append(standing)
    order: tuple[Level, ...] = ("critical", "warning", "good", "not known yet")
    return sorted(found, key=lambda one: (order.index(one.level), one.latest.mean, one.model, one.engine))


def _held_against(bar: float, reference: Iterable[QualitySums], now_s: float) -> float:
    """A judge compares with the reference's answer; people do not: theirs is the same share of what they give that one."""
    usual = mean_quality(row for row in reference if row.start_s >= now_s - _WEEK_S)
    return bar * usual.mean if usual is not None and usual.count >= FEWEST else bar


def _standing(
    of: tuple[str, str, By], rows: Sequence[QualitySums], bar: float, now_s: float
) -> QualityStanding | None:
    recent = [row for row in rows if row.start_s >= now_s - _WEEK_S]
    latest, week = mean_quality(_latest(recent, LATEST[of[2]])), mean_quality(recent)
    if latest is None or week is None:
        return None
    before = mean_quality(row for row in rows if row.start_s < now_s - _WEEK_S)
    fallen = before is not None and _surely_lower(week, before)
    level: Level = "good"
    if latest.count < FEWEST:
        level = "not known yet"
    elif latest.high < bar:
        level = "critical"
    elif latest.mean < bar or fallen:
        level = "warning"
    return QualityStanding(*of, level, bar, latest, week, before, fallen)


def _latest(rows: Sequence[QualitySums], most: int) -> list[QualitySums]:
    """The latest rows, which are in the order of time, with at least so many outcomes together; all if they are fewer."""
    found: list[QualitySums] = []
    count = 0
    for row in reversed(rows):
        if count >= most and row.start_s != found[-1].start_s:
            break
        found.append(row)
        count += row.outcomes
    return found


def _surely_lower(now: MeanQuality, before: MeanQuality) -> bool:
    if min(now.count, before.count) < FEWEST:
        return False
    fall = before.mean - now.mean
    return fall > max(_LEAST_FALL, _SURE * math.hypot(now.error, before.error))
