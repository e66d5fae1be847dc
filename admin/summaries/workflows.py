"""Workflows of the configuration and of tenants, with their latest runs; and the collections that they keep."""

from __future__ import annotations

from typing import Any

from admin.page import Asked, Summary
from admin.sources import Sources
from admin.summaries.runs import listed
from store.workflows.assets import KeptWorkflow
from workflows.definition import PASSES, Definition

ROWS = 200
_RUNS = 5


def workflows(sources: Sources, asked: Asked) -> Summary:
    """The configuration's first, then tenants' own by tenant and name."""
    assets = sources.store.runs.assets
    names = sources.tenant_names()
    own = assets.workflows()
    collections = assets.collections()
    return {
        "configured": [
            _configured(each, sources, names, asked.now_s)
            for each in sources.gateway.workflows.configured.values()
        ],
        "own": [_own(each, names) for each in own[:ROWS]],
        "more_own": max(0, len(own) - ROWS),
        "collections": [
            {
                "tenant": each.tenant,
                "tenant_name": names.get(each.tenant, ""),
                "name": each.name,
                "texts": each.texts,
                "size_bytes": each.size_bytes,
                "created_at_s": each.created_at_s,
            }
            for each in collections[:ROWS]
        ],
        "more_collections": max(0, len(collections) - ROWS),
    }


def _configured(
    definition: Definition, sources: Sources, names: dict[str, str], now_s: float
) -> dict[str, Any]:
    runs = sources.store.runs.runs(workflow=definition.name, limit=_RUNS)
    return {
        "name": definition.name,
        "version": definition.version,
        "inputs": {name: spec.kind for name, spec in definition.inputs.items()},
        "steps": len(definition.steps),
        "chain": definition.chained,
        "passes": sorted(definition.passes, key=PASSES.index),
        "runs": [listed(each, names, now_s) for each in runs],
    }


def _own(kept: KeptWorkflow, names: dict[str, str]) -> dict[str, Any]:
    return {
        "name": kept.name,
        "version": kept.version,
        "number": kept.number,
        "tenant": kept.tenant,
        "tenant_name": names.get(kept.tenant, ""),
        "created_at_s": kept.created_at_s,
    }
