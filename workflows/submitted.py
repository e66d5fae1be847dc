"""Reads what a client submits: the object `understudy` of a chat body, and the body of `POST /v1/runs`.

Everything that can be refused without looking at stored state is refused here, with the field and the reason.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from workflows.criteria import Criteria
from workflows.transform import Transform


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds on what may be submitted; the settings `workflows.*`."""

    max_steps: int
    max_value_bytes: int
    """Of one text in `inputs`, in UTF-8."""


@dataclass(frozen=True, slots=True)
class Ref:
    """`{"variable": id}`: the value of a variable that exists."""

    id: str


@dataclass(frozen=True, slots=True)
class Output:
    """One variable that a step writes."""

    name: str
    transforms: tuple[Transform, ...] = ()


@dataclass(frozen=True, slots=True)
class Submitted:
    """The object `understudy` of one chat body."""

    app: str | None
    inputs: Mapping[str, str | Ref]
    submit: bool
    """Answer 202 at once; otherwise the call waits for its inputs and answers."""
    criteria: Criteria | None
    outputs: tuple[Output, ...]

    def needs(self, names: tuple[str, ...]) -> tuple[str, ...]:
        """Those of a template's names that are not in `inputs`: to be found in the app.

        Raises WorkflowError `unknown_name` when there are some and there is no app.
        """
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class Budget:
    """What a run may use; it is cancelled at the first limit it meets. None: unlimited."""

    usd: float | None = None
    tokens: int | None = None
    seconds: float | None = None


@dataclass(frozen=True, slots=True)
class StepAsked:
    """One step of `POST /v1/runs`."""

    chat: Mapping[str, Any]
    """The chat body without `understudy`."""
    submitted: Submitted
    names: tuple[str, ...]
    """The names in its messages, each once, in order."""


@dataclass(frozen=True, slots=True)
class RunAsked:
    """The body of `POST /v1/runs`: names are unique, every name has a source, and there is no cycle."""

    app: str | None
    steps: tuple[StepAsked, ...]
    inputs: Mapping[str, str | Ref]
    """Shared by all steps; a step's own `inputs` go before them, a step's output of the same name is an error."""
    get: Mapping[str, Criteria]
    """By output name. Where nothing was said and the client waits: each output that no step reads, for latency."""
    budget: Budget
    background: bool
    stream: bool

    @property
    def from_app(self) -> tuple[str, ...]:
        """Names that neither inputs nor outputs of the run have: the app's, to be looked up before `graph.build`."""
        raise NotImplementedError


def read_submitted(value: object, limits: Limits) -> Submitted:
    """The object `understudy` of a chat body. Raises WorkflowError with `param` from the body's root."""
    raise NotImplementedError


def read_run(body: object, limits: Limits) -> RunAsked:
    """The body of `POST /v1/runs`. Raises WorkflowError with `param` from the body's root."""
    raise NotImplementedError
