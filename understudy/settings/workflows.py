"""Settings of runs: applications whose calls feed each other."""

from __future__ import annotations

from pydantic import Field

from understudy.settings.group import Settings


class WorkflowsAdvanced(Settings):
    """Less common settings of runs."""

    lease_s: float = Field(
        15,
        gt=0,
        description="How long a run stays with a worker that says nothing of it; then another carries it on.",
    )
    poll_s: float = Field(
        0.05,
        gt=0,
        description="How often a worker looks for what others did, while somebody waits for it.",
    )
    max_prompt_characters: int = Field(
        8_000_000, ge=1, description="Longest prompt of a step, with its variables in place."
    )


class WorkflowsSettings(Settings):
    """What applications may have under way, and how long its values are kept."""

    keep_values_s: float = Field(
        3600, ge=0, description="How long values live after the end of their run, in seconds."
    )
    max_steps: int = Field(1000, ge=1, description="Most steps of one run.")
    max_value_kib: float = Field(1024, gt=0, description="Largest value of a variable, in KiB.")
    max_runs: int = Field(1000, ge=1, description="Most runs that a tenant may have under way.")
    max_total_mib: float = Field(
        256, gt=0, description="Most that a tenant's values and steps may take at once, in MiB."
    )
    advanced: WorkflowsAdvanced = Field(WorkflowsAdvanced(), description="Less common settings.")
