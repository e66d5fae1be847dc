"""How runs, steps and variables come into being: jobs for the writer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from store.database import Connection
from store.errors import ValueRefused
from store.workflows.records import (
    Begun,
    Claim,
    IdempotencyConflict,
    Limits,
    NewRun,
    NewStep,
    NewVariable,
    NoSuchRun,
    StepProgress,
    TooManyRuns,
    VariableExists,
)
from store.workflows.rows import CLAIMED_BY_ANOTHER, HELD, PROGRESS, ids_json, mapping_json, progress_row
from store.workflows.values import added_bytes, as_bytes, context_of, hold_room

NO_LIMITS = Limits()
_STEP_COLUMNS = (
    "run_id, step, position, name, model, primitive, component, effects, reads, writes, waits, contributor, body,"
    f" claimed_by, claimed_until_s, {PROGRESS}"
)
_INSERT_STEP = (
    f"INSERT INTO workflow_steps ({_STEP_COLUMNS})"  # noqa: S608 - a constant
    f" VALUES ({', '.join('?' * 14)}, now_s() + ?, {', '.join('?' * 20)})"
)
_INSERT_RUN = (
    "INSERT INTO workflow_runs (id, tenant, key_id, contributor, app, state, no_store, background,"
    " gets, budget_usd, budget_tokens, budget_s, keep_values_s, idempotency_key, idempotency_hash, created_at_s,"
    " workflow, version, end_user, size_bytes, context)"
    " VALUES (?, ?, ?, ?, ?, 'running', ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
)
_INSERT_VARIABLE = (
    "INSERT INTO variables (id, tenant, contributor, end_user, app, name, run_id, step, state, is_list, size_bytes,"
    " created_at_s, ended_at_s, expires_at_s, value)"
    " VALUES (:id, :tenant, :contributor, :end_user, :app, :name, :run, :step, :state, :is_list, :size,"
    " :now, :ended, :expires, :value)"
)
_SIZES = (
    "SELECT coalesce(sum(size_bytes), 0) FROM workflow_runs WHERE tenant = ? AND size_bytes > 0",
    "SELECT coalesce(sum(size_bytes), 0) FROM variables WHERE tenant = ? AND run_id IS NULL",
    "SELECT coalesce(sum(size_bytes), 0) FROM workflows WHERE tenant = ?",
    "SELECT coalesce(sum(size_bytes), 0) FROM collection_texts WHERE tenant = ?",
)
"""Each by an index that holds the sizes; the workflows of a tenant are few."""
_TAKE_PRODUCER = (
    " ON CONFLICT (id) DO UPDATE SET run_id = excluded.run_id, step = excluded.step, expires_at_s = NULL"
    " WHERE variables.tenant = excluded.tenant AND variables.app = excluded.app AND variables.name = excluded.name"
    " AND variables.run_id IS NULL AND variables.state = 'pending' AND variables.expired = 0"
    " AND excluded.state = 'pending'"
)


def begin(
    connection: Connection,
    claim: Claim,
    run: NewRun,
    steps: Sequence[NewStep],
    variables: Sequence[NewVariable],
    limits: Limits,
) -> Begun:
    """`WorkflowRuns.begin`."""
    if run.idempotency_key:
        known = connection.execute(
            "SELECT id, idempotency_hash FROM workflow_runs WHERE tenant = ? AND idempotency_key = ?",
            (run.tenant, run.idempotency_key),
        ).fetchone()
        if known is not None:
            if known[1] != run.idempotency_hash:
                raise IdempotencyConflict(run.idempotency_key)
            return Begun(known[0], repeated=True)
    if limits.max_runs is not None and live_runs(connection, run.tenant) >= limits.max_runs:
        raise TooManyRuns(f"{limits.max_runs} runs go on already")
    budget, context = run.budget, context_of(run)
    connection.execute(
        _INSERT_RUN,
        (
            *(run.id, run.tenant, run.key_id, run.contributor, run.app),
            *(run.no_store, run.background, mapping_json(run.gets), budget.usd, budget.tokens),
            *(budget.seconds, run.keep_values_s, run.idempotency_key, run.idempotency_hash, run.created_at_s),
            *(run.workflow, run.version, run.end_user, len(context), context),
        ),
    )
    owned = Owned(run.tenant, run.contributor, run.id, run.no_store, run.created_at_s)
    add(connection, claim, owned, steps, variables, limits)
    return Begun(run.id, repeated=False)


def extend(
    connection: Connection,
    claim: Claim,
    tenant: str,
    run_id: str,
    steps: Sequence[NewStep],
    variables: Sequence[NewVariable],
    now_s: float,
    limits: Limits,
) -> None:
    """`WorkflowRuns.extend`."""
    found = connection.execute(
        "SELECT r.contributor, r.no_store FROM workflow_runs r WHERE r.id = ?"  # noqa: S608 - constants
        " AND r.tenant = ? AND r.state = 'running'"
        f" AND NOT {CLAIMED_BY_ANOTHER}",
        (run_id, tenant, claim.worker),
    ).fetchone()
    if found is None:
        raise NoSuchRun(run_id)
    add(connection, claim, Owned(tenant, found[0], run_id, bool(found[1]), now_s), steps, variables, limits)


def put(
    connection: Connection,
    tenant: str,
    variable: NewVariable,
    now_s: float,
    keep_s: float,
    contributor: str,
    limits: Limits,
) -> str:
    """`WorkflowRuns.put`."""
    owned = Owned(tenant, contributor, None, False, now_s, now_s + keep_s)
    _give_names_back(connection, tenant, [variable], now_s)
    known = _named(connection, tenant, variable)
    if known is not None and (known[1] != "pending" or known[2] is not None):
        raise VariableExists([variable.name])
    hold_room(total_bytes(connection, tenant), added_bytes((), (variable,)), limits)
    if known is None:
        added = connection.execute(
            _INSERT_VARIABLE + " ON CONFLICT DO NOTHING", _variable_row(owned, variable)
        )
        if not added.rowcount:
            raise VariableExists([variable.name or variable.id])
        return variable.id
    id: str = known[0]
    if variable.value is not None:
        connection.execute(
            "UPDATE variables SET state = 'ready', value = :value, is_list = :is_list, size_bytes = :size,"
            " contributor = :contributor, ended_at_s = :now, expires_at_s = :expires WHERE id = :id",
            _variable_row(owned, variable) | {"id": id},
        )
    return id


def live_runs(connection: Connection, tenant: str) -> int:
    """How many of a tenant's runs go on."""
    row: tuple[int] = connection.execute(
        "SELECT count(*) FROM workflow_runs WHERE tenant = ? AND state = 'running'", (tenant,)
    ).fetchone()
    return row[0]


def total_bytes(connection: Connection, tenant: str) -> int:
    """What a tenant's values, bodies, workflows and collections take."""
    return sum(int(connection.execute(sizes, (tenant,)).fetchone()[0]) for sizes in _SIZES)


def grow(connection: Connection, run_id: str, size_bytes: int) -> None:
    """Count that so much more of a run is kept, or held in memory."""
    if size_bytes:
        connection.execute(
            "UPDATE workflow_runs SET size_bytes = size_bytes + ? WHERE id = ?", (size_bytes, run_id)
        )


class Owned(NamedTuple):
    """Whose what is added is, and when."""

    tenant: str
    contributor: str
    run_id: str | None
    no_store: bool
    now_s: float
    expires_at_s: float | None = None


def add(
    connection: Connection,
    claim: Claim,
    owned: Owned,
    steps: Sequence[NewStep],
    variables: Sequence[NewVariable],
    limits: Limits = NO_LIMITS,
) -> None:
    """Add steps, claimed, and variables to a run. Raises VariableExists and TooManyBytes."""
    run_id = owned.run_id
    assert run_id is not None
    hold_room(total_bytes(connection, owned.tenant), added_bytes(steps, variables), limits)
    grow(connection, run_id, added_bytes(steps, variables))
    (first,) = connection.execute(
        "SELECT coalesce(max(position) + 1, 0) FROM workflow_steps WHERE run_id = ?", (run_id,)
    ).fetchone()
    waiting = progress_row(StepProgress(), no_store=False)
    connection.executemany(
        _INSERT_STEP,
        [
            (
                *(run_id, step.id, first + place, step.name, step.model),
                *(step.primitive, step.component, step.effects),
                *(
                    mapping_json(step.reads),
                    mapping_json(step.writes),
                    ids_json(step.waits),
                    step.contributor,
                ),
                *(b"" if owned.no_store else step.body, claim.worker, claim.for_s, *waiting),
            )
            for place, step in enumerate(steps)
        ],
    )
    _insert_variables(connection, owned, variables)


def _insert_variables(connection: Connection, owned: Owned, variables: Sequence[NewVariable]) -> None:
    _give_names_back(connection, owned.tenant, variables, owned.now_s)
    taken = [
        variable.name
        for variable in variables
        if (known := _named(connection, owned.tenant, variable)) is not None and known[0] != variable.id
    ]
    if taken:
        raise VariableExists(taken)
    for variable in variables:
        try:
            added = connection.execute(_INSERT_VARIABLE + _TAKE_PRODUCER, _variable_row(owned, variable))
        except ValueRefused:
            raise VariableExists([variable.name or variable.id]) from None
        if not added.rowcount:
            raise VariableExists([variable.name or variable.id])


def _named(connection: Connection, tenant: str, variable: NewVariable) -> tuple[Any, ...] | None:
    """(id, state, run id) of what holds this name."""
    if not variable.app:
        return None
    found: tuple[Any, ...] | None = connection.execute(
        "SELECT id, state, run_id FROM variables WHERE tenant = ? AND app = ? AND name = ? AND app <> '' AND expired = 0",
        (tenant, variable.app, variable.name),
    ).fetchone()
    return found


def _give_names_back(
    connection: Connection, tenant: str, variables: Sequence[NewVariable], now_s: float
) -> None:
    """What is over, and was not deleted yet, holds no name."""
    connection.executemany(
        EXPIRE_VARIABLES + " AND v.tenant = :tenant AND v.app = :app AND v.app <> '' AND v.name = :name)",
        [
            {"now": now_s, "tenant": tenant, "app": variable.app, "name": variable.name}
            for variable in variables
            if variable.app
        ],
    )


EXPIRE_VARIABLES = (
    "UPDATE variables SET expired = 1, value = NULL, size_bytes = 0,"  # noqa: S608 - constants
    " failure = json_remove(failure, '$.message')"
    f" WHERE id IN (SELECT v.id FROM variables v WHERE v.expired = 0 AND v.expires_at_s <= :now AND NOT ({HELD})"
)
"""To be gone on with: more conditions on `v`, and a closing bracket."""


def _variable_row(owned: Owned, variable: NewVariable) -> dict[str, Any]:
    data = None if variable.value is None else as_bytes(variable.value)
    return {
        "id": variable.id,
        "tenant": owned.tenant,
        "contributor": owned.contributor,
        "end_user": variable.end_user,
        "app": variable.app,
        "name": variable.name,
        "run": owned.run_id,
        "step": variable.step,
        "state": "pending" if variable.value is None else "ready",
        "is_list": isinstance(variable.value, tuple),
        "size": len(data or b""),
        "now": owned.now_s,
        "ended": None if variable.value is None else owned.now_s,
        "expires": owned.expires_at_s,
        "value": None if owned.no_store else data,
    }
