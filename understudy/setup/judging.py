"""From the settings to a judge at work. Imported only where one is configured."""

from __future__ import annotations

from collections.abc import Mapping

from engines.engine import Engine
from gateway.config import Config
from gateway.feedback.known_quality import known_quality
from gateway.judging.judging import Judging
from gateway.judging.limits import JudgingLimits
from gateway.judging.metrics import JudgingMetrics
from gateway.metrics import Metrics
from gateway.settings.learning import JudgingSettings
from store.memory import Memory as Store


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
