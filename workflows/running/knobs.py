"""Holds an operator's settings of runs, and what they cost."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RunKnobs:
    """Settings `workflows.*`."""

    keep_values_s: float
    max_steps: int
    max_items: int
    """The items of a list in a workflow."""
    max_value_bytes: int
    """The bytes of an answer, and of what a client gives."""
    max_list_bytes: int
    """The bytes of what a step of a workflow makes without a model: lists cut from documents are as long as those."""
    max_runs: int | None
    max_total_bytes: int | None
    max_wait_s: float
    """Seconds that a run may wait while none of its steps is under way."""
    lease_s: float
    """Seconds that a run stays with its process without a word of that."""
    poll_s: float
    """Seconds between two looks at what other processes did, while somebody waits for it."""
    max_prompt_characters: int
    """The characters of one step with its variables in place."""
