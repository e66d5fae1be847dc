"""Settings of limits. What the limits are stands with keys and tenants."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from understudy.settings.group import Settings


class LimitsSettings(Settings):
    """How the limits of keys and tenants are kept."""

    when_blind: Literal["refuse", "allow"] = Field(
        "refuse",
        description="What becomes of requests whose budget cannot be told because the store fails: 503, or answered.",
    )
