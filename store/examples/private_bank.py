"""Private tenants: their questions are put aside instead of becoming examples, and each release is recorded for ever.

store.examples.admitting, the only way into the bank, calls `put_aside` first. Questions are read by `questions` alone, for
the mechanism of learning.private; nothing that serves, indexes, exports or shows anything calls that.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

from store.database import Connection, Database
from store.records import Admitted, Example, NewExample


@dataclass(frozen=True, slots=True)
class PrivateQuestion:
    """A question that was put aside."""

    contributor: str
    """Empty when unknown."""
    scope: str
    instructions: str
    question: str


@dataclass(frozen=True, slots=True)
class Release:
    """One release: what was disclosed, with noise, of a tenant's questions."""

    id: int
    tenant: str
    at_s: float
    rho: float
    slip: float
    made: dict[str, Any]
    told: list[tuple[str, int, list[str]]]
    """(scope, cell, words)."""


class BudgetMoved(Exception):
    """Another release was booked meanwhile: what was reckoned no longer holds."""


def is_private(connection: Connection, tenant: str) -> bool:
    """Whether the tenant's own pairs must not become examples. Some microseconds."""
    return (
        connection.execute("SELECT 1 FROM private_tenants WHERE tenant = ?", (tenant,)).fetchone() is not None
    )


def put_aside(connection: Connection, new: NewExample, now_s: float) -> Admitted | None:
    """Inside a write job: keep a private tenant's question out of the bank. The answer is not kept: nothing asks for it.

    None, and nothing done, for any other tenant, and for what was written from a release.
    """
    if new.synthetic or not is_private(connection, new.tenant):
        return None
    connection.execute(
        "INSERT INTO private_questions (tenant, contributor, request_id, scope, instructions, question, at_s)"
        " VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING",
        (
            new.tenant,
            new.contributor,
            new.request_id,
            # Without the end user: what is released with noise is written for all of the tenant's users.
            new.scope.partition("/")[0],
            new.instructions,
            new.question,
            now_s,
        ),
    )
    # No row stands for it, and no text of it goes any further.
    nothing = Example(0, 0, new.tenant, new.scope, "", "", new.source_engine, now_s)
    return Admitted(nothing, "private")


class PrivateBank:
    """Private tenants, the questions that were put aside, and the releases of what they hold."""

    def __init__(self, db: Database) -> None:
        self._db = db

    def tenants(self) -> set[str]:
        """Every private tenant."""
        return {tenant for (tenant,) in self._db.read().execute("SELECT tenant FROM private_tenants")}

    def begin(self, connection: Connection, tenant: str) -> list[int]:
        """Inside a write job: make a tenant private and put its examples aside; gives the ids that must leave the bank now.

        Nothing to do, and no id, for one that is private already.
        """
        if is_private(connection, tenant):
            return []
        now_s = time.time()
        connection.execute("INSERT INTO private_tenants (tenant, since_s) VALUES (?, ?)", (tenant, now_s))
        connection.execute(
            "INSERT INTO private_questions"
            " (tenant, contributor, request_id, scope, instructions, question, at_s)"
            " SELECT e.tenant, a.contributor, e.request_id, substr(e.scope, 1, instr(e.scope || '/', '/') - 1),"
            " coalesce(i.instructions, ''), e.question, e.created_at_s"
            " FROM examples e JOIN example_accounts a ON a.id = e.id"
            " LEFT JOIN example_instructions i ON i.tenant = e.tenant AND i.scope = e.scope WHERE e.tenant = ?"
            " ON CONFLICT DO NOTHING",
            (tenant,),
        )
        rows = connection.execute(
            "SELECT id FROM examples WHERE tenant = ? ORDER BY id", (tenant,)
        ).fetchall()
        return [id for (id,) in rows]

    def questions(self, tenant: str) -> list[PrivateQuestion]:
        """Everything that was put aside, in no order that tells anything of its making."""
        rows = self._db.read().execute(
            "SELECT contributor, scope, instructions, question FROM private_questions WHERE tenant = ?"
            " ORDER BY contributor, question",
            (tenant,),
        )
        return [PrivateQuestion(*row) for row in rows.fetchall()]

    def counts(self, tenant: str) -> tuple[int, int]:
        """(questions put aside, contributors): for the operator's eyes, exact and so not private."""
        row = self._db.read().execute(
            "SELECT count(*), count(DISTINCT contributor) FROM private_questions WHERE tenant = ?", (tenant,)
        )
        questions, contributors = row.fetchone()
        return questions, contributors

    def releases(self, tenant: str) -> list[Release]:
        """What was told of a tenant so far, oldest first."""
        rows = self._db.read().execute(
            "SELECT id, tenant, at_s, rho, slip, made, told FROM private_releases WHERE tenant = ? ORDER BY id",
            (tenant,),
        )
        return [
            Release(
                id,
                whose,
                at_s,
                rho,
                slip,
                json.loads(made),
                [(scope, cell, words) for scope, cell, words in json.loads(told)],
            )
            for id, whose, at_s, rho, slip, made, told in rows.fetchall()
        ]

    def book(
        self,
        tenant: str,
        *,
        after: int,
        rho: float,
        slip: float,
        made: dict[str, Any],
        told: Sequence[tuple[str, int, list[str]]],
    ) -> Future[int]:
        """Book a release before anybody learns of it; gives its id. `after`: the id of the last one that was reckoned with,
        0 for none; the future raises BudgetMoved if there is a later one by now."""

        def insert(connection: Connection) -> int:
            self._db.hold(connection, "private_releases")
            (last,) = connection.execute(
                "SELECT coalesce(max(id), 0) FROM private_releases WHERE tenant = ?", (tenant,)
            ).fetchone()
            if last != after:
                raise BudgetMoved
            id: int = connection.execute(
                "INSERT INTO private_releases (tenant, at_s, rho, slip, made, told) VALUES (?, ?, ?, ?, ?, ?) RETURNING id",
                (tenant, time.time(), rho, slip, json.dumps(made), json.dumps(told, ensure_ascii=False)),
            ).fetchone()[0]
            return id

        return self._db.write(insert)

    def trim(self, before_s: float, limit: int = 10_000) -> Future[int]:
        """Delete questions put aside before then; gives how many, at most `limit`."""
        return self._delete(
            "DELETE FROM private_questions WHERE id IN"
            " (SELECT id FROM private_questions WHERE at_s < ? ORDER BY at_s LIMIT ?)",
            before_s,
            limit,
        )

    def forget_tenant(self, tenant: str) -> Future[int]:
        """Delete what was put aside of a tenant; gives how many questions. It stays private, what was told stays booked."""
        return self._delete("DELETE FROM private_questions WHERE tenant = ?", tenant)

    def forget_contributor(self, tenant: str, contributor: str) -> Future[int]:
        """Delete what was put aside of one contributor; gives how many questions. Raises ValueError for an empty one."""
        if not contributor:
            raise ValueError("an empty contributor is nobody: name one, or forget the tenant")
        return self._delete(
            "DELETE FROM private_questions WHERE tenant = ? AND contributor = ?", tenant, contributor
        )

    def _delete(self, statement: str, *values: object) -> Future[int]:
        def delete(connection: Connection) -> int:
            return connection.execute(statement, values).rowcount

        return self._db.write(delete, after=lambda gone: self._db.scrub_soon() if gone else None)
