"""A database from before the tables of sums were made fewer loses none of them."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from store.sqlite.schema import MIGRATIONS_FOLDER, statements

_ZEROS = ", ".join(["0"] * 12)
BEFORE = (
    f"INSERT INTO usage_hours VALUES (3600, 'judge', 'a1', 'k1', 'm', 'e', 'chat', 3, 2, {_ZEROS})",
    f"INSERT INTO usage_users VALUES (86400, 'a1', 'ann', 'k1', 'm', 'e', 'chat', 5, 4, {_ZEROS})",
    "INSERT INTO latency_rollups VALUES (60, 120, 'e', 'total', 7, 9)",
    "INSERT INTO stage_rollups VALUES (60, 120, 'e', 'embed', 2, 3.5)",
    "INSERT INTO kept_costs VALUES ('a1', 60, 'replay', 'e', 'warm', 2, 10, 5, 0.5)",
    "INSERT INTO spending VALUES ('usd', 600, 'a1', 1200, 0.25)",
    "INSERT INTO replay_side_costs (tenant, engine, purpose, cost_usd, tokens, asked_at_s)"
    " VALUES ('a1', 'e', 'warm', 0.25, 7, 119.9), ('b2', 'e', 'warm', 1.0, 8, 179.5)",
    "UPDATE rollup_progress SET last_row_id = 11, deletions = 3",
    "UPDATE quality_progress SET last_id = 12",
)
AFTER: dict[str, list[tuple[Any, ...]]] = {
    "SELECT span_s, start_s, line, tenant, end_user, key_id, api, requests, hits FROM usage_sums ORDER BY span_s": [
        (3600, 3600, "judge", "a1", "", "k1", "chat", 3, 2),
        (86400, 86400, "answer", "a1", "ann", "k1", "chat", 5, 4),
    ],
    "SELECT * FROM time_sums ORDER BY measure": [
        (60, 120, "e", "stage", "embed", 0, 2, 3.5),
        (60, 120, "e", "total", "", 7, 9, 0.0),
    ],
    "SELECT * FROM cost_sums ORDER BY span_s, tenant": [
        (60, 60, "replay", "a1", "e", "warm", 3, 17, 5, 0.75),
        (60, 120, "replay", "b2", "e", "warm", 1, 8, 0, 1.0),
        (600, 1200, "usd", "a1", "", "", 0, 0, 0, 0.25),
    ],
    "SELECT * FROM sums_progress ORDER BY log": [("outcomes", 12, 0), ("requests", 11, 3)],
}


def carried(execute: Callable[[str], Any], folder: Path, split: Callable[[str], Any]) -> None:
    """Migrate to before, fill, migrate, and look."""
    files = sorted(folder.glob("*.sql"))
    place = next(place for place, file in enumerate(files) if file.stem == "0116_sums")
    for file in files[:place]:
        for statement in split(file.read_text()):
            execute(statement)
    for statement in BEFORE:
        execute(statement)
    for statement in split(files[place].read_text()):
        execute(statement)
    for query, rows in AFTER.items():
        assert execute(query).fetchall() == rows, query


def test_sums_of_sqlite_are_carried() -> None:
    with closing(sqlite3.connect(":memory:")) as connection:
        carried(connection.execute, MIGRATIONS_FOLDER, statements)


def test_sums_of_postgresql_are_carried(postgres_url: str) -> None:
    pytest.importorskip("psycopg")
    from store.postgres import schema
    from store.postgres.connecting import connect

    with connect(postgres_url, statement_timeout_ms=0) as connection:
        connection.execute("CREATE SCHEMA before")
        connection.execute("SET search_path = before, public")
        carried(lambda sql: connection.execute(sql.encode()), schema.MIGRATIONS_FOLDER, schema.statements)
