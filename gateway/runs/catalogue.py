"""Which workflows there are: the configuration's, which everybody may call, and each tenant's own.

A name that is no workflow's costs one look into a dict. What tenants keep is in the store: a name that nobody serves is
looked up there before it is refused; where a default upstream serves every name, new ones are noticed within a moment.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import orjson
import structlog
from cachetools import LRUCache

from gateway.runs.saving import done
from store.errors import StoreError
from store.workflows.assets import KeptWorkflow
from store.workflows.records import Limits
from store.workflows.run_store import RunStore
from workflows.declared import World, read_definition
from workflows.definition import Definition

log = structlog.get_logger(__name__)

_READ = 256
"""Tenants' definitions that are held as they were read."""


class Catalogue:
    """Workflows by name. For the event loop's thread.

    `configured`: by name. `world`: what a tenant's own may refer to. `start` inside the running loop, `aclose` at the end.
    """

    def __init__(
        self,
        configured: Mapping[str, Definition],
        store: RunStore,
        world: World,
        limits: Limits,
        *,
        every_s: float | None = None,
    ) -> None:
        """`every_s`: how often it is looked what names other processes keep; None: never, which does where a name that
        nobody serves is always looked up anew."""
        self.configured = configured
        self._store = store
        self._assets = store.assets
        self._world = world
        self._limits = limits
        self._every_s = every_s
        self._names: dict[str, Definition | None] = {}
        """None: some tenant has one of this name."""
        self._version: bytes | int | None = None
        self._place: object = None
        self._definitions: LRUCache[tuple[str, str, str], Definition] = LRUCache(_READ)
        self._following: asyncio.Task[None] | None = None
        self._take(self._look())

    def __contains__(self, name: str) -> bool:
        """Whether anybody has a workflow of this name."""
        return name in self._names

    async def find(self, tenant: str, name: str) -> Definition | None:
        """The workflow that this tenant calls by this name; None where there is none.

        Raises StoreError, and DefinitionError where what the tenant's own refers to is no longer there.
        """
        if name not in self._names:
            return None
        return self._names[name] or await self._own(tenant, name)

    async def find_anew(self, tenant: str, name: str) -> Definition | None:
        """The same, also where another process has kept it a moment ago. Raises StoreError."""
        return self._names.get(name) or await self._own(tenant, name)

    async def known(self, tenant: str) -> list[str]:
        """The names that the tenant can call. Raises StoreError."""
        return sorted({*self.configured, *(each.name for each in await self.own(tenant))})

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
        number = await done(
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
        self._names.setdefault(definition.name, None)
        return number

    async def remove(self, tenant: str, name: str) -> bool:
        """Delete all versions of it; False where there is none. Raises StoreError."""
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

    # ---- other processes

    def start(self) -> None:
        """Begin to look what names others keep. Inside the running loop."""
        if self._every_s is not None:
            follow = self._follow(self._every_s)
            self._following = asyncio.get_running_loop().create_task(follow, name="workflows' names")

    async def aclose(self) -> None:
        """End it."""
        if self._following is not None:
            self._following.cancel()
            await asyncio.wait([self._following])

    async def _follow(self, every_s: float) -> None:
        while True:
            await asyncio.sleep(every_s)
            try:
                self._take(await self._store.reads(self._look))
            except StoreError as error:
                log.warning("workflows_not_followed", error=error)

    def _look(self) -> tuple[object, object, list[str]] | None:
        """(version, place, names of tenants' own), where they may have changed. Blocks."""
        version = self._store.version()
        if version == self._version:
            return None
        place = self._assets.names_place()
        if place == self._place and self._version is not None:
            self._version = version
            return None
        return version, place, list(self._assets.workflow_names())

    def _take(self, found: tuple[Any, object, list[str]] | None) -> None:
        if found is None:
            return
        self._version, self._place, own = found
        names: dict[str, Definition | None] = dict.fromkeys(own)
        self._names = {**names, **self.configured}


def described(definition: Definition) -> dict[str, Any]:
    """What a caller of a workflow needs to know, as JSON: its inputs, and nothing of its prompts."""
    return {
        "id": definition.name,
        "object": "workflow",
        "version": definition.version,
        "inputs": {
            name: {"type": spec.kind, "required": spec.required} for name, spec in definition.inputs.items()
        },
    }
