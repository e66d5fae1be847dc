"""The engines and the default upstream of a worker."""

from __future__ import annotations

from engines.engine import Engine
from engines.registry import Registry
from understudy.built import Built
from understudy.setup.engines import UPSTREAM, cascades, engines, upstream


def add_to(built: Built) -> None:
    """Make every engine by name. Raises EngineMissing, which is a CannotStart."""
    built.upstream = upstream(built.config, built.tenants)
    found = engines(built.config, built.tenants)
    if built.engines_as is not None:
        found = dict(built.engines_as(found))
    # No guard around the default upstream: it is passed through, not managed, and its head leaves as soon as it is here.
    passed_through: dict[str, Engine] = {UPSTREAM: built.upstream} if built.upstream else {}
    agreeing = cascades(built.config, found)
    built.engines = Registry({**found, **agreeing, **passed_through, **_carrying_out(built)})


def _carrying_out(built: Built) -> dict[str, Engine]:
    """The engine that workflows are answered by, where runs can be kept."""
    if built.memory is None:
        return {}
    from engines.run_call import WORKFLOW
    from gateway.runs.engine import WorkflowEngine

    return {WORKFLOW: WorkflowEngine(lambda: built.runs)}
