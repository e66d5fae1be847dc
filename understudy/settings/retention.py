"""Settings of how long things are kept. A tenant's own, under `tenants`, stand in the place of these for it."""

from __future__ import annotations

from pydantic import Field

from understudy.settings.group import Settings


class RetentionSettings(Settings):
    """For how many days what is remembered is kept, whoever wants room."""

    texts_days: float = Field(
        14,
        gt=0,
        description="What was asked and answered: texts for people to read, and answers of `/v1/responses` that are "
        "kept here.",
    )
    rows_days: float = Field(
        90, gt=0, description="Rows about requests, what was decided, and what is known of its quality."
    )
    examples_days: float | None = Field(
        None,
        gt=0,
        description="Examples, from when their request was answered; demonstrations stay. Null: as long as there is room.",
    )
