"""Notices that offloaded answers have become bad, for the overview, metrics and webhooks.

Per served model and engine, by what judges, people and reviewers said lately, each apart. Of everybody together, where one
tenant's bad answers are lost among many good ones, and of each tenant. Pure but for reading the sums.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from learning.evaluation.mean_quality import LEVEL, MeanQuality, mean_quality
from store.decisions.quality_rollups import EVERYBODY, LatelySums, QualityRollups, QualitySums
from store.sums import DAY_S

By = Literal["judge", "feedback", "review"]
Level = Literal["critical", "warning", "good", "not known yet"]
ALARMS: tuple[Level, ...] = ("critical", "warning")
"""Levels that are told, the worst first."""
FEWEST = 30
"""Outcomes below which nothing is claimed."""
LATEST: Mapping[By, int] = {"judge": 100, "feedback": 200, "review": 100}
"""The latest outcomes that count: a collapse is not to hide behind a good month."""
_SOURCES: Mapping[str, By] = {"judge": "judge", "user": "feedback", "label": "review"}
_LATEST_OF = {source: LATEST[by] for source, by in _SOURCES.items()}
_ORDER: tuple[Level, ...] = (*ALARMS, "good", "not known yet")
_WEEK_S = 7 * DAY_S
_LEAST_FALL = 0.02
"""The least fall of the mean since last week; less is not worth a warning however sure it is."""
_SURE = 1.96


@dataclass(frozen=True, slots=True)
class QualityStanding:
    """The quality of an engine's offloaded answers to one model's requests, by one kind of source."""

    model: str
    engine: str
    by: By
    level: Level
    bar: float
    """The bar that the mean is held against."""
    latest: MeanQuality
    """The mean of the LATEST outcomes, with the rest of the minute or hour in which the first of them came."""
    week: MeanQuality
    """The mean of the last seven days."""
    week_before: MeanQuality | None
    """The mean of the seven days before those."""
    fallen: bool
    """True if the mean is surely lower than in the week before."""
    tenant: str = ""
    """The tenant whose answers these are, if each tenant's are looked at apart."""
    alone: bool = False
    """True if nobody else's are known: everybody's standing says at least as much."""


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
    whose = tenant or EVERYBODY
    rows = quality.lately(now_s, _WEEK_S, _LATEST_OF, tenants=sorted({whose, EVERYBODY}))
    return _worst_first(one for row, one in _standings(rows, references, bar) if row.tenant == whose)


def quality_of_tenants(
    quality: QualityRollups, references: Mapping[str, str], bar: float, now_s: float
) -> list[QualityStanding]:
    """`standings_of_tenants` of every tenant with FEWEST outcomes in the week. Blocks for up to a second."""
    rows = quality.lately(now_s, _WEEK_S, _LATEST_OF, fewest=FEWEST)
    return standings_of_tenants(rows, references, bar)


def standings_of_tenants(
    rows: Sequence[LatelySums], references: Mapping[str, str], bar: float
) -> list[QualityStanding]:
    """Each tenant's, the worst first. Of many bounds at 95 % some are wrong: that many tenants are looked at is allowed for.

    Critical: the interval at 1 - 0.05 / m, with m standings, ends below what is wanted. Where all are good, a look at them
    finds none with a probability of 97.5 %, however many they are (Bonferroni; Dunn 1961, "Multiple comparisons among
    means"). Warning: it is among those of which 2.5 % at most are expected to be good (Benjamini & Hochberg 1995,
    "Controlling the false discovery rate"), or this week's interval at 1 - 0.05 / m lies below that of the week before. A
    mean that merely is below what is wanted is no warning: of many good tenants' some always are.
    """
    known = {
        (row.model, row.engine, row.source): row.period.outcomes for row in rows if row.tenant == EVERYBODY
    }
    found = [
        (row, one)
        for row, one in _standings(rows, references, bar)
        if row.tenant != EVERYBODY and one.latest.count >= FEWEST
    ]
    low = [(row, one.bar) for row, one in found if one.latest.high < one.bar]
    share = _shared(low, len(found))
    told = []
    for row, one in found:
        fallen = _fallen_apart(row, 1 / len(found))
        level: Level = "good"
        if one.latest.high < one.bar and _below(row, one.bar, 1 / len(found)):
            level = "critical"
        elif fallen or (one.latest.high < one.bar and _below(row, one.bar, share)):
            level = "warning"
        alone = row.period.outcomes == known.get((row.model, row.engine, row.source))
        told.append(replace(one, level=level, fallen=fallen, tenant=row.tenant, alone=alone))
    return _worst_first(told)


def _shared(low: Sequence[tuple[LatelySums, float]], m: int) -> float:
    """The largest share k/m of the error at which k of them are still below: Benjamini & Hochberg's step up, from above."""
    k = len(low)
    while k and (below := sum(_below(row, bar, k / m) for row, bar in low)) < k:
        k = below
    return k / m if m else 0.0


def _below(row: LatelySums, bar: float, share: float) -> bool:
    """Tell if the latest mean is surely below the bar, with only that share of the error allowed."""
    latest = mean_quality([row.latest], 1.0 - share * (1.0 - LEVEL)) if share else None
    return latest is not None and latest.high < bar


def _fallen_apart(row: LatelySums, share: float) -> bool:
    """Tell if this week's interval lies apart below the last one's, with only that share of the error allowed.

    The standard errors alone, as `_surely_lower` has them, are too sure of few outcomes that are all equal.
    """
    if min(row.period.outcomes, row.before.outcomes) < FEWEST:
        return False
    level = 1.0 - share * (1.0 - LEVEL)
    now, before = mean_quality([row.period], level), mean_quality([row.before], level)
    assert now is not None and before is not None, "there are FEWEST"
    return before.mean - now.mean > _LEAST_FALL and now.high < before.low


def _worst_first(found: Iterable[QualityStanding]) -> list[QualityStanding]:
    return sorted(
        found, key=lambda one: (_ORDER.index(one.level), one.latest.mean, one.model, one.engine, one.tenant)
    )


def _standings(
    rows: Sequence[LatelySums], references: Mapping[str, str], bar: float
) -> Iterator[tuple[LatelySums, QualityStanding]]:
    """Yield the standing of each engine's offloaded answers to a served model."""
    usual = {
        (row.tenant, row.model): row.period
        for row in rows
        if row.source == "user" and row.engine == references.get(row.model)
    }
    for row in rows:
        if references.get(row.model, row.engine) != row.engine:
            theirs = [usual.get((whose, row.model)) for whose in (row.tenant, EVERYBODY)]
            held_against = _held_against(bar, theirs) if row.source == "user" else bar
            yield row, _standing(row, held_against)


def _held_against(bar: float, references: Iterable[QualitySums | None]) -> float:
    """A judge compares with the reference's answer; people do not: theirs is the same share of what they give that one.

    `references`: of that tenant, and of everybody; the first with FEWEST outcomes counts.
    """
    for sums in references:
        usual = mean_quality([sums]) if sums is not None else None
        if usual is not None and usual.count >= FEWEST:
            return bar * usual.mean
    return bar


def _standing(row: LatelySums, bar: float) -> QualityStanding:
    latest, week = mean_quality([row.latest]), mean_quality([row.period])
    assert latest is not None and week is not None, "without any in the week there is no row"
    before = mean_quality([row.before])
    fallen = before is not None and _surely_lower(week, before)
    level: Level = "good"
    if latest.count < FEWEST:
        level = "not known yet"
    elif latest.high < bar:
        level = "critical"
    elif latest.mean < bar or fallen:
        level = "warning"
    by = _SOURCES[row.source]
    return QualityStanding(row.model, row.engine, by, level, bar, latest, week, before, fallen)


def _surely_lower(now: MeanQuality, before: MeanQuality) -> bool:
    if min(now.count, before.count) < FEWEST:
        return False
    fall = before.mean - now.mean
    return fall > max(_LEAST_FALL, _SURE * math.hypot(now.error, before.error))
