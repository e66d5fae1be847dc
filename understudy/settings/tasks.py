"""Settings of a task: requests whose answers are few distinct labels, and that a student may learn to answer."""

from __future__ import annotations

import re
from typing import Any, Self

from pydantic import Field, field_validator, model_validator

from router.tasks.form import overlapping
from router.tasks.requests import NAME, NoTask, labels_of
from router.tasks.task import Strategy
from understudy.settings.cron import Cron
from understudy.settings.group import Settings


class BudgetSettings(Settings):
    """What may be asked of the teacher; one of the three."""

    calls_per_day: int | None = Field(None, ge=1, description="Most of its answers within a day.")
    share: float | None = Field(None, gt=0, le=1, description="Share of the task's requests that it answers.")
    usd_per_day: float | None = Field(None, gt=0, description="Most US dollars that it costs within a day.")

    @model_validator(mode="after")
    def _is_one(self) -> Self:
        if len(self.model_fields_set) != 1 or None in (getattr(self, name) for name in self.model_fields_set):
            raise ValueError("a budget is one of calls_per_day, share and usd_per_day: set just one")
        return self


class TaskSettings(Settings):
    """A task under a served model, for each tenant a task of its own."""

    labels: tuple[str, ...] = Field(
        (), description="The answers that there are; none: those that the teacher uses."
    )
    json_schema: dict[str, Any] | None = Field(
        None,
        description="Instead of labels: the schema that requests send as their response_format, an object with one "
        "property, an enum.",
    )
    system: str | None = Field(
        None,
        description="Regular expression that is found in the system prompts of its requests; null: requests that name the "
        "task by x-understudy-task, or send its json_schema.",
    )
    budget: BudgetSettings | None = Field(
        None, description="What may be asked of the teacher; null: as little as max_loss allows."
    )
    max_loss: float | None = Field(
        None,
        gt=0,
        lt=1,
        description="Largest share of a student's answers that differ from the teacher's; null: that of the model.",
    )
    strategy: Strategy = Field(
        "margin",
        description="How requests are chosen that the teacher gets: docs/explanation/learning.md#students.",
    )
    threshold: float | None = Field(
        None,
        description="Doubt, as the strategy measures it, from which the teacher is asked; null: by the budget, or what is "
        "proven.",
    )
    retrain_every: int = Field(100, ge=1, description="New labels after which its student is trained anew.")
    retrain: Cron | None = Field(
        None,
        description="When it is trained besides, if any label is new, as in crontab(5), in replay.time_zone; null: not.",
    )

    @field_validator("labels")
    @classmethod
    def _differ(cls, labels: tuple[str, ...]) -> tuple[str, ...]:
        if len(labels) == 1:
            raise ValueError(
                f"there is one label, {labels[0]!r}: two or more are right, or none to take the teacher's"
            )
        same = overlapping(labels)
        if same is not None:
            one, other = same
            raise ValueError(
                f"{one!r} and {other!r} are the same label but for case, marks and spaces: keep one of them"
                if one != other or labels.count(one) > 1
                else f"{one!r} has nothing but marks and spaces in it: a label is a word or a few"
            )
        return labels

    @field_validator("json_schema")
    @classmethod
    def _has_one_enum(cls, schema: dict[str, Any] | None) -> dict[str, Any] | None:
        if schema is not None:
            try:
                labels = labels_of(schema)
            except NoTask as problem:
                raise ValueError(str(problem)) from None
            cls._differ(labels)
        return schema

    @field_validator("system")
    @classmethod
    def _compiles(cls, pattern: str | None) -> str | None:
        try:
            re.compile(pattern or "")
        except re.error as error:
            raise ValueError(
                f"no regular expression: {error}; put a backslash before marks that are meant"
            ) from None
        return pattern

    @model_validator(mode="after")
    def _agree(self) -> Self:
        if self.labels and self.json_schema is not None:
            raise ValueError("labels and json_schema both say what the answers are: set one of them")
        if self.strategy in ("random", "front_loading") and self.budget is None:
            raise ValueError(
                f"strategy {self.strategy} spends a budget, but there is none: set budget, or leave strategy"
            )
        return self


def check_names(tasks: dict[str, TaskSettings]) -> dict[str, TaskSettings]:
    """The tasks themselves. Raises ValueError for a name that no header can carry."""
    for name in tasks:
        if not NAME.fullmatch(name):
            raise ValueError(
                f"{name!r} is no name of a task: 1 to 64 letters, digits, dots, hyphens and underscores are right"
            )
    return tasks
