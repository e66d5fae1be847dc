"""Settings of runs: applications whose calls feed each other, and workflows that are called as models."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field, model_validator

from understudy.settings.group import Settings


class WorkflowsAdvanced(Settings):
    """Less common settings of runs."""

    lease_s: float = Field(
        15,
        gt=0,
        description="How long steps stay with a worker that says nothing of them; then another carries them on.",
    )
    poll_s: float = Field(
        0.05,
        gt=0,
        description="How often a worker looks for what others did, while somebody waits for it.",
    )


class ApplicationsSettings(Settings):
    """What is found out of applications whose clients say nothing of them."""

    infer: Literal["off", "show"] = Field(
        "off",
        description="Whether the admin pages show which calls read each other's answers, by the latest texts that are kept "
        "(memory.request_texts).",
    )


class WorkflowsSettings(Settings):
    """What applications may have under way, how long its values are kept, and workflows by name."""

    keep_values_s: float = Field(
        3600, ge=0, description="How long values live after the end of their run, in seconds."
    )
    max_steps: int = Field(2000, ge=1, description="Most steps of one run, and of a workflow.")
    max_items: int = Field(1000, ge=1, description="Most items of a list in a workflow.")
    max_documents_mib: float = Field(
        16, gt=0, description="Largest inputs of one call of a workflow, all together, in MiB."
    )
    max_value_kib: float = Field(1024, gt=0, description="Largest value of a variable, in KiB.")
    max_runs: int = Field(1000, ge=1, description="Most runs that a tenant may have under way.")
    max_total_mib: float = Field(
        256,
        gt=0,
        description="Most that a tenant's values and steps may take at once, stored or not, in MiB.",
    )
    max_wait_s: float = Field(
        3600,
        gt=0,
        description="How long a run may wait for variables of others while none of its steps is under way, in seconds; "
        "then it fails (`wait_too_long`).",
    )
    definitions: dict[str, dict[str, Any]] = Field(
        {},
        description="Workflows by name. They stand beside these settings, as `workflows: {doc-qa: {steps: ...}}`: "
        "docs/reference/workflows.md.",
    )
    advanced: WorkflowsAdvanced = Field(WorkflowsAdvanced(), description="Less common settings.")

    @model_validator(mode="before")
    @classmethod
    def _gather_definitions(cls, given: Any) -> Any:
        """Every other key that has a mapping is a workflow."""
        if not isinstance(given, dict) or not isinstance(given.get("definitions", {}), dict):
            return given
        for name in cls.model_fields:
            value = given.get(name)
            if isinstance(value, dict) and not value.keys().isdisjoint(("steps", "chain")):
                raise ValueError(
                    f"a workflow cannot be called {name!r}, which is a setting; give it another name"
                )
        named = {
            name: value
            for name, value in given.items()
            if isinstance(value, dict) and name not in cls.model_fields
        }
        if not named:
            return given
        kept = {name: value for name, value in given.items() if name not in named}
        return {**kept, "definitions": {**given.get("definitions", {}), **named}}
