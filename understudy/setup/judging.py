"""From the settings to a judge at work. Imported only where one is configured."""

from __future__ import annotations

from collections.abc import Mapping

from engines.engine import Engine
from gateway.metrics import Metrics
from learning.outcomes.judging import Judging
from learning.outcomes.judging_limits import JudgingLimits
from learning.outcomes.judging_metrics import JudgingMetrics
from store import Store
from understudy.settings.config import Config
from understudy.settings.learning import JudgingSettings
from understudy.setup.feedback import known_quality


def judging(
    settings: JudgingSettings, config: Config, store: Store, engines: Mapping[str, Engine], metrics: Metrics
) -> Judging:
    """Over an open store. Each worker judges for itself, and has its share of the money."""
    workers = config.listen.workers
    per_hour = settings.max_usd_per_hour
    limits = JudgingLimits(
        share_offloaded=settings.share_offloaded,
        share_reference=settings.share_reference,
        others=settings.others,
        samples=settings.samples,
        tie=settings.tie,
        max_usd_per_day=settings.max_usd_per_day / workers,
        max_usd_per_hour=None if per_hour is None else per_hour / workers,
        max_in_flight=settings.max_in_flight,
        max_queued=settings.max_queued,
        pause_above=settings.pause_above,
        max_tokens=settings.max_tokens,
        verdict_tokens=settings.verdict_tokens,
        judge_fields=settings.judge_fields,
    )
    return Judging(
        engines,
        {name: model.engines for name, model in config.models.items()},
        settings.engine,
        store.outcomes,
        JudgingMetrics(metrics.registry),
        limits,
        qualities=store.examples.ledger,
        known=known_quality(store, config),
        opted_out_keys=settings.opted_out_keys,
    )
