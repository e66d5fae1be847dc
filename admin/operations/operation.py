"""Defines an operation: something that an operator has done, written once.

Its form on a page, its route in the admin API, its command and its row in the audit log are made from it. To add one: a
model of its input, a function from (Sources, By, input) to Outcome, with `@operation` above it, in its noun's file.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, get_type_hints

from admin.page import Action, Asked, Done
from admin.roles import Role
from admin.sources import Sources
from admin.terms_form import refused
from store.records import MadeBy
from store.validating import read

Given = Mapping[str, Any]
TENANT = "tenant"
"""Marks a field that holds a tenant's id, for which a command takes a name."""
Tenant = Annotated[str, TENANT]


@dataclass(frozen=True, slots=True)
class By:
    """Who has an operation done, and when."""

    name: str
    now_s: float
    surface: Literal["page", "api", "cli"] = "page"
    version: str = ""
    """The version of the record that a page showed; empty claims nothing."""
    reads_content: bool = True
    """Whether this role may read what people wrote."""

    @property
    def source(self) -> MadeBy:
        """Where a key or a tenant comes from that is made so."""
        return "api" if self.surface == "api" else "cli"


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of an operation."""

    said: str
    """One sentence for the person."""
    target: str = ""
    """The object of the operation, for the audit log."""
    detail: Mapping[str, Any] = field(default_factory=dict)
    """Details for the audit log, without content or secrets."""
    value: Any = None
    """The result for programs, as JSON."""
    secret: str = ""
    """What is shown this once, and kept as a hash only."""
    advice: str = ""
    """A sentence that a command prints on standard error."""
    to: str = ""
    """Where a browser goes then, if its form names no place."""
    shown: Mapping[str, Any] = field(default_factory=dict)
    """What a page shows of it, this once."""
    made: bool = False
    """Whether it made something where there was nothing."""


Run = Callable[[Sources, By, Any], Outcome]


@dataclass(frozen=True, slots=True)
class Operation:
    """One operation. `run` blocks; it raises NotThere, ActionFailed and BadParameter of admin.page, and ValueError."""

    name: str
    """NOUN/VERB: the row in the audit log, and the command."""
    sentence: str
    """The help of the command, and the summary in the OpenAPI document."""
    input: type[Any]
    run: Run
    role: Role = Role.OPERATOR
    arguments: tuple[str, ...] = ()
    """Fields of the input that a command takes by their place."""
    unread: bool = False
    """Whether `run` takes what was given as it is, and reads it itself: where a change is merged with what is there."""
    of_pages: tuple[str, ...] = ()
    """Fields of the input that only pages send, such as what was in use when the page was read."""

    def do(self, sources: Sources, by: By, given: Given) -> Outcome:
        """Reads the input and runs. Raises ValueError for an input that cannot be right."""
        return self.run(sources, by, given if self.unread else read(self.input, given))

    def form(
        self,
        path: str,
        *,
        to: str = "",
        template: str = "",
        fields: Callable[[Sources, Asked], Mapping[str, Any]] | None = None,
    ) -> Action:
        """The action of a form. `to`: where the browser goes then; `fields`: the input of what was sent.

        Without `fields` the input is the path's and the form's values by their names.
        """

        def act(sources: Sources, asked: Asked) -> Done:
            given = fields(sources, asked) if fields is not None else self._sent(asked)
            by = By(asked.viewer.name, asked.now_s, version=asked.text("version"))
            try:
                outcome = self.do(sources, by, given)
            except ValueError as error:
                raise refused(error) from error
            shown = dict(outcome.shown) if template else None
            where = to.format_map(asked.path) or outcome.to
            return Done(outcome.said, where, outcome.target, outcome.detail, shown)

        return Action(path, act, self.role, template, name=self.name)

    def _sent(self, asked: Asked) -> dict[str, Any]:
        names = self.input.__dataclass_fields__
        sent = {name: asked.text(name) for name in names if asked.text(name)}
        return sent | dict(asked.path)


def operation(
    name: str,
    *,
    input: type[Any] | None = None,
    role: Role = Role.OPERATOR,
    arguments: tuple[str, ...] = (),
    of_pages: tuple[str, ...] = (),
) -> Callable[[Run], Operation]:
    """Makes an operation of a function: its docstring is the sentence, the type of its last parameter the input.

    `input`: the model of a function that takes what was given as it is, and reads it itself, since it is merged with what
    is there.
    """

    def made(run: Run) -> Operation:
        sentence = " ".join((run.__doc__ or "").split())
        read = input or get_type_hints(run)["given"]
        return Operation(name, sentence, read, run, role, arguments, input is not None, of_pages)

    return made
