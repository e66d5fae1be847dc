"""From the settings to the policy that learns, and what it looks things up in. Imported only where a model uses it."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from pathlib import Path

import structlog
from cachetools import LRUCache

from engines.engine import Engine
from learning.bank.background_embedding import version_of
from learning.bank.sharing import lenders
from learning.bank.warm.hot_examples import HotExamples
from learning.training.artifact_follower import ArtifactFollower
from learning.training.artifact_openers import ArtifactOpeners
from learning.training.metrics import LearningMetrics
from router.choosing import chooser
from router.choosing.chooser import Chooser
from router.choosing.exploration_budget import ExplorationBudget
from router.choosing.load import LoadKnobs
from router.dials import Dials
from router.embedding.retriever import Retriever
from router.examples import count as example_count
from router.examples.features import Features
from router.examples.rarity import Rarity
from router.examples.scorer import Scorer, ScorerError
from router.guarantee.floor import cap_in_force
from router.policies.in_context import InContext, Knobs
from router.proving.gate import Gate
from store import Store
from store.learned.quality_floors import QualityFloors
from understudy.memory import Memory
from understudy.settings.config import Config
from understudy.settings.knobs import knobs_of
from understudy.settings.memory import MemorySettings
from understudy.settings.models import ModelSettings
from understudy.setup.examples import embedding_models, standalone
from understudy.setup.learner import promised

log = structlog.get_logger(__name__)

_TRUSTED_FOR_S = 60.0
"""A quality floor's account is brought up to date twice a second while there is traffic."""
_FLOOR = 0.3
"""Cosine below which an example is not even scored."""
_TENANTS_SHOWN = 64
"""Of those asked for last, the least cap is shown."""


@dataclass(frozen=True, slots=True)
class InContextParts:
    """A policy and the follower it depends on, which must be started and stopped."""

    policy: InContext
    follower: ArtifactFollower
    configured: Knobs

    def turn(self, dials: Dials, own: Mapping[str, Dials]) -> None:
        """Decide by these settings from now on, and by `own` for these tenants; what is not set is as configured."""
        self.policy.knobs = self._with(dials)
        self.policy.knobs_of = {tenant: self._with(each) for tenant, each in own.items()}

    def _with(self, dials: Dials) -> Knobs:
        return replace(self.configured, **dials.turned())  # type: ignore[arg-type]


def in_context(
    name: str,
    settings: ModelSettings,
    config: Config,
    memory: Memory,
    engines: Mapping[str, Engine],
    executor: Executor,
    metrics: LearningMetrics,
    gate: Gate | None = None,
) -> InContextParts:
    """The policy of the served model `name`. Needs a memory with examples. `gate`: where small engines need proof."""
    store, embedder, remembered = memory.store, memory.embedder, config.memory
    assert embedder is not None and store.indexes is not None and remembered is not None
    assert remembered.data_dir is not None, "understudy.processes.run gives every memory a folder"
    knobs = _knobs(settings, remembered)
    features = _features(embedder.tokenizer_file)
    retriever = Retriever(
        store.indexes,
        store.examples,
        floor=_FLOOR,
        enough=knobs.candidates,
        lenders=lenders(config.sharing.grants, store.keys.tenant_named),
        for_all_users=store.examples.private.tenants(),
        with_vectors=store.examples.candidate_vectors(
            question_version=embedder.version,
            answer_version=version_of(embedder.version),
        ),
        words=features.rarity.telling,
    )
    openers = ArtifactOpeners(
        store.artifacts,
        features,
        embedding_version=embedder.version,
        deadline_s=settings.advanced.scorer_deadline_ms / 1000,
        models_folder=embedding_models(remembered, remembered.data_dir),
    )
    floor = promised(config, settings)
    follower = ArtifactFollower(
        store.artifacts,
        openers,
        prior=_prior(openers, metrics),
        floors=Caps(store.quality_floors, name, floor.x, metrics) if floor is not None else None,
        broken=lambda kind: metrics.broken.labels(kind).inc(),
    )
    policy = InContext(
        [engines[each] for each in settings.ways],
        embedder,
        retriever,
        partial(follower.of, model=name),
        Chooser(chooser_knobs(settings)),
        ExplorationBudget(settings.advanced.key_share),
        executor,
        knobs,
        hot=_hot(settings, config, store),
        rng=random.Random(),
        templates=memory.templates,
        gate=gate,
        deadline=memory.retrieval,
        standalone=standalone(remembered, embedder),
    )
    return InContextParts(policy, follower, knobs)


@lru_cache(maxsize=2)
def _features(tokenizer: Path) -> Features:
    """For every model and configuration the same: reading a vocabulary takes tens of megabytes for a moment, and what was
    read of the examples stays."""
    return Features(Rarity.read(tokenizer))


class Caps:
    """What the learner found may be offloaded: learning.training.artifact_follower.FloorCaps. No account: nothing is
    proven."""

    def __init__(
        self,
        rows: QualityFloors,
        model: str,
        unproven: float,
        metrics: LearningMetrics,
        *,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.unproven = unproven
        self._rows = rows
        self._gauge = metrics.offload_cap.labels(model)
        self._clock = clock
        self._caps: LRUCache[str, float] = LRUCache(_TENANTS_SHOWN)

    def cap(self, tenant: str, model: str) -> float:
        """See learning.training.artifact_follower.FloorCaps. An account that nobody keeps any more proves nothing either."""
        row = self._rows.get(tenant, model)
        age_s = 0.0 if row is None else self._clock() - row.at_s
        cap = cap_in_force(None if row is None else row.cap, self.unproven, age_s, _TRUSTED_FOR_S)
        self._caps[tenant] = cap
        self._gauge.set(min(self._caps.values()))
        return cap


def _hot(settings: ModelSettings, config: Config, store: Store) -> Callable[[str], Mapping[int, int]]:
    engine = settings.engines[0]
    if engine not in config.replay.advanced.kv_plan.engines:
        return lambda tenant: {}
    return HotExamples(store.jobs.kv_plans, engine).places


def _prior(openers: ArtifactOpeners, metrics: LearningMetrics) -> Scorer | None:
    try:
        return openers.prior()
    except (ScorerError, OSError) as error:
        # Requests can do without: the nearest examples are sent instead.
        metrics.broken.labels("scorer").inc()
        log.error("prior_broken", error=error)
        return None


def chooser_knobs(settings: ModelSettings) -> chooser.Knobs:
    """How a served model explores."""
    advanced = settings.advanced
    return chooser.Knobs(
        least_probability=advanced.epsilon / max(2, _actions(settings)),
        load=LoadKnobs(advanced.load_strength),
    )


def _knobs(settings: ModelSettings, remembered: MemorySettings) -> Knobs:
    advanced = settings.advanced
    retrieve_ms = remembered.advanced.retrieve_deadline_ms
    deadline_s = None if retrieve_ms is None else (retrieve_ms + advanced.scorer_deadline_ms) / 1000
    return knobs_of(
        Knobs,
        settings.in_context,
        settings.few_shot,
        advanced,
        remembered.examples,
        with_tools=settings.with_tools,
        deadline_s=deadline_s,
        counts=example_count.Knobs(),
        least_probability=advanced.epsilon / _actions(settings),
        max_loss=settings.max_loss if settings.proof == "floor" else None,
    )


def _actions(settings: ModelSettings) -> int:
    """Every engine without examples, and every one but the reference with them."""
    return 2 * len(settings.ways) - 1
