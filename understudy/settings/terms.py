"""What settings of keys and of tenants have in common: limits, and when they end."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import AfterValidator, Field

from store.people.limits import limits_from
from understudy.settings.group import Settings

if TYPE_CHECKING:
    from store.records import Terms


def _readable(value: dict[str, Any]) -> dict[str, Any]:
    limits_from(value)
    return value


LimitsObject = Annotated[dict[str, Any], AfterValidator(_readable)]
"""As store.people.limits.limits_from reads it."""


class TermsSettings(Settings):
    """What may be said of a key and of a tenant alike."""

    limits: LimitsObject = Field(
        {},
        description="What it may use and spend: {models, components, endpoints, requests_per_minute, tokens_per_minute, "
        "concurrency, max_output_tokens, budgets: [{usd, per: day|week|month|total}], time_zone, allow_unpriced}; see "
        "docs/how-to/keys-and-tenants.md.",
    )
    each_user: LimitsObject = Field({}, description="The same for every single end user of it.")
    expires_at: datetime | None = Field(
        None, description="When it stops being taken, such as 2027-01-31T00:00:00Z; UTC without an offset."
    )
    partition: Literal["user", "tenant"] | None = Field(
        None,
        description="Whether its named end users have a memory each; null: as the tenant, else memory.partition, has it.",
    )
    users_required: bool | None = Field(
        None, description="Whether a request without an end user is refused; null: as elsewhere."
    )

    def terms(self) -> Terms:
        """As the store keeps them. Raises ValueError."""
        # Brings numpy, which what only reads settings does not need.
        from store.records import Terms

        return Terms(
            limits_from(self.limits),
            limits_from(self.each_user),
            seconds(self.expires_at),
            self.partition,
            self.users_required,
        )


def seconds(at: datetime | None) -> float | None:
    """Seconds since 1970; a time without an offset is UTC's."""
    if at is None:
        return None
    return (at if at.tzinfo is not None else at.replace(tzinfo=UTC)).timestamp()


def check_names(what: str, names: Mapping[str, object]) -> None:
    """Raises ValueError for a name that the store would refuse."""
    from store.people.keys import check_name, check_tenant_name

    for name in names:
        check_name(what, name)
        if what == "tenant name":
            check_tenant_name(name)
