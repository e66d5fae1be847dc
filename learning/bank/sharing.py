"""From grants between tenants' names to who may read whose examples, by id."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Protocol


class Granted(Protocol):
    """What is needed of understudy.settings.config.Grant."""

    @property
    def source(self) -> str: ...

    @property
    def to(self) -> tuple[str, ...]: ...


def lenders(grants: Iterable[Granted], id_of: Callable[[str], str]) -> Mapping[str, tuple[str, ...]]:
    """Reader's id to its lenders' ids. `id_of` names a tenant's id; `id:HEX` is one already. Nobody lends to himself."""

    def tenant(name: str) -> str:
        return name[3:] if name.startswith("id:") else id_of(name)

    found: dict[str, dict[str, None]] = {}
    for grant in grants:
        source = tenant(grant.source)
        for reader in map(tenant, grant.to):
            if reader != source:
                found.setdefault(reader, {})[source] = None
    return {reader: tuple(sources) for reader, sources in found.items()}
