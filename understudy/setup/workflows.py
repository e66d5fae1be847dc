"""From the settings to workflows: which there are, and what their steps are carried out with."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial

from engines.components.registry import ComponentRegistry, Counted
from engines.engine import Engine
from engines.errors import RequestError
from engines.registry import Registry
from gateway.admission import Admission
from gateway.components.indexes import WorkflowIndexes
from gateway.pipeline import Pipeline
from gateway.runs.caller import Caller
from gateway.runs.catalogue import OWN, Catalogue
from gateway.runs.means import Means
from gateway.runs.metrics import RunMetrics
from gateway.runs.warming import Certain, CertainEngine, Warmer
from gateway.stages.features import Features
from router.embedding.embedder import Embedder
from store.store import Store
from store.workflows.records import Limits
from understudy.in_use import InUse
from understudy.memory import Memory
from understudy.settings.config import Config
from understudy.setup.component_registry import component_registry
from understudy.setup.components import component_specs
from understudy.setup.examples import open_embedder
from workflows.called import CallLimits
from workflows.plan import Profile

_OURS = frozenset({"vllm", "vllm-local"})
"""Kinds of engines that somebody else does not send bills for."""


@dataclass(frozen=True, slots=True)
class WorkflowParts:
    """What came of it."""

    catalogue: Catalogue
    limits: CallLimits
    """Of the inputs of one call."""
    components: ComponentRegistry
    warmer: Warmer
    means: Means


def workflow_parts(
    config: Config,
    memory: Memory,
    pipeline: Pipeline,
    features: Features,
    admission: Admission,
    engines: Registry,
    metrics: RunMetrics,
    counted: Counted,
    in_use: InUse,
    began: Callable[[], None],
) -> WorkflowParts:
    """Over this gateway's pipeline and memory. Components must be started, and closed after the runs that ask them.
    `in_use` is entered while one is asked; `began` is called for each prefix that is computed early.

    The house's embedder is opened when a workflow first needs it, where no examples need it before.
    """
    settings = config.workflows
    components = component_registry(component_specs(config), partial(_embedder, config, memory), counted)
    warmer = Warmer(
        certain_engine(config, pipeline, features, admission, engines),
        engines,
        pipeline.answer,
        admission,
        min_tokens=settings.advanced.warm_min_tokens,
        told=metrics.prefix,
        began=began,
    )
    limits = Limits(None, int(settings.max_total_mib * 2**20))
    indexes = WorkflowIndexes(memory.store.runs.assets, components.identity, limits)
    return WorkflowParts(
        catalogue(config, memory.store),
        CallLimits(settings.max_items, int(settings.max_documents_mib * 2**20)),
        components,
        warmer,
        Means(
            components,
            indexes,
            lambda: profile(config, components),
            warmer,
            in_use,
            {name: each.price.usd_per_item for name, each in config.components.items()},
            memory.store.decisions.usage.book,
        ),
    )


def _embedder(config: Config, memory: Memory) -> Embedder:
    if memory.embedder is not None:
        return memory.embedder
    assert config.memory is not None
    opened = open_embedder(config.memory, memory.store.folder)
    memory.closing.callback(opened.close)
    return opened


def catalogue(config: Config, store: Store) -> Catalogue:
    """Of the configuration's workflows and the tenants' own, whose names are none of the configuration's."""
    configured = config.definitions()
    world = config.world()
    taken = world.taken
    return Catalogue(
        configured,
        store.runs,
        replace(world, taken=lambda name: name in configured or taken(name) or taken(OWN + name)),
        Limits(None, int(config.workflows.max_total_mib * 2**20)),
    )


def profile(config: Config, components: ComponentRegistry) -> Profile:
    """Of components and engines as they are now. Here it is enough that an engine can be certain: whether it is hangs on the
    call, too, where a client may name one, and is looked at then."""

    def hosted(model: str) -> bool:
        settings = config.models.get(model)
        return settings is None or all(config.engines[name].kind not in _OURS for name in settings.engines)

    return Profile(
        effective_batch={name: components.effective_batch(name) for name in components},
        certain_engine=lambda model: model in config.models,
        hosted=hosted,
        warm_min_tokens=config.workflows.advanced.warm_min_tokens,
    )


def certain_engine(
    config: Config,
    pipeline: Pipeline,
    features: Features,
    admission: Admission,
    engines: Mapping[str, Engine],
) -> CertainEngine:
    """Who answers for a model, where that hangs on nothing: its policy is `fixed`, or the client names the engine and wants
    no examples. An engine that is sent the client's own credential is asked nothing in its name."""

    def certain(model: str, caller: Caller) -> Certain | None:
        served, settings = pipeline.model(model), config.models.get(model)
        if served is None or settings is None:
            return None
        named = caller.controls.engine
        if settings.policy != "fixed" and (named is None or caller.controls.max_examples != 0):
            return None
        try:
            admitted = admission.component(caller.arrival())
        except RequestError:
            return None
        if features.guarded(admitted, model):
            return None
        if named is not None and named not in served.engines:
            return None
        name = named or served.engines[0]
        engine = engines[name]
        if not engine.info.holds_key or not admitted.reach.allows_region(engine.info.region):
            return None
        return Certain(engine, config.engines[name].kind not in _OURS)

    return certain
