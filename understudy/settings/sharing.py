"""Settings of what may cross from one tenant to another."""

from __future__ import annotations

from pydantic import Field, model_validator

from understudy.settings.group import Settings


class Grant(Settings):
    """One tenant's examples, readable by others. One way, and no further."""

    source: str = Field(
        alias="from", description="Tenant whose examples are read: a name as in `keys create`, or id:HEX."
    )
    to: tuple[str, ...] = Field(min_length=1, description="Tenants that may read them.")

    @model_validator(mode="after")
    def _to_others(self) -> Grant:
        if self.source in self.to:
            raise ValueError(f"this is a grant from {self.source!r} to itself")
        return self


class SharingSettings(Settings):
    """What may cross from one tenant to another. Exact answers and everything else never do."""

    grants: tuple[Grant, ...] = Field(
        (), description="Explicit grants, each {from: TENANT, to: [TENANT, ...]}; none by default."
    )
