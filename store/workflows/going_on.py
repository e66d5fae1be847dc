"""What happens to runs while they go on: progress, claims, cancelling. Jobs for the writer."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from store.database import Connection
from store.generation import tell
from store.workflows.beginning import Owned, add, grow
from store.workflows.records import Claim, Resolution, RunChange, RunEnd, VariableEnd
from store.workflows.rows import (
    CLAIMED_BY_ANOTHER,
    PROGRESS,
    failure_json,
    ids_json,
    mapping_json,
    progress_row,
    resolution_json,
)
from store.workflows.values import as_bytes, as_text, strictest

_OPEN = ("waiting", "queued", "running", "unknown")
_UPDATE_STEP = (
    f"UPDATE workflow_steps SET ({PROGRESS}) = ({', '.join('?' * 20)}),"  # noqa: S608 - a constant
    " resolution = CASE WHEN ? = 1 THEN resolution END, claimed_by = ?,"
    " claimed_until_s = CASE WHEN ? = 1 THEN coalesce(claimed_until_s, now_s() + ?) END"
    " WHERE run_id = ? AND step = ? AND (claimed_until_s IS NULL OR claimed_by = ?)"
)
_END_VARIABLE = (
    "UPDATE variables SET state = ?, value = ?, is_list = ?, size_bytes = ?, failure = ?, ended_at_s = ?"
    " WHERE id = ? AND run_id = ? AND state IN ('pending', 'streaming')"
)


def save(connection: Connection, claim: Claim, changes: Sequence[RunChange]) -> frozenset[str]:
    """`WorkflowRuns.save`."""
    found = dict[str, tuple[str, str, int, float]]()
    for change in changes:
        row = connection.execute(
            "SELECT r.tenant, r.contributor, r.no_store, r.keep_values_s FROM workflow_runs r"  # noqa: S608 - constants
            f" WHERE r.id = ? AND r.state = 'running' AND NOT {CLAIMED_BY_ANOTHER}",
            (change.run_id, claim.worker),
        ).fetchone()
        if row is not None:
            found[change.run_id] = row
    for change in changes:
        if change.run_id not in found:
            continue
        tenant, contributor, no_store, keep_s = found[change.run_id]
        if change.new_steps:
            owned = Owned(tenant, contributor, change.run_id, bool(no_store), change.at_s)
            add(connection, claim, owned, change.new_steps, change.new_variables)
        _save_one(connection, claim, change, no_store=bool(no_store), keep_s=keep_s)
    if any(change.variables or change.streaming or change.end for change in changes):
        # Nobody elsewhere waits for a step.
        tell(connection)
    return frozenset(change.run_id for change in changes if change.run_id not in found)


def _save_one(
    connection: Connection, claim: Claim, change: RunChange, *, no_store: bool, keep_s: float
) -> None:
    run_id, at_s = change.run_id, change.at_s
    connection.executemany(
        _UPDATE_STEP,
        [
            (
                *progress_row(progress, no_store=no_store),
                *(progress.state == "unknown", claim.worker, progress.state in _OPEN, claim.for_s),
                *(run_id, step, claim.worker),
            )
            for step, progress in change.steps.items()
        ],
    )
    connection.executemany(
        "UPDATE workflow_steps SET reads = ? WHERE run_id = ? AND step = ?",
        [(mapping_json(reads), run_id, step) for step, reads in change.reads.items()],
    )
    if change.streaming:
        connection.execute(
            "UPDATE variables SET state = 'streaming' WHERE id IN (SELECT value FROM json_each(?)) AND run_id = ?"
            " AND state = 'pending'",
            (ids_json(change.streaming), run_id),
        )
    rows = [_ended_row(ended, run_id, at_s, no_store=no_store) for ended in change.variables]
    connection.executemany(_END_VARIABLE, rows)
    grow(connection, run_id, sum(row[3] for row in rows))
    if change.end is not None:
        _end(connection, run_id, change.end, keep_s, no_store=no_store)


def _ended_row(ended: VariableEnd, run_id: str, at_s: float, *, no_store: bool) -> tuple[Any, ...]:
    data = None if ended.value is None else as_bytes(ended.value)
    return (
        ended.state,
        None if no_store else data,
        isinstance(ended.value, tuple),
        len(data or b""),
        failure_json(ended.failure, no_store=no_store),
        at_s,
        ended.id,
        run_id,
    )


def _end(connection: Connection, run_id: str, end: RunEnd, keep_s: float, *, no_store: bool) -> None:
    expires_at_s = end.at_s + keep_s
    connection.execute(
        "UPDATE workflow_runs SET state = ?, ended_at_s = ?, expires_at_s = ?, failure = ?, critical_path = ?,"
        " round_trips_saved = ? WHERE id = ? AND state = 'running'",
        (
            *(end.state, end.at_s, expires_at_s, failure_json(end.failure, no_store=no_store)),
            *(json.dumps(end.critical_path), end.round_trips_saved, run_id),
        ),
    )
    connection.execute(
        "UPDATE workflow_steps SET claimed_until_s = NULL WHERE run_id = ? AND claimed_until_s IS NOT NULL",
        (run_id,),
    )
    connection.execute("UPDATE variables SET expires_at_s = ? WHERE run_id = ?", (expires_at_s, run_id))
    if no_store:
        # What it held counted while it went on.
        connection.execute("UPDATE workflow_runs SET size_bytes = 0 WHERE id = ?", (run_id,))


def append(connection: Connection, worker: str, variable_id: str, offset: int, text: str) -> None:
    """`WorkflowRuns.append`."""
    found = connection.execute(
        "SELECT v.value FROM variables v JOIN workflow_runs r ON r.id = v.run_id WHERE v.id = ?"  # noqa: S608 - constants
        f" AND r.no_store = 0 AND v.state IN ('pending', 'streaming') AND NOT {CLAIMED_BY_ANOTHER}",
        (variable_id, worker),
    ).fetchone()
    if found is None:
        return
    before = "" if found[0] is None else as_text(found[0])
    if len(before) == offset:
        connection.execute(
            "UPDATE variables SET state = 'streaming', value = ? WHERE id = ?",
            (as_bytes(before + text), variable_id),
        )
        tell(connection)


def renew(connection: Connection, claim: Claim) -> None:
    """`WorkflowRuns.renew`."""
    connection.execute(
        "UPDATE workflow_steps SET claimed_until_s = now_s() + ? WHERE claimed_by = ? AND claimed_until_s IS NOT NULL",
        (claim.for_s, claim.worker),
    )


def take(connection: Connection, claim: Claim, limit: int) -> tuple[str, ...]:
    """`WorkflowRuns.claim`."""
    due = connection.execute(
        "SELECT DISTINCT run_id FROM workflow_steps WHERE claimed_until_s < now_s() LIMIT ?", (limit,)
    ).fetchall()
    # Its steps were all there when its worker ended, and its own end was not written.
    due += connection.execute(
        "SELECT r.id FROM workflow_runs r WHERE r.state = 'running' AND r.created_at_s < now_s() - ?"
        " AND NOT EXISTS (SELECT 1 FROM workflow_steps s WHERE s.run_id = r.id AND s.claimed_until_s IS NOT NULL)"
        " LIMIT ?",
        (claim.for_s, limit),
    ).fetchall()
    ids = ids_json(id for (id,) in due)
    connection.execute(
        "UPDATE workflow_steps SET claimed_by = ?, claimed_until_s = now_s() + ? WHERE claimed_until_s IS NOT NULL"
        " AND run_id IN (SELECT value FROM json_each(?))",
        (claim.worker, claim.for_s, ids),
    )
    connection.execute(
        "UPDATE workflow_runs SET adoptions = adoptions + 1 WHERE id IN (SELECT value FROM json_each(?))",
        (ids,),
    )
    connection.execute(
        "UPDATE variables SET state = 'pending', attempt = attempt + 1, value = NULL, streamed = 0"
        " WHERE state = 'streaming' AND run_id IN (SELECT value FROM json_each(?))",
        (ids,),
    )
    tell(connection)
    return tuple(id for (id,) in due)


def request_cancel(connection: Connection, tenant: str, run_id: str) -> bool:
    """`WorkflowRuns.request_cancel`."""
    asked = connection.execute(
        "UPDATE workflow_runs SET cancel_asked = 1 WHERE id = ? AND tenant = ? AND state = 'running'",
        (run_id, tenant),
    ).rowcount
    tell(connection)
    return asked > 0


def resolve(connection: Connection, tenant: str, run_id: str, step: str, resolution: Resolution) -> bool:
    """`WorkflowRuns.resolve`."""
    told = connection.execute(
        "UPDATE workflow_steps SET resolution = :resolution WHERE run_id = :run AND step = :step AND state = 'unknown'"
        " AND EXISTS (SELECT 1 FROM workflow_runs r WHERE r.id = :run AND r.tenant = :tenant AND r.state = 'running'"
        " AND (r.no_store = 0 OR :no_value = 1))",
        {
            "resolution": resolution_json(resolution),
            "run": run_id,
            "step": step,
            "tenant": tenant,
            "no_value": resolution.value is None,
        },
    ).rowcount
    tell(connection)
    return told > 0


def note_get(
    connection: Connection,
    tenant: str,
    variable_id: str,
    criteria: str,
    stream: bool,
) -> None:
    """`WorkflowRuns.note_get`."""
    found = connection.execute(
        "SELECT r.id, r.gets FROM variables v JOIN workflow_runs r ON r.id = v.run_id"
        " WHERE v.id = ? AND v.tenant = ? AND r.state = 'running'",
        (variable_id, tenant),
    ).fetchone()
    if found is None:
        return
    run_id, gets = found[0], json.loads(found[1])
    stricter = strictest(gets.get(variable_id), criteria)
    if gets.get(variable_id) != stricter:
        connection.execute(
            "UPDATE workflow_runs SET gets = ? WHERE id = ?",
            (json.dumps(gets | {variable_id: stricter}), run_id),
        )
    if stream:
        connection.execute("UPDATE variables SET streamed = 1 WHERE id = ?", (variable_id,))
    tell(connection)
