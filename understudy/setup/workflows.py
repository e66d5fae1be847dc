"""From the settings to workflows: which there are, and what their steps are carried out with."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from engines.components.registry import ComponentRegistry
from engines.run_call import WORKFLOW
from engines.servers.prober import Pace, Prober
from gateway.components.metrics import ComponentMetrics
from gateway.served_model import ServedModel
from router.embedding.embedder import Embedder
from router.policies.fixed import Fixed
from store.store import Store
from store.workflows.records import Limits
from understudy.built import Built
from understudy.memory import Memory
from understudy.settings.config import Config
from understudy.settings.knobs import knobs_of
from understudy.setup.component_registry import component_registry
from understudy.setup.components import component_specs
from understudy.setup.examples import open_embedder
from understudy.setup.served_by import digest, unknown_servers
from workflows.called import CallLimits
from workflows.names import OWN
from workflows.plan import Profile
from workflows.running.catalogue import Catalogue
from workflows.running.kept_indexes import WorkflowIndexes
from workflows.running.means import Means


def add_to(built: Built) -> None:
    """Set up what workflows' steps are carried out with; components are closed after the runs that ask them.

    The house's embedder is opened when a workflow first needs it, where no examples need it before.
    """
    config, memory, parts = built.config, built.remembered, built.parts
    settings, counted = config.workflows, ComponentMetrics(built.metrics.registry)
    components = component_registry(component_specs(config), partial(_embedder, config, memory), counted.of)
    limits = Limits(None, int(settings.max_total_mib * 2**20))
    indexes = WorkflowIndexes(memory.store.runs.assets, components.identity, limits)
    built.catalogue = catalogue(config, memory.store)
    built.call_limits = CallLimits(settings.max_items, int(settings.max_documents_mib * 2**20))
    built.means = Means(
        components,
        indexes,
        lambda: profile(config, components),
        {name: each.price.usd_per_item for name, each in config.components.items()},
    )
    parts.add(components, start=components.start, aclose=components.aclose)
    prober = Prober(components.probed, knobs_of(Pace, config.health), counted.stands)
    parts.add(prober, start=prober.start, aclose=prober.aclose)


def _embedder(config: Config, memory: Memory) -> Embedder:
    if memory.embedder is not None:
        return memory.embedder
    assert config.memory is not None
    opened = open_embedder(config.memory, memory.store.folder)
    memory.closing.callback(opened.close)
    return opened


def served(config: Config, catalogue: Catalogue) -> dict[str, ServedModel]:
    """The models that are workflows: each of the configuration's, and one that stands for all that tenants keep."""
    servers = [*config.engines.values(), *([config.upstream] if config.upstream else [])]
    models = sorted((name, model.policy, model.engines) for name, model in config.models.items())
    one = ServedModel(
        f"{OWN}*",
        (WORKFLOW,),
        Fixed((WORKFLOW,), reason=WORKFLOW),
        remember=False,
        digest=f"{digest(servers)}\n{models}\n{config.components}",
        unknown_servers=unknown_servers(servers),
        workflow=True,
    )
    return {each.name: each for each in (one, *(replace(one, name=name) for name in catalogue.configured))}


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
    """What the passes know of components, as they are now."""
    return Profile(
        effective_batch={name: components.effective_batch(name) for name in components},
    )
