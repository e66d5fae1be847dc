"""Under which instructions a tenant's examples were asked, by scope: without them an example cannot be asked again."""

from __future__ import annotations

import sqlite3

from store.sqlite.database import Database


def keep(connection: sqlite3.Connection, tenant: str, scope: str, instructions: str) -> None:
    """Inside somebody's write job: note what a scope stands for. The same scope again changes nothing."""
    connection.execute(
        "INSERT OR IGNORE INTO example_instructions (tenant, scope, instructions) VALUES (?, ?, ?)",
        (tenant, scope, instructions),
    )


def instructions_of(db: Database, tenant: str, scope: str) -> str | None:
    """What router.digest.instructions said for this scope; None where it was not kept."""
    row = (
        db.read()
        .execute(
            "SELECT instructions FROM example_instructions WHERE tenant = ? AND scope = ?", (tenant, scope)
        )
        .fetchone()
    )
    return None if row is None else str(row[0])
