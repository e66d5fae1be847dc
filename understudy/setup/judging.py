"""Compares some answers with the reference's, beside requests."""

from __future__ import annotations

from learning.outcomes.judging_metrics import JudgingMetrics
from understudy.built import Built
from understudy.setup.outcomes import judging


def add_to(built: Built) -> None:
    """Judge in the background; what it costs decides whether a proof is too dear."""
    counters, store = JudgingMetrics(built.metrics.registry), built.remembered.store
    made = judging(built.config, store, built.engines, counters, built.load.shedding)
    built.too_dear, built.told = made.too_dear, made.told
    built.parts.add(made, start=made.start, aclose=made.aclose, finished=made.take)
