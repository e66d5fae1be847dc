"""Settings of the default upstream."""

from __future__ import annotations

from pydantic import Field, SecretStr, field_validator

from understudy.settings.engines import HTTPAdvanced, checked_url
from understudy.settings.group import Settings


class Upstream(Settings):
    """Where everything goes that no model below names."""

    base_url: str = Field(description="Base URL as an OpenAI client would be given it.")
    api_key: SecretStr | None = Field(None, description="Sent instead of the client's key.")
    advanced: HTTPAdvanced = Field(HTTPAdvanced(), description="Less common settings.")

    _valid_url = field_validator("base_url")(lambda url: checked_url(url))
