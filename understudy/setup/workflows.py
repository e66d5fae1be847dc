"""From the settings to workflows: which there are, and what their steps are carried out with."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from engines.components.component import Components
from engines.engine import Engine
from engines.registry import Registry
from gateway.pipeline import Pipeline
from gateway.runs.catalogue import Catalogue
from gateway.runs.metrics import RunMetrics
from gateway.runs.warming import Certain, CertainEngine, Warmer
from router.asked import Controls
from store.store import Store
from store.workflows.records import Limits
from understudy.settings.config import Config
from workflows.called import CallLimits
from workflows.plan import Profile

_OURS = frozenset({"vllm", "vllm-local"})
"""Kinds of engines that somebody else does not send bills for."""


@dataclass(frozen=True, slots=True)
class WorkflowParts:
    """What came of it."""

    catalogue: Catalogue
    limits: CallLimits
    warmer: Warmer
    profile: Callable[[], Profile]


def workflow_parts(
    config: Config,
    store: Store,
    pipeline: Pipeline,
    engines: Registry,
    components: Components | None,
    metrics: RunMetrics,
) -> WorkflowParts:
    """Over this gateway's pipeline, store and components. `components`: None where there are none to measure."""
    settings = config.workflows
    certain = certain_engine(config, pipeline, engines)
    warmer = Warmer(
        certain,
        engines,
        min_tokens=settings.advanced.warm_min_tokens,
        told=metrics.prefix,
    )
    limits = CallLimits(settings.max_items, int(settings.max_documents_mib * 2**20))
    return WorkflowParts(
        catalogue(config, store), limits, warmer, lambda: profile(config, certain, components)
    )


def catalogue(config: Config, store: Store) -> Catalogue:
    """Of the configuration's workflows and the tenants' own, whose names are none of the configuration's."""
    configured = config.definitions()
    world = config.world()
    taken = world.taken
    return Catalogue(
        configured,
        store.runs,
        replace(world, taken=lambda name: name in configured or taken(name)),
        Limits(None, int(config.workflows.max_total_mib * 2**20)),
        every_s=config.workflows.advanced.poll_s,
    )


def profile(config: Config, certain: CertainEngine, components: Components | None) -> Profile:
    """Of components and engines as they are now."""
    batches: Mapping[str, int] = {}
    if components is not None:
        batches = {name: components.effective_batch(name) for name in ("local", *config.components)}
    return Profile(
        effective_batch=batches,
        certain_engine=lambda model: certain(model, Controls()) is not None,
        warm_min_tokens=config.workflows.advanced.warm_min_tokens,
    )


def certain_engine(config: Config, pipeline: Pipeline, engines: Mapping[str, Engine]) -> CertainEngine:
    """Who answers for a model, where that hangs on nothing: its policy is `fixed`, or the client names the engine and wants
    no examples. An engine that is sent the client's own credential is asked nothing in its name."""

    def certain(model: str, controls: Controls) -> Certain | None:
        served, settings = pipeline.model(model), config.models.get(model)
        if served is None or settings is None:
            return None
        named = controls.engine
        if settings.policy != "fixed" and (named is None or controls.max_examples != 0):
            return None
        if named is not None and named not in served.engines:
            return None
        name = named or served.engines[0]
        engine = engines[name]
        if not engine.info.holds_key:
            return None
        return Certain(engine, config.engines[name].kind not in _OURS)

    return certain
