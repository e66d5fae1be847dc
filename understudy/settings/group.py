"""What all groups of settings have in common."""

from __future__ import annotations

from typing import Any, get_args

from pydantic import BaseModel, ConfigDict, model_validator


class Settings(BaseModel):
    """Base of all groups: unknown keys are errors, values never change after reading."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=False, allow_inf_nan=False)

    @model_validator(mode="before")
    @classmethod
    def _true_is_no_number(cls, data: Any) -> Any:
        # It would become 1.
        if isinstance(data, dict):
            for name, field in cls.model_fields.items():
                kinds = get_args(field.annotation) or (field.annotation,)
                if (
                    isinstance(data.get(name), bool)
                    and bool not in kinds
                    and not {int, float}.isdisjoint(kinds)
                ):
                    raise ValueError(f"{name} is {str(data[name]).lower()}; a number is right")
        return data
