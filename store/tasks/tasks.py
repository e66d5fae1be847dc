"""Which tasks there are, and whether their students may answer. Those of the configuration are listed once they were met."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import orjson

from store.database import Connection, Database
from store.generation import Generation

Source = Literal["configured", "schema", "header", "proposal"]
"""Where a task comes from: the configuration, an enum in `response_format`, the client's header, the log."""
State = Literal["on", "paused", "proposed"]
_GENERATION = "tasks"
_LOOK_EVERY_S = 0.25


@dataclass(frozen=True, slots=True)
class TaskRow:
    """A task of one tenant under one served model."""

    tenant: str
    model: str
    name: str
    source: Source
    state: State = "on"
    """proposed: nobody has switched it on yet. paused: the teacher answers everything."""
    scope: str = ""
    """Fingerprint of its instructions, where they tell which requests belong to it."""
    labels: tuple[str, ...] = ()
    """Empty: those that the teacher uses."""
    at_s: float = 0.0
    by: str = ""
    """Who said so last; empty for nobody."""
    grounds: Mapping[str, Any] = field(default_factory=dict)
    """What a proposal rests on: answers, distinct, coverage. No content."""

    @property
    def slot(self) -> str:
        """As router.tasks.task.Task.slot."""
        return f"{self.model}/{self.name}"


class KnownTasks:
    """Rows by tenant, served model and name."""

    def __init__(self, db: Database) -> None:
        self._db = db
        self._generation = Generation(db, _GENERATION, check_every_s=_LOOK_EVERY_S)

    def add(self, task: TaskRow, *, most: int) -> Future[bool]:
        """Note a task that was met or proposed. False where it is known, or its tenant has `most` tasks already.

        A proposal that nobody has decided on gets its new grounds. Raises StoreBusy.
        """
        row = _as_row(task)

        def insert(connection: Connection) -> bool:
            added = connection.execute(_INSERT, {**row, "most": most}).rowcount > 0
            if added:
                self._generation.bump(connection)
            return added

        return self._db.write(insert)

    def switch(
        self,
        name: str,
        state: State,
        *,
        at_s: float,
        by: str,
        tenant: str | None = None,
        model: str | None = None,
    ) -> Future[int]:
        """Switch every task of that name on or off, of one tenant or model if named; gives how many there are."""

        def update(connection: Connection) -> int:
            changed = connection.execute(
                "UPDATE tasks SET state = :state, at_s = :at_s, by = :by WHERE name = :name"
                " AND (:tenant IS NULL OR tenant = :tenant) AND (:model IS NULL OR model = :model)",
                {"name": name, "state": state, "at_s": at_s, "by": by, "tenant": tenant, "model": model},
            ).rowcount
            if changed:
                self._generation.bump(connection)
            return changed

        return self._db.write(update)

    def all(self, *, tenant: str | None = None, name: str | None = None) -> list[TaskRow]:
        """Every task, of one tenant or name if given, in order."""
        rows = self._db.read().execute(
            f"SELECT {', '.join(_COLUMNS)} FROM tasks WHERE (:tenant IS NULL OR tenant = :tenant)"  # noqa: S608
            " AND (:name IS NULL OR name = :name) ORDER BY tenant, model, name",
            {"tenant": tenant, "name": name},
        )
        return [
            replace(found, labels=tuple(orjson.loads(row[6])), grounds=orjson.loads(row[9]))
            for row in rows.fetchall()
            for found in [TaskRow(*row)]
        ]

    def generation(self) -> int:
        """A number that differs whenever any task may have changed. Costs next to nothing."""
        return self._generation.value()

    def forget_idle(self, before_s: float) -> Future[int]:
        """Delete tasks met in traffic of which no answer is kept, and that nobody has touched since; gives how many."""
        return self._delete(
            "DELETE FROM tasks WHERE source IN ('schema', 'header') AND state = 'on' AND at_s < ? AND NOT EXISTS"
            " (SELECT 1 FROM task_answers a WHERE a.tenant = tasks.tenant AND a.slot = model || '/' || name)",
            before_s,
        )

    def forget_tenant(self, tenant: str) -> Future[int]:
        """Delete a tenant's tasks; gives how many."""
        return self._delete("DELETE FROM tasks WHERE tenant = ?", tenant)

    def _delete(self, statement: str, *values: object) -> Future[int]:
        def delete(connection: Connection) -> int:
            deleted = connection.execute(statement, values).rowcount
            if deleted:
                self._generation.bump(connection)
            return deleted

        return self._db.write(delete)


_COLUMNS = tuple(field.name for field in dataclasses.fields(TaskRow))
_INSERT = (
    f"INSERT INTO tasks ({', '.join(_COLUMNS)}) SELECT {', '.join(f':{name}' for name in _COLUMNS)}"  # noqa: S608
    " WHERE (SELECT count(*) FROM tasks WHERE tenant = :tenant) < :most"
    " OR EXISTS (SELECT 1 FROM tasks WHERE tenant = :tenant AND model = :model AND name = :name)"
    " ON CONFLICT (tenant, model, name) DO UPDATE SET at_s = excluded.at_s, grounds = excluded.grounds,"
    " labels = excluded.labels WHERE tasks.state = 'proposed' AND excluded.state = 'proposed'"
)


def _as_row(task: TaskRow) -> dict[str, Any]:
    fields = {name: getattr(task, name) for name in _COLUMNS}
    fields["labels"] = orjson.dumps(list(task.labels)).decode()
    fields["grounds"] = orjson.dumps(dict(task.grounds)).decode()
    return fields
