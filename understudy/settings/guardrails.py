"""Settings of guardrails: servers that are asked about requests, and about answers."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, SecretStr, field_validator, model_validator

from understudy.settings.engines import checked_url
from understudy.settings.group import Settings


class GuardrailAdvanced(Settings):
    """Less common settings of a guardrail."""

    headers: dict[str, SecretStr] = Field({}, description="Further headers for it.")
    tenants: tuple[str, ...] = Field(
        (), description="Whose requests it is asked about, by name or id; empty: everybody's."
    )


class GuardrailSettings(Settings):
    """One server that says of requests, or of answers, whether they may pass: docs/how-to/guardrails.md."""

    url: str = Field(description="Where it is asked by POST, e.g. http://127.0.0.1:9000/check.")
    when: Literal["before", "after"] = Field(
        "before",
        description="What it judges: requests, before anything answers them; or answers, which are held back until then.",
    )
    models: tuple[str, ...] = Field(
        (), description='Globs of the models that it is asked about, e.g. "gpt-4*"; empty: all.'
    )
    api_key: SecretStr | None = Field(None, description="Sent to it as a bearer token.")
    timeout_s: float = Field(2, gt=0, le=60, description="Longest wait for its verdict.")
    on_failure: Literal["refuse", "allow"] = Field(
        "refuse", description="What becomes of a request or an answer that it gives no verdict on."
    )
    advanced: GuardrailAdvanced = Field(GuardrailAdvanced(), description="Less common settings.")

    _valid_url = field_validator("url")(lambda url: checked_url(url))

    @model_validator(mode="after")
    def _one_credential(self) -> GuardrailSettings:
        names = {name.lower() for name in self.advanced.headers}
        if self.api_key is not None and "authorization" in names:
            raise ValueError("api_key is sent as Authorization, which advanced.headers names, too: write one")
        return self
