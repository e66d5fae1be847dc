"""Where answers can be offloaded, and what becomes known of them is kept."""

from __future__ import annotations

import time

from understudy.background.quality_watch import QualityMetrics, QualityWatch
from understudy.built import Built


def add_to(built: Built) -> None:
    """Watch the quality of offloaded answers."""
    config = built.config
    made = QualityWatch(
        built.remembered.store.decisions.quality,
        config.references(),
        config.learning.quality_alarm,
        QualityMetrics(built.metrics.registry),
        clock=time.time,
    )
    built.remembered.housekeeper.add(made.chores)
