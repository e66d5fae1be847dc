"""Which tenants' rows a deletion is about."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TenantScope:
    """One tenant, or all but some; without either, all."""

    only: str | None = None
    but: Collection[str] = ()

    @property
    def condition(self) -> str:
        """To be added to a condition on a table with the column `tenant`; takes `values`."""
        if self.only is not None:
            return " AND tenant = ?"
        return f" AND tenant NOT IN ({', '.join('?' * len(self.but))})" if self.but else ""

    @property
    def values(self) -> tuple[str, ...]:
        """See `condition`."""
        return (self.only,) if self.only is not None else tuple(self.but)


ALL = TenantScope()
