"""The fields of one step as they were written: each is taken once, and what nobody took is a fault."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from workflows.declaring.faults import Faults, meant
from workflows.definition import PLACES
from workflows.errors import WorkflowError
from workflows.names import NAME
from workflows.template import Template, names_in

_REFERENCE = re.compile(rf"\{{\{{({NAME})\}}\}}")
_REFERENCE_REMEDY = 'write one reference and nothing else: "{{name}}"'
_TEXT_REMEDY = "write a text; put quotes around what YAML reads as something else"
_STEP_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}")
NAME_REMEDY = "write 1 to 64 of A-Z a-z 0-9 _ - with a letter or _ first"
_ROLES = ("system", "developer", "user", "assistant")


class Fields:
    """One step's fields. Every method returns something usable; what is wrong is noted in `faults`."""

    def __init__(self, faults: Faults, step: str, given: Mapping[str, Any]) -> None:
        self.faults = faults
        self.step = step
        self.given = given

    def fault(self, field: str, problem: str, remedy: str, *, value: object = None) -> None:
        """Notes one fault of this step."""
        self.faults.add(self.step, field, problem, remedy, value=value)

    def has(self, field: str) -> bool:
        """Tell if it was written, and not as null."""
        return self.given.get(field) is not None

    def known(self, fields: Collection[str]) -> None:
        """Every field but these is a fault."""
        for name in self.given:
            if name not in fields:
                self.fault(str(name), "there is no such field here", meant(str(name), fields))

    def text(self, field: str, default: str = "", *, required: bool = False) -> str:
        """A text that is not a template."""
        value = self.given.get(field)
        if value is None and required:
            self.fault(field, "is missing", "write a text")
        elif value is not None and (not isinstance(value, str) or (required and not value)):
            self.fault(field, "is no text", _TEXT_REMEDY, value=value)
        return value if isinstance(value, str) else default

    def number(self, field: str, least: int, most: int, default: int) -> int:
        """A whole number within bounds."""
        value = self.given.get(field)
        if value is None:
            return default
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            self.fault(field, "is out of range", f"write a whole number from {least} to {most}", value=value)
            return default
        return value

    def flag(self, field: str) -> bool | None:
        """True, false, or None if nothing was written."""
        value = self.given.get(field)
        if value is not None and not isinstance(value, bool):
            self.fault(field, "is neither true nor false", "write true or false", value=value)
            return None
        return value

    def word(self, field: str, words: Sequence[str], default: str) -> str:
        """One of a few words."""
        value = self.given.get(field, default)
        if value not in words:
            self.fault(field, "is none of the words there are", f"write {' or '.join(words)}", value=value)
            return default
        return str(value)

    def reference(self, field: str) -> str | None:
        """The name in a text that is one reference and nothing else."""
        value = self.given.get(field)
        if value is None:
            self.fault(field, "is missing", _REFERENCE_REMEDY)
            return None
        return self._referred(field, value)

    def references(self, field: str) -> tuple[str, ...]:
        """The names of a list of references."""
        value = self.given.get(field)
        if not isinstance(value, list) or len(value) < 2:
            self.fault(field, "is no list of two references or more", 'write ["{{a}}", "{{b}}"]', value=value)
            return ()
        found = [self._referred(f"{field}[{index}]", each) for index, each in enumerate(value)]
        return tuple(name for name in found if name is not None)

    def steps(self, field: str) -> tuple[str, ...]:
        """The names of steps that a list has, without braces; one may stand by itself."""
        value = self.given.get(field)
        if value is None:
            return ()
        names = value if isinstance(value, list) else [value]
        for each in names:
            if not isinstance(each, str) or "{" in each:
                self.fault(field, "is no name of a step", "write the step's name without braces", value=each)
        return tuple(dict.fromkeys(each for each in names if isinstance(each, str) and "{" not in each))

    def messages(self, field: str) -> tuple[Mapping[str, Any], ...]:
        """A text, which becomes one user message, or a list of messages; all are templates."""
        value = self.given.get(field)
        if isinstance(value, str) and value.strip():
            value = [{"role": "user", "content": value}]
        if not isinstance(value, list) or not value or not all(map(_is_message, value)):
            self.fault(
                field,
                "is neither a text nor a list of messages",
                f"write a text, or messages with `role` ({', '.join(_ROLES)}) and `content`",
                value=value,
            )
            return ()
        return tuple(value)

    def names_in(self, field: str, messages: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
        """The names in messages' templates."""
        try:
            return names_in(messages)
        except WorkflowError as error:
            self._template(field, error)
            return ()

    def names_below(self, field: str, value: object) -> tuple[str, ...]:
        """The names in all texts of a JSON value."""
        names: dict[str, None] = {}
        for text in texts_of(value):
            try:
                names.update(dict.fromkeys(Template.parse(text).slots))
            except WorkflowError as error:
                self._template(field, error)
        return tuple(names)

    def without_places(
        self, field: str, names: Sequence[str], allowed: Sequence[str] = ()
    ) -> tuple[str, ...]:
        """The names without `item` and `so_far`, which are a fault where they are not allowed."""
        for name in names:
            if name in PLACES and name not in allowed:
                whose = "`map` and `fold`" if name == PLACES[0] else "`fold` and `loop`"
                self.fault(
                    field, f"{{{{{name}}}}} means nothing here", f"it is of {whose}: go over a list there"
                )
        return tuple(name for name in names if name not in PLACES)

    def _template(self, field: str, error: WorkflowError) -> None:
        problem, _, remedy = error.message.partition("; ")
        self.fault(field, problem, remedy.rstrip(".") or "correct the template")

    def _referred(self, field: str, value: object) -> str | None:
        found = _REFERENCE.fullmatch(value.strip()) if isinstance(value, str) else None
        if found is None:
            self.fault(field, "is no reference", _REFERENCE_REMEDY, value=value)
            return None
        return found[1]


def texts_of(value: object) -> Iterator[str]:
    """Every text in a JSON value; the keys of objects are none."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for each in value.values():
            yield from texts_of(each)
    elif isinstance(value, list | tuple):
        for each in value:
            yield from texts_of(each)


def is_name(value: object) -> bool:
    """Tell if it may name a step, an input or a collection: names of pieces of steps have a dot, these have none."""
    return isinstance(value, str) and _STEP_NAME.fullmatch(value) is not None


def _is_message(value: object) -> bool:
    return (
        isinstance(value, dict)
        and value.get("role") in _ROLES
        and isinstance(value.get("content"), str | list)
        and value.keys() <= {"role", "content", "name"}
    )
