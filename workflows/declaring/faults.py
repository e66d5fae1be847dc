"""Gathers what is wrong with a definition, so that a person sees all of it at once."""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from workflows.errors import WorkflowError

_SHOWN_CHARACTERS = 80
_SHOWN_FAULTS = 50
_SHOWN_NAMES = 12


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing that is wrong with a definition."""

    workflow: str
    step: str
    """Empty if it is not of one step."""
    field: str
    """The field of the step, else of the workflow; empty if it is of the whole."""
    value: str
    """As written, shortened; empty if nothing was."""
    problem: str
    remedy: str

    @property
    def place(self) -> str:
        """The field from the definition's root: `steps.index.ingest`."""
        parts = ("steps", self.step, self.field) if self.step else (self.field,)
        return ".".join(filter(None, parts))

    def __str__(self) -> str:
        place = ".".join(filter(None, ("workflows", self.workflow, self.place)))
        value = f" is {self.value}" if self.value else ""
        return f"{place}{value}: {self.problem}; {self.remedy}"


class DefinitionError(WorkflowError):
    """A definition cannot be taken: 400 `invalid_workflow`. Its text lists every fault, a line each."""

    def __init__(self, faults: Sequence[Fault]) -> None:
        lines = [str(fault) for fault in faults[:_SHOWN_FAULTS]]
        if len(faults) > _SHOWN_FAULTS:
            lines.append(f"and {len(faults) - _SHOWN_FAULTS} more")
        super().__init__("\n".join(lines), param=faults[0].place or None)
        self.faults = tuple(faults)


class Faults:
    """The faults of one workflow so far."""

    def __init__(self, workflow: str) -> None:
        self.workflow = workflow
        self.found: list[Fault] = []

    def add(self, step: str, field: str, problem: str, remedy: str, *, value: object = None) -> None:
        """Notes one fault. `value`: what was written; None for nothing."""
        shown = "" if value is None else shortened(value)
        fault = Fault(self.workflow, step, field, shown, problem, remedy)
        if fault not in self.found:
            self.found.append(fault)

    def done(self) -> None:
        """Raises DefinitionError if there are any."""
        if self.found:
            raise DefinitionError(self.found)


def shortened(value: object) -> str:
    """A value as JSON, cut."""
    try:
        shown = json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError):
        shown = repr(value)
    return shown if len(shown) <= _SHOWN_CHARACTERS else shown[: _SHOWN_CHARACTERS - 1] + "…"


def meant(name: str, known: Iterable[str], form: str = "{}") -> str:
    """A remedy for a name that does not exist: the nearest that does, or all of them."""
    names = list(known)
    near = difflib.get_close_matches(name, names, n=1)
    if near:
        return f"did you mean {form.format(near[0])}?"
    if not names:
        return "there are none"
    more = f" and {len(names) - _SHOWN_NAMES} more" if len(names) > _SHOWN_NAMES else ""
    return "there are " + ", ".join(form.format(each) for each in names[:_SHOWN_NAMES]) + more
