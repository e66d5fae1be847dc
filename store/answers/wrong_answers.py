"""Deletes the whole answers that were found wrong, exact and semantic ones, inside somebody's write job."""

from __future__ import annotations

import json
from collections.abc import Sequence

from store.database import Connection
from store.generation import bump

EXACT_GENERATION = "exact_answers"
"""The counter that tells every process to look on disk again."""


def drop_answers(
    connection: Connection, tenant: str, *, requests: Sequence[str] = (), examples: Sequence[int] = ()
) -> int:
    """Delete what would be given again of these requests' answers; gives how many exact ones there were.

    With a request go all whose pair became the same example, for their answers said the same, and all whose answer was made
    with that example, other tenants' to whom it was lent included. `examples` names such examples themselves. No process
    gives a deleted answer after the commit.
    """
    named = {"tenant": tenant, "requests": json.dumps(list(requests)), "examples": json.dumps(list(examples))}
    connection.execute(f"DELETE FROM semantic_entries WHERE +tenant = :tenant AND id IN ({_SEMANTIC})", named)  # noqa: S608
    dropped = connection.execute(f"DELETE FROM exact_answers WHERE id IN ({_EXACT})", named).rowcount  # noqa: S608
    if dropped:
        bump(connection, EXACT_GENERATION)
    return dropped


def count_answers(
    connection: Connection, tenant: str, *, requests: Sequence[str] = (), examples: Sequence[int] = ()
) -> tuple[int, int]:
    """How many exact answers, and how many for similar questions, `drop_answers` would delete."""
    named = {"tenant": tenant, "requests": json.dumps(list(requests)), "examples": json.dumps(list(examples))}
    both = f"SELECT (SELECT count(*) FROM ({_EXACT}) AS e), (SELECT count(*) FROM ({_SEMANTIC}) AS s)"  # noqa: S608
    exact, similar = connection.execute(both, named).fetchone()
    return exact, similar


_STANDING = """
WITH named (id) AS (SELECT value FROM json_each(:requests)),
standing (id) AS (
    SELECT e.id FROM json_each(:examples) j CROSS JOIN examples e ON e.id = CAST(j.value AS INTEGER) AND e.tenant = :tenant
    UNION SELECT e.id FROM named
        CROSS JOIN examples e ON e.tenant = :tenant AND e.request_id = named.id AND e.request_id <> ''
    UNION SELECT m.example_id FROM named CROSS JOIN merged_requests m ON m.tenant = :tenant AND m.request_id = named.id
    -- An answer reused for a similar question was that of the example whose id stands in its row.
    UNION SELECT CAST(j.value AS INTEGER) FROM named
        CROSS JOIN requests r ON r.id = named.id AND r.tenant = :tenant AND r.policy = 'semantic'
        CROSS JOIN json_each(r.example_ids) j ON TRUE
),
concerned (id) AS (
    SELECT id FROM named
    UNION SELECT e.request_id FROM standing CROSS JOIN examples e ON e.id = standing.id AND e.tenant = :tenant
    UNION SELECT m.request_id FROM standing CROSS JOIN merged_requests m
        ON m.example_id = standing.id AND m.tenant = :tenant
)"""
"""CROSS JOIN keeps SQLite from walking all of a tenant's rows to find a handful.

`standing`: the examples that stand for the requests; `concerned`: all requests that they stand for."""
_SEMANTIC = f"""{_STANDING}
    SELECT s.id FROM standing CROSS JOIN semantic_entries s ON s.example_id = standing.id
"""  # noqa: S608 - a constant
_EXACT = f"""{_STANDING}
    SELECT a.id FROM concerned
        CROSS JOIN exact_answers a ON a.request_id = concerned.id AND a.request_id <> '' AND +a.tenant = :tenant
    UNION SELECT a.id FROM concerned
        CROSS JOIN requests r ON r.id = concerned.id AND r.tenant = :tenant
        CROSS JOIN exact_answers a ON a.key = r.exact_key AND +a.tenant = :tenant
    UNION SELECT a.id FROM standing CROSS JOIN exact_answer_examples x ON x.example_id = standing.id
        CROSS JOIN exact_answers a ON a.key = x.key
"""  # noqa: S608 - a constant
