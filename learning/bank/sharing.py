"""Turns configured grants between tenants' names into who may read whose examples, by tenant id."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Protocol


class Grant(Protocol):
    """Tenant `source` lets the tenants `to` read its examples (understudy.settings.config.Grant)."""

    @property
    def source(self) -> str: ...

    @property
    def to(self) -> tuple[str, ...]: ...


def lenders(grants: Iterable[Grant], id_of: Callable[[str], str]) -> Mapping[str, tuple[str, ...]]:
    """Lenders' ids by reader's id. `id_of` turns a tenant's name into its id; `id:HEX` is one already. A grant of a tenant
    to itself is ignored."""

    def tenant(name: str) -> str:
        return name[3:] if name.startswith("id:") else id_of(name)

    found: dict[str, dict[str, None]] = {}
    for grant in grants:
        source = tenant(grant.source)
        for reader in map(tenant, grant.to):
            if reader != source:
                found.setdefault(reader, {})[source] = None
    return {reader: tuple(sources) for reader, sources in found.items()}
