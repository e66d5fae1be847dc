"""How runs go away: forgotten on somebody's wish, expired, trimmed. Jobs for the writer."""

from __future__ import annotations

from collections.abc import Sequence

from store.database import Connection
from store.generation import tell
from store.workflows.beginning import EXPIRE_VARIABLES
from store.workflows.rows import ids_json


def forget(connection: Connection, of_runs: str, of_variables: str, values: Sequence[str]) -> int:
    """Delete runs, and variables set by themselves, by a condition on each table."""
    runs = connection.execute(
        f"SELECT id FROM workflow_runs WHERE {of_runs}",  # noqa: S608 - our own conditions
        values,
    ).fetchall()
    ids = ids_json(id for (id,) in runs)
    alone = connection.execute(
        f"SELECT id, expired FROM variables WHERE {of_variables} AND run_id IS NULL",  # noqa: S608 - our own conditions
        values,
    ).fetchall()
    connection.execute("DELETE FROM workflow_runs WHERE id IN (SELECT value FROM json_each(?))", (ids,))
    connection.execute(
        "DELETE FROM variables WHERE id IN (SELECT value FROM json_each(?))",
        (ids_json(id for id, _ in alone),),
    )
    tell(connection)
    # Of one that has given its name back only the row was left.
    return len(runs) + sum(not expired for _, expired in alone)


def forget_run(connection: Connection, tenant: str, run_id: str) -> bool:
    """`WorkflowRuns.forget_run`."""
    gone = connection.execute(
        "DELETE FROM workflow_runs WHERE tenant = ? AND id = ?", (tenant, run_id)
    ).rowcount
    tell(connection)
    return gone > 0


def expire(connection: Connection, now_s: float, limit: int) -> int:
    """`WorkflowRuns.expire`."""
    runs = connection.execute(
        "UPDATE workflow_runs SET expired = 1, size_bytes = 0, context = NULL,"
        " failure = json_remove(failure, '$.message') WHERE id IN"
        " (SELECT id FROM workflow_runs WHERE expired = 0 AND expires_at_s <= ? LIMIT ?) RETURNING id",
        (now_s, limit),
    ).fetchall()
    ids = ids_json(id for (id,) in runs)
    connection.execute(
        "UPDATE workflow_steps SET body = NULL, failure = json_remove(failure, '$.message')"
        " WHERE run_id IN (SELECT value FROM json_each(?))",
        (ids,),
    )
    variables = connection.execute(
        EXPIRE_VARIABLES + " LIMIT :limit) RETURNING id, run_id", {"now": now_s, "limit": limit}
    ).fetchall()
    # No page shows what was set by itself once its value is gone.
    connection.executemany(
        "DELETE FROM variables WHERE id = ?", [(id,) for id, run in variables if run is None]
    )
    return max(len(runs), len(variables))


def trim(connection: Connection, before_s: float, limit: int) -> int:
    """`WorkflowRuns.trim`."""
    return connection.execute(
        "DELETE FROM workflow_runs WHERE id IN"
        " (SELECT id FROM workflow_runs WHERE ended_at_s < ? ORDER BY ended_at_s LIMIT ?)",
        (before_s, limit),
    ).rowcount
