"""A gateway's role has no right but to rows: as docs/how-to/postgresql.md has it made."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("psycopg", reason="the extra postgres is not installed")

from benchmarks.postgres_server import PostgresServer
from store import Store
from store.postgres.connecting import connect
from store.postgres.schema import grant, migrate

DOCS = Path(__file__).parents[3] / "docs"
PAGES = (DOCS / "how-to" / "postgresql.md", DOCS / "reference" / "postgresql.md")
AS_SUPERUSER, POOLED, VACUUMED = (
    block
    for page in PAGES
    for block in re.findall(r"^```sql\n(.*?)^```", page.read_text(encoding="utf-8"), re.M | re.S)
)


def run(url: str, script: str) -> None:
    with connect(url, statement_timeout_ms=0) as connection:
        for statement in script.split(";\n"):
            if statement.strip():
                connection.execute(statement.encode())


@pytest.fixture
def urls(postgres_server: PostgresServer) -> Iterator[tuple[str, str]]:
    """Of the owner and of the gateways."""
    run(postgres_server.url(), AS_SUPERUSER)
    place = f"@127.0.0.1:{postgres_server.port}/understudy"
    try:
        yield (
            f"postgresql://understudy_owner:change-me{place}",
            f"postgresql://understudy_gateway:change-me-too{place}",
        )
    finally:
        dropped = "DROP DATABASE understudy WITH (FORCE);\nDROP ROLE understudy_gateway;\nDROP ROLE understudy_owner"
        run(postgres_server.url(), dropped)


def test_the_gateways_role_reads_and_writes_rows_and_nothing_else(
    urls: tuple[str, str], postgres_server: PostgresServer, tmp_path: Path
) -> None:
    owner, gateway = urls
    with connect(owner, statement_timeout_ms=0) as connection:
        migrate(connection)
        grant(connection, "understudy_gateway")
    run(owner, VACUUMED)
    store = Store.open(tmp_path, database_url=gateway)
    try:
        assert store.jobs.engine_states.drain("a", "me", "tried").result(60)
        assert [each.engine for each in store.jobs.engine_states.drained()] == ["a"]
        assert store.problem() is None
    finally:
        store.close()
    for refused in ("CREATE TABLE mine (id INTEGER)", "DROP TABLE requests", "TRUNCATE requests"):
        with pytest.raises(Exception, match=r"permission denied|must be owner"):
            run(gateway, refused)
    run(postgres_server.url(), POOLED)
    with connect(gateway, statement_timeout_ms=5_000, pooled=True) as connection:
        assert connection.execute("SHOW statement_timeout").fetchone() == ("1min",)
