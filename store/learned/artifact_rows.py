"""The table of artifacts' versions in SQL: reading rows, and dropping those too old to be gone back to. Touches no file."""

from __future__ import annotations

import sqlite3
from typing import Any

import orjson

from store.records import ArtifactRecord

SELECT = "SELECT id, kind, tenant, model, created_at_s, sha256, size_bytes, parent, metrics, note, state FROM artifacts"


def as_record(row: tuple[Any, ...]) -> ArtifactRecord:
    """A row of SELECT as a value."""
    values = list(row)
    values[8] = orjson.loads(values[8])
    return ArtifactRecord(*values)


def of_slot(
    connection: sqlite3.Connection, kind: str, tenant: str, model: str, condition: str = "", *values: object
) -> list[ArtifactRecord]:
    """The versions of one kind for one tenant and served model, newest first."""
    rows = connection.execute(
        SELECT + " WHERE kind = ? AND tenant = ? AND model = ?" + condition + " ORDER BY id DESC",
        (kind, tenant, model, *values),
    )
    return [as_record(row) for row in rows.fetchall()]


def files_of(connection: sqlite3.Connection) -> list[tuple[str, str, str, str]]:
    """(kind, tenant, model, sha256) of every version: what a file's name is made of."""
    return connection.execute("SELECT kind, tenant, model, sha256 FROM artifacts").fetchall()


def prune(connection: sqlite3.Connection, kind: str, tenant: str, model: str, keep: int) -> set[str]:
    """Drop the oldest versions out of use; gives the checksums that no version of the slot has any more.

    `keep` are kept of those that were in use once and as many of those that never were, so that a run of rejected
    ones cannot push out what a rollback needs.
    """
    before = {record.sha256 for record in of_slot(connection, kind, tenant, model)}
    for served in (0, 1):
        connection.execute(
            "DELETE FROM artifacts WHERE id IN (SELECT id FROM artifacts WHERE kind = ? AND tenant = ? AND model = ?"
            " AND state <> 'active' AND served = ? ORDER BY id DESC LIMIT -1 OFFSET ?)",
            (kind, tenant, model, served, keep),
        )
    return before - {record.sha256 for record in of_slot(connection, kind, tenant, model)}
