"""The stages that requests go through, and the models they are asked of."""

from __future__ import annotations

from functools import partial

from gateway.in_flight import InFlight
from gateway.keepers.session import unit_of
from gateway.pipeline import Pipeline
from gateway.same_request import SameRequest
from gateway.served_model import ServedModel
from gateway.stages.features import Features
from gateway.stages.stage import Stage
from router.plan import Policy
from router.policies.fixed import Fixed
from router.stand_ins import StandIns
from understudy.built import Built
from understudy.settings.models import ModelSettings
from understudy.setup.engines import UPSTREAM
from understudy.setup.responses import still_stands
from understudy.setup.served_by import digest, ignored_fields, unknown_servers


def add_to(built: Built) -> None:
    """Build the pipeline of the configured models and workflows."""
    config, memory = built.config, built.memory
    exact = memory.exact if memory else None
    built.same = _same(built)
    built.stages = Features(
        built.engines,
        exact,
        InFlight() if exact is not None else None,
        built.semantic,
        sampled=config.memory is not None and config.memory.exact.sampled,
        limiter=built.limiter,
        stand_ins=built.engines.stand_ins,
        guardrails=built.guardrails,
        too_dear=built.too_dear,
        unit_of=partial(unit_of, built.secret),
        stands=partial(still_stands, built.owners),
        same=built.same,
        workflow=_workflow_stage(built),
    )
    served = {name: _served(built, name, model) for name, model in config.models.items()}
    if built.catalogue is not None:
        from understudy.setup.workflows import served as workflows

        served |= workflows(config, built.catalogue)
    built.pipeline = Pipeline(
        built.engines,
        served,
        _not_listed(built) if exact and built.upstream else None,
        stages=built.stages.stages,
        ended=built.parts.finished,
    )


def _not_listed(built: Built) -> ServedModel:
    upstreams = [built.config.upstream] if built.config.upstream else []
    # Models that are not listed go straight to the upstream: nothing but exact repeats stands between.
    # It is asked once: with nobody else to carry on, it would be paid twice.
    return ServedModel(
        "",
        (UPSTREAM,),
        Fixed((UPSTREAM,), reason="not_listed"),
        remember=False,
        continue_broken=False,
        digest=digest(upstreams),
        ignored_fields=ignored_fields(upstreams),
        unknown_servers=unknown_servers(upstreams),
    )


def _served(built: Built, name: str, settings: ModelSettings) -> ServedModel:
    larger = (settings.larger_context,) if settings.larger_context else ()
    servers = [built.config.engines[engine] for engine in (*settings.engines, *settings.cascade, *larger)]
    return ServedModel(
        name,
        settings.ways,
        built.policies.get(name) or fixed(settings),
        remember=settings.remember,
        continue_broken=settings.advanced.continue_broken,
        larger_context=settings.larger_context,
        digest=digest(servers),
        ignored_fields=ignored_fields(servers),
        unknown_servers=unknown_servers(servers),
        stand_ins=stand_ins(settings),
        key_dials=settings.advanced.key_preferences if settings.policy == "in_context" else {},
    )


def stand_ins(settings: ModelSettings) -> StandIns:
    """Name who answers where a model's engine cannot."""
    proof = "off" if settings.policy == "fixed" else settings.proof
    return StandIns(settings.ways, settings.stand_ins, proof)


def fixed(settings: ModelSettings) -> Policy:
    """Ask the reference first, smaller engines behind it as stand-ins."""
    return Fixed(tuple(reversed(settings.engines)))


def _same(built: Built) -> SameRequest:
    config = built.config
    exact = config.memory.exact if config.memory is not None else None
    if exact is None or not exact.enabled:
        return SameRequest()
    from gateway.unique_headers import HeaderMetrics, SeenHeaders

    always = (*config.listen.tenant_headers, *exact.headers)
    return SameRequest(always, SeenHeaders(HeaderMetrics(built.metrics.registry)))


def _workflow_stage(built: Built) -> Stage | None:
    catalogue, limiter = built.catalogue, built.limiter
    if catalogue is None:
        return None
    from gateway.stages.workflow import WorkflowStage

    lend = limiter.lend if limiter is not None else lambda request_id: None
    return WorkflowStage(catalogue, built.call_limits, lend, built.config.listen.tenant_headers)
