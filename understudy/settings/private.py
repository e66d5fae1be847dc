"""Settings of private banks: tenants whose own questions are never shown to anybody, and their privacy budget."""

from __future__ import annotations

from importlib.util import find_spec

from pydantic import Field, field_validator

from understudy.settings.group import Settings


class PrivateAdvanced(Settings):
    """Less common settings of private banks."""

    delta: float = Field(
        1e-6, gt=0, le=1e-3, description="Delta of the promise; far below one in the number of contributors."
    )
    releases: int = Field(
        4, ge=1, le=1000, description="Releases the budget is divided into; then it is spent."
    )


class PrivateSettings(Settings):
    """Private banks (see docs/explanation/admission.md). An extra: pip install 'understudy-gateway[privacy]'."""

    tenants: tuple[str, ...] = Field(
        (),
        description="Tenants whose bank holds synthetic examples only: names as in `keys create`, or id:HEX.",
    )
    epsilon: float = Field(
        4, gt=0, le=50, description="Privacy budget of each contributor, all releases together."
    )
    advanced: PrivateAdvanced = Field(PrivateAdvanced(), description="Less common settings.")

    @field_validator("tenants")
    @classmethod
    def _extra_is_installed(cls, tenants: tuple[str, ...]) -> tuple[str, ...]:
        if tenants and find_spec("dp_accounting") is None:
            raise ValueError(
                "names tenants, but the extra is missing: pip install 'understudy-gateway[privacy]'"
            )
        return tenants
