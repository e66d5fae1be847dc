"""Says which task a request belongs to, and what of it is the input. Reads memory only: no store, and nothing slow.

A client names its task by header; else the configuration's patterns and schemas are tried, then tasks that a person enabled,
then an enum in `response_format`, which declares a task by itself. Whoever comes first has it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import orjson

from engines.chat import ChatRequest, message_text
from router.digest import of_user, question, scope
from router.tasks.requests import NAME, enum_of, labels_of, schema_of, unsuited
from router.tasks.task import Posed, Task

if TYPE_CHECKING:
    from router.embedding.templates import Templates
    from router.plan import Ask
    from store.tasks.tasks import TaskRow

MOST_TASKS = 100
"""A tenant's tasks, beside those of the configuration: a name or prompt that varies must not become tasks without end."""
_READ_CHARACTERS = 8000
"""The characters of the system prompts in which a pattern is looked for; and of the longest question that is an input."""
_SYSTEM = ("system", "developer")


@dataclass(frozen=True, slots=True)
class DeclaredTask:
    """A task of the configuration."""

    task: Task
    """A task of no tenant yet."""
    system: re.Pattern[str] | None = None
    schema: Mapping[str, Any] | None = None

    def takes(self, chat: ChatRequest, schema: bytes | None, system: str) -> bool:
        """Tell if a request with these instructions belongs to it. `schema`: that of its response format, canonical."""
        if self.schema is None and self.system is None:
            return False
        own = None if self.schema is None else _canonical(self.schema)
        return own == schema and (self.system is None or self.system.search(system) is not None)


@dataclass(slots=True)
class _Known:
    """The listed tasks of one served model, by tenant."""

    by_name: dict[tuple[str, str], TaskRow] = field(default_factory=dict)
    by_scope: dict[tuple[str, str], TaskRow] = field(default_factory=dict)
    """Enabled proposals."""
    counts: Counter[str] = field(default_factory=Counter)
    """Tasks by tenant, under any model."""


class Tasks:
    """The tasks of one served model. Thread-safe: what is listed is replaced as a whole."""

    def __init__(
        self,
        model: str,
        declared: Sequence[DeclaredTask] = (),
        *,
        max_loss: float,
        by_enum: bool,
        templates: Templates | None = None,
    ) -> None:
        """`max_loss`: of tasks that the configuration does not name; `by_enum`: whether an enum in `response_format`
        declares a task by itself."""
        self._model = model
        self._declared = {each.task.name: each for each in declared}
        self._max_loss = max_loss
        self._by_enum = by_enum
        self._templates = templates
        self._known = _Known()

    def follow(self, rows: Iterable[TaskRow]) -> None:
        """Take over what is listed now, of all tenants and models."""
        known = _Known()
        for row in rows:
            known.counts[row.tenant] += 1
            if row.model == self._model:
                known.by_name[row.tenant, row.name] = row
                if row.source == "proposal" and row.state != "proposed":
                    known.by_scope[row.tenant, row.scope] = row
        self._known = known

    def posed(self, ask: Ask) -> Posed | None:
        """The task and the input of a request; None if it belongs to no task. Learns what its kind have in common."""
        if ask.anonymous or unsuited(ask.chat):
            return None
        asked = question(ask.chat.messages)
        if not asked or len(asked) > _READ_CHARACTERS:
            return None
        shared = scope(ask.chat, named=ask.named_scope)
        found = self._named(ask, shared) if ask.task is not None else self._found(ask, shared)
        if found is None:
            return None
        task = found.task
        if self._templates is not None:
            # As router.policies.question reads it: a text that comes twice teaches nothing twice.
            under = of_user(shared, ask.end_user)
            asked = self._templates.asked(ask.tenant, under, asked).text
        row = self._known.by_name.get((ask.tenant, task.name))
        paused = row is not None and row.state == "paused"
        return replace(found, task=replace(task, tenant=ask.tenant, paused=paused), input=asked)

    def _named(self, ask: Ask, shared: str) -> Posed | None:
        """The task of that name, which becomes one by being named."""
        name, labels = ask.task or "", enum_of(ask.chat)
        declared = self._declared.get(name)
        if declared is not None:
            own = None if declared.schema is None else _canonical(declared.schema)
            return Posed(declared.task, "") if own == _schema(ask.chat) else None
        row = self._known.by_name.get((ask.tenant, name))
        if row is not None and row.source in ("schema", "proposal"):
            return (
                Posed(self._task(name, row.labels), "", row.source, shared) if row.scope == shared else None
            )
        # A student writes one form: who sends another response format asks for another task.
        form = shared if labels else ""
        if row is not None and row.source == "header" and row.scope != form:
            return None
        return self._met(ask.tenant, name, labels, "header", form)

    def _found(self, ask: Ask, shared: str) -> Posed | None:
        schema, system = _schema(ask.chat), None
        for declared in self._declared.values():
            if system is None:
                system = _system_text(ask.chat)
            if declared.takes(ask.chat, schema, system):
                return Posed(declared.task, "")
        enabled = self._known.by_scope.get((ask.tenant, shared))
        if enabled is not None:
            return Posed(self._task(enabled.name, enabled.labels), "", "proposal", shared)
        labels = enum_of(ask.chat) if self._by_enum else ()
        return (
            self._met(ask.tenant, _enum_name(ask.chat, shared), labels, "schema", shared) if labels else None
        )

    def _met(self, tenant: str, name: str, labels: tuple[str, ...], source: str, of: str) -> Posed | None:
        known = self._known
        if (tenant, name) not in known.by_name and known.counts[tenant] >= MOST_TASKS:
            return None
        return Posed(self._task(name, labels), "", source, of)

    def _task(self, name: str, labels: tuple[str, ...]) -> Task:
        return Task(name, "", self._model, labels, max_loss=self._max_loss)


def declared_labels(labels: Sequence[str], schema: Mapping[str, Any] | None) -> tuple[str, ...]:
    """The labels that a configuration declares, in either way."""
    return labels_of(schema) if schema is not None else tuple(labels)


def _system_text(chat: ChatRequest) -> str:
    texts = (message_text(m.get("content")) for m in chat.messages if m.get("role") in _SYSTEM)
    return "\n".join(texts)[:_READ_CHARACTERS]


def _schema(chat: ChatRequest) -> bytes | None:
    schema = schema_of(chat)
    return None if schema is None else _canonical(schema)


def _canonical(schema: Mapping[str, Any]) -> bytes:
    return orjson.dumps(schema, option=orjson.OPT_SORT_KEYS)


def _enum_name(chat: ChatRequest, shared: str) -> str:
    """The client's own name for the form, and what tells it from others of that name."""
    form = chat.fields["response_format"]["json_schema"].get("name")
    said = form[:40] if isinstance(form, str) and NAME.fullmatch(form[:40]) else "enum"
    return f"{said}-{shared[:8]}"
