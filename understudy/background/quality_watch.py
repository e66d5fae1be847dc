"""Adds up what became known of answers' quality, and says in metrics how offloaded answers stand.

A thread of its own in every worker: its series, and the webhooks that read the same sums, need no admin pages.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial

from prometheus_client import CollectorRegistry, Gauge

from learning.guarantee.quality_alarm import (
    ALARMS,
    Level,
    QualityStanding,
    quality_of_tenants,
    quality_standings,
)
from store.decisions.quality_rollups import QualityRollups
from understudy.background.housekeeping import Chore

_EVERY_S = 5.0
_TENANTS_EVERY_S = 60.0
"""The read of all tenants takes up to a second."""
_MOST_AT_ONCE = 20
"""Batches of outcomes added up in a row: another look comes."""
_LABELS = ("model", "engine", "by")
_LEVELS: Mapping[Level, int] = {"critical": 2, "warning": 1, "good": 0, "not known yet": 0}


class QualityMetrics:
    """Series of one process."""

    def __init__(self, registry: CollectorRegistry) -> None:
        def gauge(name: str, help: str) -> Gauge:
            return Gauge(name, help, _LABELS, registry=registry, multiprocess_mode="mostrecent")

        self.alarm = gauge(
            "understudy_quality_alarm",
            "Offloaded answers: 2 where their quality is surely below what is wanted, 1 where it seems so or has fallen.",
        )
        # No label of a tenant: there may be thousands, and others than operators may read metrics.
        self.tenants = Gauge(
            "understudy_quality_alarm_tenants",
            "Tenants with an alarm of their own, by its level.",
            ("model", "level"),
            registry=registry,
            multiprocess_mode="mostrecent",
        )
        self.mean = gauge("understudy_offloaded_quality", "Mean quality of the latest offloaded answers.")
        self.high = gauge(
            "understudy_offloaded_quality_upper", "Upper end of the 95 % interval of that mean."
        )
        self.count = gauge(
            "understudy_offloaded_quality_outcomes", "Judgements, feedback or reviews that the mean rests on."
        )

    def stands(self, standing: QualityStanding) -> None:
        """Set the series of one model, engine and kind of source."""
        labels = standing.model, standing.engine, standing.by
        self.alarm.labels(*labels).set(_LEVELS[standing.level])
        self.mean.labels(*labels).set(standing.latest.mean)
        self.high.labels(*labels).set(standing.latest.high)
        self.count.labels(*labels).set(standing.latest.count)

    def tenants_stand(self, models: Iterable[str], standings: Sequence[QualityStanding]) -> None:
        """Count each tenant once for each model, by its worst standing. They come the worst first."""
        worst: dict[tuple[str, str], Level] = {}
        for one in standings:
            worst.setdefault((one.model, one.tenant), one.level)
        counts = Counter((model, level) for (model, _), level in worst.items())
        for model in models:
            for level in ALARMS:
                self.tenants.labels(model, level).set(counts[model, level])


class QualityWatch:
    """Reads how answers stood, as `chores` of a housekeeper."""

    def __init__(
        self,
        quality: QualityRollups,
        references: Mapping[str, str],
        bar: float,
        metrics: QualityMetrics,
        *,
        clock: Callable[[], float],
        every_s: float = _EVERY_S,
        tenants_every_s: float = _TENANTS_EVERY_S,
    ) -> None:
        """`references`: the reference engine of each served model; `bar`: the setting learning.quality_alarm."""
        self._quality = quality
        self._standings = partial(quality_standings, quality, references, bar)
        self._of_tenants = partial(quality_of_tenants, quality, references, bar)
        self._models = tuple(references)
        self._metrics = metrics
        self._clock = clock
        self.chores = (
            Chore("quality", every_s, self.look, each=True),
            Chore("quality of tenants", tenants_every_s, self.look_at_tenants, each=True),
        )

    def look(self) -> None:
        """Add up what is new, and set the series. Blocks."""
        for _ in range(_MOST_AT_ONCE):
            if not self._quality.catch_up():
                break
        for standing in self._standings(self._clock()):
            self._metrics.stands(standing)

    def look_at_tenants(self) -> None:
        """Count the tenants that have an alarm of their own. Blocks."""
        self._metrics.tenants_stand(self._models, self._of_tenants(self._clock()))
