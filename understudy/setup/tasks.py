"""From the settings to tasks: what finds them, who answers them, and what keeps up with what is learnt of them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from functools import partial

from engines.student import STUDENT, StudentEngine
from learning.guarantee.students import EvidenceFollower
from learning.tasks.task_follower import TaskFollower
from router.plan import Policy
from router.policies.neural_cache import NeuralCache, Preferences
from router.tasks.matching import DeclaredTask, Tasks, declared_labels
from router.tasks.takeover import Takeovers
from router.tasks.task import Budget, Task
from store.tasks.tasks import TaskRow
from understudy.built import Built
from understudy.memory import Memory
from understudy.settings.config import Config
from understudy.settings.models import ModelSettings
from understudy.settings.tasks import TaskSettings
from understudy.setup.students import students


def add_to(built: Built) -> None:
    """Put a policy that lets students answer around that of each model which may have tasks; none where an engine has the
    student's name."""
    memory, engines, policies = built.remembered, built.engines, built.policies
    models = {name: model for name, model in built.config.models.items() if model.may_have_tasks}
    embedder, store = memory.embedder, memory.store
    if not models or embedder is None or not isinstance(engines.get(STUDENT), StudentEngine):
        return
    found = {name: tasks_of(name, model, memory) for name, model in models.items()}
    takeovers = Takeovers({name: model.policy == "fixed" for name, model in models.items()})
    opened = students(store, embedder.version, built.learning_metrics)
    wrapped: dict[str, Policy] = {
        name: NeuralCache(
            policies[name],
            model.ways,
            found[name].posed,
            embedder,
            opened,
            takeovers.of,
            built.threads,
            preferences=partial(
                Preferences, model.in_context.preference, dict(model.advanced.key_preferences)
            ),
            price=engines[model.engines[-1]].info.price,
        )
        for name, model in models.items()
    }
    built.policies = {**policies, **wrapped}
    built.follow(TaskFollower(store.tasks.known, tuple(found.values())))
    built.follow(opened)
    built.follow(EvidenceFollower(store.tasks.answers, takeovers))


def tasks_of(name: str, model: ModelSettings, memory: Memory) -> Tasks:
    """What says which task a request for a served model belongs to."""
    return Tasks(
        name,
        tuple(_declared(name, model)),
        max_loss=model.max_loss,
        by_enum=model.find_tasks,
        templates=memory.templates,
    )


def task_of(config: Config, row: TaskRow) -> Task | None:
    """A listed task with the settings that count for it; None where this configuration has none such."""
    served = config.models.get(row.model)
    if served is None or not served.may_have_tasks:
        return None
    settings, paused = served.tasks.get(row.name), row.state == "paused"
    if settings is not None:
        return replace(_task(row.model, row.name, settings, served), tenant=row.tenant, paused=paused)
    if row.source == "configured":
        return None
    return Task(row.name, row.tenant, row.model, row.labels, max_loss=served.max_loss, paused=paused)


def _declared(name: str, model: ModelSettings) -> Iterator[DeclaredTask]:
    for task, settings in model.tasks.items():
        pattern = re.compile(settings.system) if settings.system is not None else None
        yield DeclaredTask(_task(name, task, settings, model), pattern, settings.json_schema)


def _task(model: str, name: str, settings: TaskSettings, served: ModelSettings) -> Task:
    budget = settings.budget
    return Task(
        name,
        "",
        model,
        declared_labels(settings.labels, settings.json_schema),
        None if budget is None else Budget(budget.calls_per_day, budget.share, budget.usd_per_day),
        settings.strategy,
        settings.threshold,
        served.max_loss if settings.max_loss is None else settings.max_loss,
    )
