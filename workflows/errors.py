"""Defines the error of a workflow that a client sent."""

from __future__ import annotations

import graphlib
from collections.abc import Iterable, Mapping


class WorkflowError(ValueError):
    """A submitted call or run cannot be taken. The gateway answers it in OpenAI's shape.

    `param` is the field, as a path from the body's root (`understudy.inputs.task`, `steps[3].messages`). Statuses: 400,
    unless said otherwise; 409 `variable_exists` and `idempotency_conflict`; 413 `value_too_large`; 429 `too_many_runs`.
    The text names fields and names, never a variable's value.
    """

    def __init__(
        self, message: str, *, param: str | None = None, code: str = "invalid_workflow", status: int = 400
    ) -> None:
        super().__init__(message)
        self.message = message
        self.param = param
        self.code = code
        self.status = status

    def within(self, place: str) -> WorkflowError:
        """The same error, its field seen from further out: `messages` within `steps[3]` is `steps[3].messages`."""
        param = place if self.param is None else f"{place}.{self.param}"
        return WorkflowError(self.message, param=param, code=self.code, status=self.status)


def refuse_circle(
    before: Mapping[str, Iterable[str]], called: Mapping[str, str] | None = None, param: str | None = None
) -> None:
    """Raises WorkflowError if variables wait for themselves. `before`: what each is made of; `called`: their names."""
    try:
        graphlib.TopologicalSorter(before).prepare()
    except graphlib.CycleError as error:
        names = [(called or {}).get(each, each) for each in error.args[1]]
        shown = " -> ".join(names if len(names) <= 21 else [*names[:19], "…", names[-1]])
        message = f"Variables feed each other in a circle: {shown}."
        raise WorkflowError(message, param=param, code="cycle") from None
