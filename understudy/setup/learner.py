"""From the settings to a learner: opens the store of the data folder, without an index, and says what is to be trained."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import structlog

from learning.bank.background_embedding import version_of
from learning.bank.sharing import lenders
from learning.guarantee.floor import caught_up
from learning.tasks.proposals import TaskFinder
from learning.tasks.trainer import StudentLearner
from learning.training.bandit import HALF_LIFE_S
from learning.training.learner import Pace, RouterLearner, Trainer
from learning.training.scorer.lessons import lessons_of
from learning.training.scorer.rows import AnswersOf
from learning.training.trainers import BanditTrainer, ScorerTrainer
from router.guarantee.floor import FloorSettings
from router.tasks.matching import MOST_TASKS
from store import Store
from store.jobs.leases import Leases
from store.learned.quality_floors import FloorRow
from understudy.settings.config import Config
from understudy.settings.knobs import knobs_of
from understudy.settings.models import ModelSettings
from understudy.setup.store import open_store
from understudy.setup.students import student_learner

log = structlog.get_logger(__name__)

FLOOR_CONFIDENCE = 0.95
"""Of the bound behind max_loss, at all times together."""
MOST_OUTCOMES = 20_000
"""Latest outcomes trained on, per tenant and model."""
_WRITE_S = 30.0
_RENEW_S = 10.0
_SCORER_NEEDS = 300
"""Outcomes with examples before the scorer is trained."""


@dataclass(frozen=True, slots=True)
class Learning:
    """What the learner's process does."""

    learner: RouterLearner
    students: StudentLearner
    tasks: TaskFinder
    floors: Callable[[], None]
    """Brings every quality floor's account up to date."""
    leases: Leases


@contextmanager
def learning(config: Config, stopping: Callable[[], bool]) -> Iterator[Learning]:
    """Opens the store and closes it again. Raises what opening a store raises."""
    memory = config.memory
    assert memory is not None and memory.data_dir is not None, (
        "understudy.processes.run gives every memory a folder"
    )
    store = open_store(memory)
    try:
        learner = RouterLearner(
            store.outcomes,
            store.artifacts,
            lambda model: trainers(store, config, model),
            knobs_of(Pace, config.learning.advanced, max_outcomes=MOST_OUTCOMES),
            lenders=_granted(config, store),
            stopping=stopping,
        )
        yield Learning(
            learner,
            student_learner(store, config, stopping),
            TaskFinder(
                store,
                # What a model declares may be what would be found.
                lambda model: (
                    (served := config.models.get(model)) is not None
                    and served.find_tasks
                    and served.may_have_tasks
                    and not served.tasks
                ),
                most=MOST_TASKS,
                stopping=stopping,
            ),
            Floors(store, config).catch_up,
            store.jobs.leases,
        )
    finally:
        store.close()


def trainers(store: Store, config: Config, model: str) -> Sequence[Trainer]:
    """What is trained for a served model; nothing for one that does not learn."""
    settings = config.models.get(model)
    if settings is None or settings.policy != "in_context":
        return ()
    # Imported here: only who trains needs the weights.
    from router.examples.prior import prior_model

    assert config.memory is not None
    lessons = lessons_of(store, config.memory.examples.embedding_model, version_of)
    return (
        BanditTrainer(settings.advanced.outcomes_needed, HALF_LIFE_S),
        ScorerTrainer(_SCORER_NEEDS, answers_of(store), prior_model, lessons),
    )


def answers_of(store: Store) -> Callable[[str], AnswersOf]:
    """From a tenant to a reader of its examples' answers, as the scorer is trained on them."""

    def of(tenant: str) -> AnswersOf:
        def answers(ids: Sequence[int]) -> dict[int, str]:
            return {e.id: e.answer for e in store.examples.by_ids(tenant, ids, serving=False)}

        return answers

    return of


def _granted(config: Config, store: Store) -> Callable[[str], Sequence[str]]:
    granted = lenders(config.sharing.grants, store.keys.tenant_named)
    return lambda tenant: granted.get(tenant, ())


class Floors:
    """Every quality floor of a configuration."""

    def __init__(self, store: Store, config: Config) -> None:
        self._store = store
        self._rows = store.quality_floors
        self._promised = {
            name: (model, promise)
            for name, model in config.models.items()
            if (promise := promised(config, model)) is not None
        }

    def catch_up(self) -> None:
        """Read what is new in the log and write what may be offloaded now."""
        if not self._promised:
            return
        for tenant, name in self._store.decisions.choices.slots():
            if name in self._promised:
                try:
                    self._catch_up(tenant, name)
                except Exception as error:
                    # One tenant's odd log must not keep the others' promises from being kept.
                    log.error("quality_floor_failed", tenant=tenant, model=name, error=error)

    def _catch_up(self, tenant: str, name: str) -> None:
        model, promise = self._promised[name]
        row, floor = caught_up(
            before := self._rows.get(tenant, name),
            promise,
            self._store.decisions.choices,
            self._store.outcomes,
            tenant=tenant,
            model=name,
            reference=model.engines[-1],
            now_s=time.time(),
        )
        if before is None or _news(before, row):
            self._rows.put(row).result(_WRITE_S)
        if before is None or before.standing != row.standing:
            tell = log.warning if row.standing == "threatened" else log.info
            tell("quality_floor", tenant=tenant, model=name, **floor.state())


def _news(before: FloorRow, now: FloorRow) -> bool:
    """Whether it is worth a write: a row is also renewed now and then, since workers do not trust an old one."""
    same = (before.last_choice, before.last_outcome, before.cap) == (
        now.last_choice,
        now.last_outcome,
        now.cap,
    )
    return not same or now.at_s - before.at_s > _RENEW_S


def promised(config: Config, model: ModelSettings) -> FloorSettings | None:
    """The promise made for a model; None without one."""
    judging = config.judging
    if model.policy != "in_context" or model.proof != "floor" or judging is None:
        return None
    return FloorSettings(model.max_loss, 1.0 - FLOOR_CONFIDENCE, judging.share_offloaded)
