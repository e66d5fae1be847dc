"""What happens to runs while they go on: progress, leases, cancelling. Jobs for the writer."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from store.database import Connection
from store.workflows.records import LeaseLost, Resolution, RunChange, RunEnd, VariableEnd
from store.workflows.rows import (
    PROGRESS,
    failure_json,
    ids_json,
    mapping_json,
    note,
    progress_row,
    resolution_json,
)
from store.workflows.values import as_bytes, strictest

_UPDATE_STEP = (
    f"UPDATE workflow_steps SET ({PROGRESS}) = ({', '.join('?' * 22)}),"  # noqa: S608 - a constant
    " resolution = CASE WHEN ? = 1 THEN resolution END WHERE run_id = ? AND step = ?"
)
_END_VARIABLE = (
    "UPDATE variables SET state = ?, value = ?, is_list = ?, size_bytes = ?, failure = ?, ended_at_s = ?"
    " WHERE id = ? AND run_id = ? AND state IN ('pending', 'streaming') RETURNING run_id, id"
)


def save(connection: Connection, owner: str, changes: Sequence[RunChange]) -> None:
    """`WorkflowRuns.save`."""
    found = dict[str, tuple[int, float]]()
    for change in changes:
        row = connection.execute(
            "SELECT no_store, keep_values_s FROM workflow_runs WHERE id = ? AND owner = ?",
            (change.run_id, owner),
        ).fetchone()
        if row is not None:
            found[change.run_id] = row
    lost = [change.run_id for change in changes if change.run_id not in found]
    if lost:
        raise LeaseLost(lost)
    for change in changes:
        no_store, keep_s = found[change.run_id]
        _save_one(connection, change, no_store=bool(no_store), keep_s=keep_s)


def _save_one(connection: Connection, change: RunChange, *, no_store: bool, keep_s: float) -> None:
    run_id, at_s = change.run_id, change.at_s
    connection.executemany(
        _UPDATE_STEP,
        [
            (*progress_row(progress, no_store=no_store), progress.state == "unknown", run_id, step)
            for step, progress in change.steps.items()
        ],
    )
    connection.executemany(
        "UPDATE workflow_steps SET reads = ? WHERE run_id = ? AND step = ?",
        [(mapping_json(reads), run_id, step) for step, reads in change.reads.items()],
    )
    touched: list[tuple[str, str]] = []
    if change.streaming:
        touched += connection.execute(
            "UPDATE variables SET state = 'streaming' WHERE id IN (SELECT value FROM json_each(?)) AND run_id = ?"
            " AND state = 'pending' RETURNING run_id, id",
            (ids_json(change.streaming), run_id),
        ).fetchall()
    for ended in change.variables:
        touched += connection.execute(
            _END_VARIABLE, _ended_row(ended, run_id, at_s, no_store=no_store)
        ).fetchall()
    if change.variables:
        connection.executemany(
            "DELETE FROM variable_pieces WHERE variable_id = ?", [(ended.id,) for ended in change.variables]
        )
    if touched:
        note(connection, at_s, "variable", touched)
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
    changed = connection.execute(
        "UPDATE workflow_runs SET state = ?, ended_at_s = ?, expires_at_s = ?, failure = ?, critical_path = ?,"
        " round_trips_saved = ? WHERE id = ? AND state = 'running'",
        (
            *(end.state, end.at_s, expires_at_s, failure_json(end.failure, no_store=no_store)),
            *(json.dumps(end.critical_path), end.round_trips_saved, run_id),
        ),
    ).rowcount
    if changed:
        connection.execute("UPDATE variables SET expires_at_s = ? WHERE run_id = ?", (expires_at_s, run_id))
        connection.execute("DELETE FROM variable_readers WHERE run_id = ?", (run_id,))
        if no_store:
            # What it held counted while it went on; its process bounds what it holds of runs that are over.
            connection.execute("DELETE FROM workflow_texts WHERE run_id = ?", (run_id,))
            connection.execute("UPDATE variables SET size_bytes = 0 WHERE run_id = ?", (run_id,))
        note(connection, end.at_s, "run", [(run_id, "")])


def append(connection: Connection, owner: str, variable_id: str, offset: int, text: str, at_s: float) -> None:
    """`WorkflowRuns.append`."""
    found = connection.execute(
        "SELECT r.id FROM variables v JOIN workflow_runs r ON r.id = v.run_id WHERE v.id = ? AND r.owner = ?"
        " AND r.state = 'running' AND r.no_store = 0 AND v.state IN ('pending', 'streaming')",
        (variable_id, owner),
    ).fetchone()
    if found is None:
        return
    connection.execute(
        "INSERT INTO variable_pieces (variable_id, start, text) VALUES (?, ?, ?) ON CONFLICT DO NOTHING",
        (variable_id, offset, as_bytes(text)),
    )
    connection.execute(
        "UPDATE variables SET state = 'streaming' WHERE id = ? AND state = 'pending'", (variable_id,)
    )
    note(connection, at_s, "variable", [(found[0], variable_id)])


def renew(connection: Connection, owner: str, run_ids: Sequence[str], until_s: float) -> frozenset[str]:
    """`WorkflowRuns.renew`."""
    held = connection.execute(
        "UPDATE workflow_runs SET lease_until_s = ? WHERE owner = ? AND state = 'running'"
        " AND id IN (SELECT value FROM json_each(?)) RETURNING id",
        (until_s, owner, ids_json(run_ids)),
    ).fetchall()
    return frozenset(id for (id,) in held)


def adopt(connection: Connection, owner: str, now_s: float, until_s: float, limit: int) -> tuple[str, ...]:
    """`WorkflowRuns.adopt`."""
    # Of several who try at once the first gets a run: the others find its lease renewed.
    adopted = connection.execute(
        "UPDATE workflow_runs SET owner = ?, lease_until_s = ?, adoptions = adoptions + 1"
        " WHERE state = 'running' AND lease_until_s < ? AND id IN (SELECT id FROM workflow_runs"
        " WHERE state = 'running' AND lease_until_s < ? ORDER BY created_at_s, id LIMIT ?)"
        " RETURNING id, created_at_s",
        (owner, until_s, now_s, now_s, limit),
    ).fetchall()
    ids = [id for id, _ in sorted(adopted, key=lambda each: (each[1], each[0]))]
    wanted = ids_json(ids)
    anew = connection.execute(
        "UPDATE variables SET state = 'pending', attempt = attempt + 1 WHERE state = 'streaming'"
        " AND run_id IN (SELECT value FROM json_each(?)) RETURNING run_id, id",
        (wanted,),
    ).fetchall()
    connection.execute(
        "DELETE FROM variable_pieces WHERE variable_id IN (SELECT value FROM json_each(?))",
        (ids_json(id for _, id in anew),),
    )
    note(connection, now_s, "run", [(id, "") for id in ids])
    note(connection, now_s, "variable", anew)
    return tuple(ids)


def request_cancel(connection: Connection, tenant: str, run_id: str, now_s: float) -> bool:
    """`WorkflowRuns.request_cancel`."""
    asked = connection.execute(
        "UPDATE workflow_runs SET cancel_asked = 1 WHERE id = ? AND tenant = ? AND state = 'running'",
        (run_id, tenant),
    ).rowcount
    if asked:
        note(connection, now_s, "cancel", [(run_id, "")])
    return asked > 0


def resolve(
    connection: Connection, tenant: str, run_id: str, step: str, resolution: Resolution, now_s: float
) -> bool:
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
    if told:
        note(connection, now_s, "resolve", [(run_id, "")])
    return told > 0


def note_get(
    connection: Connection,
    tenant: str,
    variable_id: str,
    criteria: str,
    stream: bool,
    now_s: float,
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
    note(connection, now_s, "get", [(run_id, variable_id)], criteria=criteria, stream=stream)
