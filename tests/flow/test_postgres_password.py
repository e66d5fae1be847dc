"""Commands that cannot reach PostgreSQL, or must not: each ends with status 2, says why, and never with which password."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

pytest.importorskip("psycopg", reason="the extra postgres is not installed")

from benchmarks.postgres_server import PostgresServer
from tests.flow.process import ran

CANARY = "correct-horse-battery"


@pytest.mark.slow
@pytest.mark.parametrize("command", ["serve", "migrate", "keys"])
def test_a_command_without_its_database_ends_and_tells_no_password(
    command: str, postgres_server: PostgresServer, tmp_path: Path
) -> None:
    environment = {"UNDERSTUDY_DATABASE_URL": postgres_server.url().replace(postgres_server.password, CANARY)}
    config = tmp_path / "config.json"
    memory = {"data_dir": str(tmp_path / "data"), "database_url": "${UNDERSTUDY_DATABASE_URL}"}
    upstream = {"base_url": "http://127.0.0.1:9/v1"}
    listen = {"port": 0, "workers": 1}
    config.write_text(json.dumps({"listen": listen, "upstream": upstream, "memory": memory}))
    arguments = {
        "serve": ("serve", "--config", str(config)),
        "migrate": ("store", "migrate"),
        "keys": ("keys", "list", "--data", str(tmp_path / "data")),
    }
    status, out, told = ran(*arguments[command], environment=environment)
    assert status == 2, told
    assert "password authentication failed" in told or "no connection to PostgreSQL" in told, told
    assert CANARY not in out + told


def test_a_server_elsewhere_without_tls_is_refused_before_anything_is_sent(tmp_path: Path) -> None:
    url = f"postgresql://understudy:{CANARY}@db.example/understudy"
    status, out, told = ran("store", "migrate", environment={"UNDERSTUDY_DATABASE_URL": url})
    assert status == 2 and "sslmode=verify-full" in told
    assert CANARY not in out + told
