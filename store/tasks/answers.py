"""What teachers, students and people answered to the requests of tasks: a log to train students from and to judge them by.

Texts in it have passed admission: whose may be kept, and with what replaced, is decided elsewhere.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, Literal

import orjson

from store.database import Connection, Database
from store.examples.vectors import from_blob, to_blob
from store.records import DRAWN, AnsweredBy, TaskAnswer, Vector

PERSONS_WEIGHT = 10.0
"""A person's label counts as so many of the teacher's."""
_TRIMMED_AT_ONCE = 5_000
_EVER_S = 1e12
"""Longer than any clock has run."""


@dataclass(frozen=True, slots=True)
class TaskCount:
    """How many rows are alike in these respects."""

    answered_by: AnsweredBy
    label: str | None
    student_label: str | None
    unread: str
    checked: bool
    count: int
    start_s: float = 0.0
    """Where the period begins that they fall into, Unix seconds; 0 where all are counted together."""


class TaskAnswers:
    """A log in the order of writing. Every look-up for a task names its tenant; `after` and `slots` are for followers."""

    def __init__(self, db: Database) -> None:
        self._db = db

    def record(self, answer: TaskAnswer) -> Future[None]:
        """Append one. Raises ValueError (BadVector among them) for what is not finite, and StoreBusy."""
        row = _as_row(answer)

        def insert(connection: Connection) -> None:
            connection.execute(_INSERT, row)

        return self._db.write(insert, patient=True)

    def label(
        self,
        tenant: str,
        request_id: str,
        label: str | None,
        *,
        at_s: float,
        weight: float = PERSONS_WEIGHT,
        by: Literal["person", "sample"] = "person",
        check: Callable[[TaskAnswer], None] = lambda latest: None,
    ) -> Future[bool]:
        """Append a label of a request that came afterwards: it stands for the teacher's. None: the teacher's is wrong.

        False where no row of the request is kept. `check` gets the latest inside the transaction; the future raises what it
        raises.
        """
        unread = "'wrong'" if label is None else "''"
        instead = {"at_s": "?", "label": "?", "weight": "?", "answered_by": "?", "unread": unread}
        copied = ", ".join(instead.get(name, name) for name in _COLUMNS if name not in ("answer", "soft"))
        names = ", ".join(name for name in _COLUMNS if name not in ("answer", "soft"))
        statement = (
            f"INSERT INTO task_answers ({names}, answer) SELECT {copied}, '' FROM task_answers"  # noqa: S608
            " WHERE id = ?"
        )
        given = {"at_s": at_s, "label": label, "weight": weight, "answered_by": by}
        values = tuple(given[name] for name in _COLUMNS if name in given)

        def append(connection: Connection) -> bool:
            self._db.hold(connection, f"label {tenant} {request_id}")
            latest = _of_request(connection, tenant, request_id)
            if latest is None:
                return False
            check(latest)
            connection.execute(statement, (*values, latest.id))
            return True

        return self._db.write(append)

    def of_request(self, tenant: str, request_id: str) -> TaskAnswer | None:
        """The latest row of a request; None where it belonged to no task, or is not kept."""
        return _of_request(self._db.read(), tenant, request_id)

    def after(
        self,
        id: int,
        limit: int = 1000,
        *,
        tenant: str | None = None,
        slot: str | None = None,
        content: bool = True,
    ) -> list[TaskAnswer]:
        """The next rows in the order of writing; of one tenant, or one task, if named. Without `content` they come
        without texts, soft labels and embeddings, which takes less than half of the time."""
        condition = "id > ? AND id <= ?"
        values: list[object] = [id, self._db.settled("task_answers")]
        for column, value in (("tenant", tenant), ("slot", slot)):
            if value is not None:
                condition += f" AND {column} = ?"
                values.append(value)
        read = self._rows if content else self._bare_rows
        return read(f"{condition} ORDER BY id LIMIT ?", *values, limit)

    def training_rows(self, tenant: str, slot: str, limit: int) -> list[TaskAnswer]:
        """The latest `limit` labelled requests of a task, in the order of writing; of each its last label."""
        found = self._rows(
            "tenant = ?1 AND slot = ?2 AND label IS NOT NULL AND id IN (SELECT max(id) FROM task_answers"
            " WHERE tenant = ?1 AND slot = ?2 GROUP BY request_id) ORDER BY id DESC LIMIT ?3",
            *(tenant, slot, limit),
        )
        return found[::-1]

    def labelled(self, tenant: str, slot: str, after: int = 0, until_s: float = _EVER_S) -> int:
        """How many labels a task has got after that place in the log, and until that time."""
        return self._one(
            "SELECT count(*) FROM task_answers WHERE tenant = ? AND slot = ? AND id > ? AND at_s <= ?"
            " AND label IS NOT NULL",
            *(tenant, slot, after, until_s),
        )

    def vectors(
        self, tenant: str, slot: str, embedding_version: str, limit: int
    ) -> list[tuple[float, Vector]]:
        """When the latest inputs of a task came, Unix seconds, and their embeddings, oldest first."""
        rows = self._db.read().execute(
            "SELECT at_s, vector FROM task_answers WHERE tenant = ? AND slot = ? AND embedding_version = ?"
            " AND vector IS NOT NULL AND answered_by NOT IN ('person', 'sample') ORDER BY id DESC LIMIT ?",
            (tenant, slot, embedding_version, limit),
        )
        return [(at_s, from_blob(vector)) for at_s, vector in rows.fetchall()][::-1]

    def last_id(self) -> int:
        """The place of the last row ever written, kept or not."""
        return self._db.last_id("task_answers")

    def uncertain(self, tenant: str, slot: str, limit: int, *, since_s: float = 0.0) -> list[TaskAnswer]:
        """Requests that no person has labelled, those first of which the student was least certain."""
        return self._rows(
            "tenant = ?1 AND slot = ?2 AND at_s >= ?3 AND confidence IS NOT NULL AND answered_by NOT IN ('person', 'sample')"
            " AND NOT EXISTS (SELECT 1 FROM task_answers p WHERE p.tenant = ?1 AND p.answered_by = 'person'"
            "  AND p.request_id = task_answers.request_id) ORDER BY confidence, id DESC LIMIT ?4",
            *(tenant, slot, since_s, limit),
        )

    def counts(
        self, tenant: str, slot: str, *, since_s: float = 0.0, step_s: float | None = None
    ) -> list[TaskCount]:
        """How often which answer met which student's label, by periods of `step_s` if given.

        Shares, agreement and confusions are sums of these.
        """
        rows = self._db.read().execute(
            "SELECT answered_by, label, student_label, unread, checked & ?5, count(*), CAST(at_s / ?1 AS INTEGER) * ?1"
            " FROM task_answers WHERE tenant = ?2 AND slot = ?3 AND at_s >= ?4 GROUP BY 1, 2, 3, 4, 5, 7",
            (step_s or _EVER_S, tenant, slot, since_s, DRAWN),
        )
        return [
            TaskCount(by, label, student_label, unread, bool(checked), count, start_s)
            for by, label, student_label, unread, checked, count, start_s in rows.fetchall()
        ]

    def saved_usd(self, tenant: str, slot: str, *, since_s: float = 0.0) -> float:
        """What the teacher would have charged for what the student answered, less what was charged, where the log of
        requests tells."""
        row: tuple[float] = (
            self._db.read()
            .execute(
                "SELECT coalesce(sum(r.reference_cost_usd - r.cost_usd), 0) FROM task_answers a JOIN requests r"
                " ON r.tenant = a.tenant AND r.id = a.request_id WHERE a.tenant = ? AND a.slot = ? AND a.at_s >= ?"
                " AND a.answered_by = 'student'",
                (tenant, slot, since_s),
            )
            .fetchone()
        )
        return row[0]

    def slots(self) -> list[tuple[str, str, int]]:
        """(tenant, task's slot, place of its last row) of every task of which a row is kept, in order."""
        rows = self._db.read().execute(
            "SELECT tenant, slot, max(id) FROM task_answers GROUP BY tenant, slot ORDER BY tenant, slot"
        )
        return list(rows.fetchall())

    def trim(self, before_s: float, most_per_task: int, limit: int = _TRIMMED_AT_ONCE) -> Future[int]:
        """Delete what is older than `before_s` or not among a task's latest; at most `limit` rows, gives how many."""

        def delete(connection: Connection) -> int:
            return connection.execute(
                "DELETE FROM task_answers WHERE id IN (SELECT id FROM (SELECT id, at_s, row_number() OVER"
                " (PARTITION BY tenant, slot ORDER BY id DESC) AS place FROM task_answers)"
                " WHERE at_s < ? OR place > ? LIMIT ?)",
                (before_s, most_per_task, limit),
            ).rowcount

        return self._db.write(delete, after=lambda deleted: self._db.scrub_soon() if deleted else None)

    def forget_tenant(self, tenant: str) -> Future[int]:
        """Delete every row of a tenant; gives how many."""
        return self._delete("DELETE FROM task_answers WHERE tenant = ?", tenant)

    def forget_contributor(self, tenant: str, contributor: str) -> Future[int]:
        """Delete one contributor's rows; gives how many. Raises ValueError for an empty contributor."""
        if not contributor:
            raise ValueError("an empty contributor is nobody: name one, or forget the tenant")
        return self._delete(
            "DELETE FROM task_answers WHERE tenant = ? AND contributor = ? AND contributor <> ''",
            *(tenant, contributor),
        )

    def _delete(self, statement: str, *values: str) -> Future[int]:
        return self._db.write(
            lambda connection: connection.execute(statement, values).rowcount,
            after=lambda _: self._db.scrub_soon(),
        )

    def _rows(self, condition: str, *values: object) -> list[TaskAnswer]:
        rows = self._db.read().execute(f"{_SELECT} WHERE {condition}", values)
        return [_as_answer(row) for row in rows.fetchall()]

    def _bare_rows(self, condition: str, *values: object) -> list[TaskAnswer]:
        rows = self._db.read().execute(f"{_SELECT_BARE} WHERE {condition}", values)
        return [
            TaskAnswer(
                tenant,
                slot,
                request_id,
                at_s,
                by,
                label=label,
                unread=unread,
                student_label=student_label,
                confidence=confidence,
                version=version,
                checked=checked,
                id=id,
            )
            for tenant, slot, request_id, at_s, by, label, unread, student_label, confidence, version, checked, id in rows
        ]

    def _one(self, query: str, *values: object) -> int:
        row: tuple[int] = self._db.read().execute(query, values).fetchone()
        return row[0]


_COLUMNS = tuple(field.name for field in dataclasses.fields(TaskAnswer) if field.name != "id")
_SELECT = f"SELECT {', '.join(_COLUMNS)}, id FROM task_answers"  # noqa: S608 - a constant
_SELECT_BARE = (
    "SELECT tenant, slot, request_id, at_s, answered_by, label, unread, student_label, confidence, version, checked, id"
    " FROM task_answers"
)
_INSERT = f"INSERT INTO task_answers ({', '.join(_COLUMNS)}) VALUES ({', '.join('?' * len(_COLUMNS))})"  # noqa: S608


def _of_request(connection: Connection, tenant: str, request_id: str) -> TaskAnswer | None:
    row = connection.execute(
        f"{_SELECT} WHERE tenant = ? AND request_id = ? ORDER BY id DESC LIMIT 1", (tenant, request_id)
    ).fetchone()
    return None if row is None else _as_answer(row)


def _as_row(answer: TaskAnswer) -> Sequence[Any]:
    fields = {name: getattr(answer, name) for name in _COLUMNS}
    numbers = (answer.weight, answer.confidence, *(answer.soft or {}).values())
    if not all(math.isfinite(number) for number in numbers if number is not None):
        raise ValueError("a task's answer with NaN or infinity: finite numbers are right")
    fields["vector"] = None if answer.vector is None else to_blob(answer.vector)
    fields["soft"] = None if answer.soft is None else orjson.dumps(dict(answer.soft)).decode()
    return tuple(fields.values())


def _as_answer(row: tuple[Any, ...]) -> TaskAnswer:
    fields: dict[str, Any] = dict(zip((*_COLUMNS, "id"), row, strict=True))
    fields["vector"] = None if fields["vector"] is None else from_blob(fields["vector"])
    fields["soft"] = None if fields["soft"] is None else orjson.loads(fields["soft"])
    return TaskAnswer(**fields)
