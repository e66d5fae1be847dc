"""A call of a workflow, for the engine that carries it out: to that engine what a prediction is to a student's."""

from __future__ import annotations

from dataclasses import dataclass

WORKFLOW = "workflow"
"""The name among the engines of the one that carries workflows out."""


@dataclass(slots=True, eq=False)
class RunCall:
    """See the module."""

    new: object
    """The run that is to begin (workflows.running.workflow.NewWorkflow)."""
    request_id: str
    run: str = ""
    """Its id, once it has begun."""
    repeatable: bool = True
    """Whether its answer may be given to who asks the same again."""
    failed: str = ""
    """Why it has no output, a code."""
