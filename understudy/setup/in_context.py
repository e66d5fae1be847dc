"""From the settings to the policy that learns, and what it looks things up in. Imported only where a model uses it."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import structlog
from cachetools import LRUCache

from engines.engine import Engine
from learning.bank.answer_embedding import version_of
from learning.bank.sharing import lenders
from learning.bank.warm.hot_examples import HotExamples
from learning.training.artifact_follower import ArtifactFollower
from learning.training.artifact_openers import ArtifactOpeners
from learning.training.metrics import LearningMetrics
from router.choosing import chooser
from router.choosing.chooser import Chooser
from router.choosing.exploration_budget import ExplorationBudget
from router.choosing.floor import cap_in_force
from router.choosing.load import LoadKnobs
from router.dials import Dials
from router.embedding.retriever import Retriever
from router.examples import combiner
from router.examples import count as example_count
from router.examples.features import Features
from router.examples.rarity import Rarity
from router.examples.scorer import Scorer, ScorerError
from router.policies.in_context import InContext, Knobs
from store import Store
from store.learned.quality_floors import QualityFloors
from understudy.memory import Memory
from understudy.settings.config import Config, ModelSettings
from understudy.setup.learner import promised

log = structlog.get_logger(__name__)

_TRUSTED_FOR_S = 60.0
"""A quality floor's account is brought up to date twice a second while there is traffic."""
_TENANTS_SHOWN = 64
"""Of those asked for last, the least cap is shown."""


@dataclass(frozen=True, slots=True)
class InContextParts:
    """A policy and the follower it depends on, which must be started and stopped."""

    policy: InContext
    follower: ArtifactFollower
    configured: Knobs

    def turn(self, dials: Dials) -> None:
        """Decide by these dials from now on; those that are not turned are as configured."""
        self.policy.knobs = replace(self.configured, **dials.turned())  # type: ignore[arg-type]


def in_context(
    name: str,
    settings: ModelSettings,
    config: Config,
    memory: Memory,
    engines: Mapping[str, Engine],
    executor: Executor,
    metrics: LearningMetrics,
) -> InContextParts:
    """The policy of the served model `name`. Needs a memory with examples."""
    store, embedder, remembered = memory.store, memory.embedder, config.memory
    assert embedder is not None and store.indexes is not None and remembered is not None
    chosen, answers = settings.in_context.examples, remembered.examples.answer_vectors
    retriever = Retriever(
        store.indexes,
        store.examples,
        neighbours=max(remembered.examples.neighbours, chosen.candidates),
        floor=chosen.floor,
        enough=chosen.candidates,
        lenders=lenders(config.sharing.grants, store.keys.tenant_named),
        with_vectors=store.examples.candidate_vectors(
            question_version=embedder.version,
            answer_version=version_of(embedder.version, answers.max_characters) if answers.enabled else "",
        ),
    )
    openers = ArtifactOpeners(
        store.artifacts,
        Features(Rarity.read(embedder.tokenizer_file)),
        dimensions=embedder.dimensions,
        embedding_version=embedder.version,
        deadline_s=chosen.scorer_deadline_ms / 1000,
        models_folder=_models_folder(config),
    )
    floor = promised(config, settings)
    follower = ArtifactFollower(
        store.artifacts,
        openers,
        prior=_prior(openers, metrics),
        floors=Caps(store.quality_floors, name, floor.x, metrics) if floor is not None else None,
        broken=lambda kind: metrics.broken.labels(kind).inc(),
    )
    exploration = settings.in_context.exploration
    knobs = _knobs(settings, config)
    policy = InContext(
        [engines[each] for each in settings.engines],
        embedder,
        retriever,
        partial(follower.of, model=name),
        Chooser(_chooser_knobs(settings)),
        ExplorationBudget(exploration.key_share),
        executor,
        knobs,
        hot=_hot(settings, config, store),
        rng=random.Random(),
    )
    return InContextParts(policy, follower, knobs)


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
    if engine not in config.replay.kv_plan.engines:
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


def _models_folder(config: Config) -> Path:
    memory = config.memory
    assert memory is not None and memory.data_dir is not None
    return memory.examples.embedding.cache_dir or memory.data_dir / "models"


def _chooser_knobs(settings: ModelSettings) -> chooser.Knobs:
    exploration, load = settings.in_context.exploration, settings.in_context.load
    return chooser.Knobs(
        gamma_scale=exploration.gamma,
        least_probability=exploration.epsilon / max(2, 2 * len(settings.engines) - 1),
        load=LoadKnobs(threshold=load.threshold, strength=load.strength),
    )


def _knobs(settings: ModelSettings, config: Config) -> Knobs:
    rule, learned, chosen = settings.few_shot, settings.in_context, settings.in_context.examples
    assert config.memory is not None
    examples = config.memory.examples
    actions = 2 * len(settings.engines) - 1
    return Knobs(
        theta=rule.theta,
        m=rule.m,
        same_names=rule.same_names,
        with_tools=rule.with_tools,
        max_characters=examples.embedding.max_characters,
        deadline_s=(examples.retrieve_deadline_ms + chosen.scorer_deadline_ms) / 1000,
        max_examples=chosen.max_examples,
        max_example_tokens=chosen.max_example_tokens,
        candidates=chosen.candidates,
        combiner=combiner.Knobs(
            min_gain=chosen.min_gain,
            min_promise=chosen.min_promise,
            distraction=chosen.distraction,
            unfamiliar_min_help=chosen.unfamiliar_min_help,
            gain_per_ktok=chosen.gain_per_ktok,
            redundancy=chosen.redundancy,
            order=chosen.order,
        ),
        counts=example_count.Knobs(gain_per_ktok=chosen.gain_per_ktok) if chosen.adapt_count else None,
        label_share=chosen.label_share,
        preference=learned.preference,
        key_preferences=learned.key_preferences,
        least_probability=learned.exploration.epsilon / actions,
        opted_out_keys=learned.exploration.opted_out_keys,
    )
