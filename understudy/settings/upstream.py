"""Settings of the default upstream."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, SecretStr, field_validator, model_validator

from understudy.settings.engines import (
    API_VERSION,
    HTTPAdvanced,
    PriceSettings,
    TLSSettings,
    anthropic_url,
    azure_url,
    checked_proxy,
    checked_url,
)
from understudy.settings.group import Settings
from understudy.settings.secrets import ApiKey


class Upstream(Settings):
    """Where everything goes that no model below names."""

    kind: Literal["openai", "anthropic", "azure"] = Field(
        "openai", description="Whose API it is: where a key stands, and how paths are written."
    )
    base_url: str = Field(description="Base URL as an OpenAI client would be given it.")
    api_key: ApiKey | None = Field(None, description="Sent instead of the client's key.")
    api_version: str | None = Field(
        None,
        pattern=API_VERSION,
        description="Version of Azure's API, such as 2024-10-21; null: below /openai/v1, which has none.",
    )
    region: str = Field("", max_length=64, description="Where it answers; as engines.*.region.")
    prices: dict[str, PriceSettings] = Field(
        {},
        description="What it charges, by model (`gpt-4*`), or by path where the model does not say it (`/audio/speech`). "
        "What is not named is unpriced.",
    )
    proxy: SecretStr | None = Field(
        None,
        description="HTTP proxy it is asked through: a URL, `env` (HTTP_PROXY, HTTPS_PROXY, NO_PROXY) or `none`. null: "
        "`none` for hosts of this machine or a private network, else `env`.",
    )
    tls: TLSSettings = Field(TLSSettings(), description="Certificates, where it has a private authority.")
    advanced: HTTPAdvanced = Field(HTTPAdvanced(), description="Less common settings.")

    _valid_url = field_validator("base_url")(lambda url: checked_url(url))
    _valid_proxy = field_validator("proxy")(checked_proxy)

    @model_validator(mode="after")
    def _as_its_kind_has_it(self) -> Self:
        if self.api_version is not None and self.kind != "azure":
            raise ValueError(
                "api_version is of an upstream of kind azure: add `kind: azure`, or leave it out"
            )
        return self

    @property
    def url(self) -> str:
        """The base URL, as those of its kind have it."""
        match self.kind:
            case "anthropic":
                return anthropic_url(self.base_url)
            case "azure":
                return azure_url(self.base_url)
        return self.base_url
