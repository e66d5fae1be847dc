"""What all groups of settings have in common."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Settings(BaseModel):
    """Base of all groups: unknown keys are errors, values never change after reading."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=False)
