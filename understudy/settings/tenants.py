"""Settings of tenants that are kept in the configuration."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import Field

from understudy.settings.group import Settings
from understudy.settings.secrets import ApiKey
from understudy.settings.terms import TermsSettings

if TYPE_CHECKING:
    from store.records import Retention


class TenantRetention(Settings):
    """For how many days what is kept of one tenant is kept."""

    texts_days: float | None = Field(None, gt=0, description="What was asked and answered.")
    rows_days: float | None = Field(None, gt=0, description="One row per request.")
    examples_days: float | None = Field(None, gt=0, description="Examples.")


class TenantSettings(TermsSettings):
    """One tenant by its name, as keys name it. Its limits hold for all its keys together."""

    region: str = Field(
        "", max_length=64, description="Only engines of this region answer it; empty: any engine."
    )
    upstream_key: ApiKey | None = Field(
        None,
        description="Its own key at the upstream, sent in the place of the operator's: write ${NAME}. Endpoints with state "
        "are then open to it. Never stored.",
    )
    retention: TenantRetention = Field(
        TenantRetention(), description="How long what is kept of it is kept; null: as elsewhere."
    )

    def kept(self) -> Retention:
        """As the store keeps it."""
        from store.records import Retention

        return Retention(self.retention.texts_days, self.retention.rows_days, self.retention.examples_days)
