"""From the settings to students: what trains them, in the learner's process, and what holds them open, in each worker."""

from __future__ import annotations

import time
from collections.abc import Callable

from learning.tasks.follower import StudentFollower
from learning.tasks.trainer import Rhythm, StudentLearner, StudentPace
from learning.ticks import latest_tick
from learning.training.bandit import HALF_LIFE_S
from learning.training.metrics import LearningMetrics
from router.tasks.requests import labels_of
from store import Store
from understudy.settings.config import Config
from understudy.settings.replay import time_zone
from understudy.settings.tasks import TaskSettings


def student_learner(
    store: Store, config: Config, stopping: Callable[[], bool], clock: Callable[[], float] = time.time
) -> StudentLearner:
    """Trains the students of the tasks of every configured model."""
    zone = time_zone(config.replay.time_zone)

    def rhythm(tenant: str, slot: str) -> Rhythm | None:
        # A model's name may have a slash in it, a task's may not.
        model, _, name = slot.rpartition("/")
        settings = config.models.get(model)
        if settings is None:
            return None
        declared = settings.tasks.get(name)
        if declared is not None:
            schema = declared.json_schema
            labels = declared.labels if schema is None else labels_of(schema)
            tick_s = latest_tick(declared.retrain, zone, clock()) if declared.retrain is not None else None
            return Rhythm(declared.retrain_every, labels, tick_s)
        rows = store.tasks.known.all(tenant=tenant, name=name)
        labels = next((row.labels for row in rows if row.model == model), ())
        return Rhythm(TaskSettings().retrain_every, labels)

    return StudentLearner(
        store.tasks.answers,
        store.artifacts,
        rhythm,
        StudentPace(half_life_s=HALF_LIFE_S),
        stopping=stopping,
        clock=clock,
    )


def students(
    store: Store,
    embedding_version: str,
    metrics: LearningMetrics,
) -> StudentFollower:
    """Holds students open; to be started and stopped."""
    return StudentFollower(
        store.artifacts,
        embedding_version=embedding_version,
        broken=lambda kind: metrics.broken.labels(kind).inc(),
    )
