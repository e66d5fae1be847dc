"""Which workflows there are: the configuration's, which everybody may call, and each tenant's own.

As models a tenant's own are called `wf/NAME`: none shadows what anybody serves. A name that is no workflow's costs one look
into a dict; what tenants keep is in the store.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import orjson
from cachetools import LRUCache

from engines.errors import RequestError
from store.errors import StoreError
from store.workflows.assets import KeptWorkflow
from store.workflows.records import Limits
from store.workflows.runs import WorkflowRuns
from workflows.declared import World, read_definition
from workflows.definition import Definition
from workflows.names import OWN
from workflows.running.saving import done

_READ = 256
"""Tenants' definitions that are held as they were read."""


class Catalogue:
    """Workflows by name. For the event loop's thread. `configured`: by name. `world`: what a tenant's own may refer to."""

    def __init__(
        self, configured: Mapping[str, Definition], store: WorkflowRuns, world: World, limits: Limits
    ) -> None:
        self.configured = configured
        self._assets = store.assets
        self._world = world
        self._limits = limits
        self._definitions: LRUCache[tuple[str, str, str], Definition] = LRUCache(_READ)

    async def find(self, tenant: str, name: str) -> Definition | None:
        """The workflow that this tenant calls by this name, be it with the prefix or without; None if there is none.

        Raises StoreError, and DefinitionError where what the tenant's own refers to is no longer there.
        """
        return self.configured.get(name) or await self._own(tenant, name.removeprefix(OWN))

    async def known(self, tenant: str) -> list[str]:
        """The models that the tenant can call; none of its own where the store cannot be read."""
        with suppress(StoreError):
            return sorted({*self.configured, *(OWN + each.name for each in await self.own(tenant))})
        return sorted(self.configured)

    # ---- tenants' own

    async def own(self, tenant: str) -> list[KeptWorkflow]:
        """The tenant's own, by name. Raises StoreError."""
        return await self._assets.reads(self._assets.workflows, tenant)

    async def kept(self, tenant: str, name: str, version: str | None = None) -> KeptWorkflow | None:
        """The tenant's own of this name: that version, else the latest. Raises StoreError."""
        return await self._assets.reads(self._assets.workflow, tenant, name, version)

    def read(self, name: str, value: object) -> Definition:
        """A definition that a tenant sent. Raises DefinitionError with everything that is wrong with it."""
        return read_definition(name, value, self._world)

    async def put(self, tenant: str, definition: Definition, *, now_s: float, contributor: str) -> int:
        """Keep it as the latest of its name; gives its number. Raises TooManyBytes and StoreError."""
        return await done(
            self._assets.put_workflow(
                tenant,
                definition.name,
                definition.version,
                orjson.dumps(definition.source),
                now_s=now_s,
                contributor=contributor,
                limits=self._limits,
            )
        )

    async def remove(self, tenant: str, name: str) -> bool:
        """Delete all versions of it; False if there is none. Raises StoreError."""
        return await done(self._assets.remove_workflow(tenant, name))

    async def _own(self, tenant: str, name: str) -> Definition | None:
        kept = await self._assets.reads(self._assets.workflow, tenant, name)
        return None if kept is None else self._read(kept)

    def _read(self, kept: KeptWorkflow) -> Definition:
        key = kept.tenant, kept.name, kept.version
        found = self._definitions.get(key)
        if found is None:
            found = self._definitions[key] = self.read(kept.name, orjson.loads(kept.definition))
        return found


def no_workflow(name: str) -> RequestError:
    """The same for another tenant's and for one that never was."""
    return RequestError(
        f"There is no workflow {name[:100]!r}.", status=404, code="workflow_not_found", param="workflow"
    )


def described(definition: Definition) -> dict[str, Any]:
    """Describe a workflow to its callers, as JSON: its inputs, and nothing of its prompts."""
    return {
        "id": definition.name,
        "object": "workflow",
        "version": definition.version,
        "inputs": {
            name: {"type": spec.kind, "required": spec.required} for name, spec in definition.inputs.items()
        },
    }
