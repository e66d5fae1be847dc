"""Settings of limits. What the limits are stands with keys and tenants."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from understudy.settings.group import Settings


class LimitsAdvanced(Settings):
    """Less common settings of limits."""

    unknown_output_tokens: int = Field(
        4096,
        ge=1,
        le=10_000_000,
        description="Tokens that are reserved for an answer whose request sets no limit, while nothing is known of how long "
        "its model's answers are.",
    )


class LimitsSettings(Settings):
    """How the limits of keys and tenants are kept."""

    when_blind: Literal["refuse", "allow"] = Field(
        "refuse",
        description="What becomes of requests whose budget cannot be told because the store fails: 503, or answered.",
    )
    advanced: LimitsAdvanced = Field(LimitsAdvanced(), description="Less common settings.")
