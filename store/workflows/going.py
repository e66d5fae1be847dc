"""How runs go away: forgotten on somebody's wish, expired, trimmed. Jobs for the writer."""

from __future__ import annotations

from collections.abc import Sequence

from store.database import Connection
from store.decisions.kept_costs import CostsOf, keep_costs
from store.workflows.beginning import EXPIRE_VARIABLES
from store.workflows.rows import ids_json, note

_CHANGES_KEPT_S = 600.0
"""Whoever looks less often reads anew what it waits for."""
_IN_MEMORY = "state = 'running' OR no_store = 1 AND expired = 0"
"""Whether a process has something of it in its memory, and is to be told."""

_WARMED = CostsOf(
    "warm",
    "(SELECT r.tenant, s.run_id, s.engine, r.created_at_s, s.warmed_cost_usd, s.warmed_tokens FROM workflow_steps s"
    " JOIN workflow_runs r ON r.id = s.run_id WHERE s.warmed_tokens > 0) AS warmed",
    "created_at_s",
    "warmed_cost_usd",
    engine="engine",
    prompt_tokens="warmed_tokens",
)


def forget(
    connection: Connection, of_runs: str, of_variables: str, values: Sequence[str], now_s: float
) -> int:
    """Delete runs, and variables set by themselves, by a condition on each table. The first of `values` is the tenant."""
    runs = connection.execute(
        f"SELECT id, {_IN_MEMORY} FROM workflow_runs WHERE {of_runs}",  # noqa: S608 - our own conditions
        values,
    ).fetchall()
    ids = ids_json(id for id, _ in runs)
    alone = connection.execute(
        f"SELECT id, expired FROM variables WHERE {of_variables} AND run_id IS NULL",  # noqa: S608 - our own conditions
        values,
    ).fetchall()
    _delete_runs(connection, ids, now_s)
    note(connection, now_s, "cancel", [(id, "") for id, in_memory in runs if in_memory])
    connection.execute(
        "DELETE FROM variables WHERE id IN (SELECT value FROM json_each(?))",
        (ids_json(id for id, _ in alone),),
    )
    # Of one that has given its name back only the row was left.
    there = [id for id, expired in alone if not expired]
    note(connection, now_s, "variable", [("", id) for id in there])
    tenant = values[0]
    connection.execute("DELETE FROM workflow_bytes WHERE tenant = ? AND total_bytes = 0", (tenant,))
    return len(runs) + len(there)


def forget_run(connection: Connection, tenant: str, run_id: str, now_s: float) -> bool:
    """`WorkflowRuns.forget_run`."""
    found = connection.execute(
        f"SELECT {_IN_MEMORY} FROM workflow_runs WHERE tenant = ? AND id = ?",  # noqa: S608 - a constant
        (tenant, run_id),
    ).fetchone()
    if found is None:
        return False
    _delete_runs(connection, ids_json([run_id]), now_s)
    if found[0]:
        note(connection, now_s, "cancel", [(run_id, "")])
    return True


def _delete_runs(connection: Connection, ids: str, now_s: float) -> None:
    """Delete runs, steps and variables, and wake whoever waits for one of these. What computing early cost is kept."""
    keep_costs(connection, _WARMED, "run_id IN (SELECT value FROM json_each(?))", (ids,))
    awaited = connection.execute(
        "SELECT run_id, id FROM variables WHERE run_id IN (SELECT value FROM json_each(?))"
        " AND state IN ('pending', 'streaming')",
        (ids,),
    ).fetchall()
    connection.execute("DELETE FROM workflow_runs WHERE id IN (SELECT value FROM json_each(?))", (ids,))
    note(connection, now_s, "variable", awaited)


def expire(connection: Connection, now_s: float, limit: int) -> int:
    """`WorkflowRuns.expire`."""
    runs = connection.execute(
        "UPDATE workflow_runs SET expired = 1, failure = json_remove(failure, '$.message', '$.body') WHERE id IN"
        " (SELECT id FROM workflow_runs WHERE expired = 0 AND expires_at_s <= ? LIMIT ?) RETURNING id",
        (now_s, limit),
    ).fetchall()
    ids = ids_json(id for (id,) in runs)
    connection.execute("DELETE FROM workflow_texts WHERE run_id IN (SELECT value FROM json_each(?))", (ids,))
    connection.execute(
        "UPDATE workflow_steps SET failure = json_remove(failure, '$.message', '$.body')"
        " WHERE failure IS NOT NULL AND run_id IN (SELECT value FROM json_each(?))",
        (ids,),
    )
    variables = connection.execute(
        EXPIRE_VARIABLES + " LIMIT :limit) RETURNING id, run_id", {"now": now_s, "limit": limit}
    ).fetchall()
    # No page shows what was set by itself once its value is gone.
    connection.executemany(
        "DELETE FROM variables WHERE id = ?", [(id,) for id, run in variables if run is None]
    )
    connection.execute(
        "DELETE FROM workflow_changes WHERE at_s < ? AND place < (SELECT max(place) FROM workflow_changes)",
        (now_s - _CHANGES_KEPT_S,),
    )
    return max(len(runs), len(variables))


def trim(connection: Connection, before_s: float, limit: int) -> int:
    """`WorkflowRuns.trim`."""
    return connection.execute(
        "DELETE FROM workflow_runs WHERE id IN"
        " (SELECT id FROM workflow_runs WHERE ended_at_s < ? ORDER BY ended_at_s LIMIT ?)",
        (before_s, limit),
    ).rowcount
