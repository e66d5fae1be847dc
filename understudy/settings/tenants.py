"""Settings of tenants that are kept in the configuration."""

from __future__ import annotations

from pydantic import Field

from store.people.limits import Region, Retention
from understudy.settings.secrets import ApiKey
from understudy.settings.terms import TermsSettings


class TenantSettings(TermsSettings):
    """One tenant by its name, as keys name it. Its limits hold for all its keys together."""

    region: Region = ""
    upstream_key: ApiKey | None = Field(
        None,
        description="Its own key at the upstream, sent in the place of the operator's: write ${NAME}. Endpoints with state "
        "are then open to it. Never stored.",
    )
    retention: Retention = Field(
        Retention(),
        description="For how many days its texts, rows and examples are kept: {texts_days, rows_days, examples_days}; what "
        "is not said is as elsewhere.",
    )
