"""Settings of guardrails: servers that are asked about a request before anything answers it."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, SecretStr, field_validator

from understudy.settings.engines import checked_url
from understudy.settings.group import Settings


class GuardrailSettings(Settings):
    """One server that says of each request whether it may pass: docs/how-to/guardrails.md."""

    url: str = Field(description="Where each request is posted to, e.g. http://127.0.0.1:9000/check.")
    headers: dict[str, SecretStr] = Field({}, description="Headers for it, e.g. its key.")
    timeout_s: float = Field(2, gt=0, le=60, description="Longest wait for its verdict.")
    without_verdict: Literal["refuse", "pass"] = Field(
        "refuse", description="What becomes of a request while it does not answer."
    )
    tenants: tuple[str, ...] = Field(
        (), description="Whose requests it is asked about, by name or id; empty: everybody's."
    )

    _valid_url = field_validator("url")(lambda url: checked_url(url))
