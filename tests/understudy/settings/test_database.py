"""Settings of PostgreSQL: what cannot work is refused, and a password is never repeated."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner
from pydantic import SecretStr, TypeAdapter

from understudy.commands.check import check
from understudy.settings.config import Config
from understudy.settings.database import DatabaseUrl
from understudy.settings.effective import EffectiveSettings
from understudy.settings.file import parse_config
from understudy.settings.reloading import needs_new_gateway

NEAR = "postgresql://understudy:t0psecret@127.0.0.1:5432/understudy"
FAR = "postgresql://understudy:t0psecret@db.example/understudy"


def config(**memory: Any) -> dict[str, Any]:
    return {"upstream": {"base_url": "http://127.0.0.1:1/v1"}, "memory": {"data_dir": "/tmp/d"} | memory}


def parsed(**memory: Any) -> Config:
    return parse_config(config(**memory))


@pytest.mark.parametrize(
    "url",
    [
        NEAR,
        "postgres://localhost/understudy",
        "postgresql://[::1]:5432/understudy",
        "postgresql:///understudy?host=/run/postgresql",
        "postgresql://u@%2Frun%2Fpostgresql/understudy",
        "postgresql://u:p%40ss@127.0.0.1/?dbname=understudy",
        FAR + "?sslmode=verify-full&sslrootcert=system",
        FAR + "?sslmode=require&unverified=yes",
        "postgresql://u:t0psecret@a.example:5432,b.example:5433/db?sslmode=verify-full&target_session_attrs=primary",
    ],
)
def test_a_connection_string_is_taken_as_it_is(url: str) -> None:
    memory = parsed(database_url=url, listen_url=url).memory
    assert memory is not None and memory.database_url is not None
    assert memory.database_url.get_secret_value() == url


@pytest.mark.parametrize(
    "url",
    [
        "",
        "understudy:t0psecret@127.0.0.1/understudy",
        "mysql://u:t0psecret@127.0.0.1/understudy",
        "host=127.0.0.1 password=t0psecret",
        "postgresql://u:t0psecret@127.0.0.1",
        "postgresql://u:t0psecret@127.0.0.1:99999/db",
        "postgresql://u:t0psecret@127.0.0.1:post/db",
        "postgresql://u:t0p@secret@127.0.0.1/db",
        "postgresql://u:t0psec/ret@127.0.0.1/db",
        "postgresql://u:t0psec#ret@127.0.0.1/db",
        "postgresql://u:t0psecret@127.0.0.1/d b",
        "postgresql://u:t0psecret@\uff0f.example/db?sslmode=verify-full#",
        FAR,
        FAR + "?sslmode=require",
        FAR + "?unverified=yes",
        FAR + "?sslmode=prefer&unverified=yes",
        FAR + "?sslmode=require&unverified=no",
        "postgresql://u:t0psecret@127.0.0.1,db.example/db",
        NEAR + "?hostaddr=10.0.0.1",
    ],
)
@pytest.mark.parametrize("name", ["database_url", "listen_url"])
def test_what_cannot_work_is_refused_without_repeating_it(name: str, url: str) -> None:
    with pytest.raises(Exception, match=f"memory.{name}") as refused:
        parsed(**({"database_url": NEAR} | {name: url}))
    assert "t0p" not in str(refused.value) and "secret@" not in str(refused.value)


@pytest.mark.parametrize(
    ("memory", "told"),
    [
        ({"database_url": NEAR, "data_dir": None}, "data_dir is null"),
        ({"listen_url": NEAR}, "listen_url is set, but database_url is not"),
        ({"index": "pgvector"}, "index is set, but database_url is not"),
        ({"blobs_url": "s3://bucket/x"}, "blobs_url is set, but database_url is not"),
        ({"database_url": NEAR, "index": "pgvektor"}, "did you mean pgvector"),
        ({"database_url": NEAR, "connections": 2}, "memory.connections"),
        ({"database_url": NEAR, "deadline_ms": 0}, "memory.deadline_ms"),
        ({"database_url": NEAR, "stale_s": -1}, "memory.stale_s"),
        ({"database_url": NEAR, "index_memory_mib": 0}, "memory.index_memory_mib"),
        ({"database_url": NEAR, "blobs_url": "bucket"}, "s3://bucket/understudy"),
        ({"database_url": NEAR, "blobs_url": "s3://key:t0psecret@bucket/x"}, "neither credentials"),
        ({"database_url": NEAR, "blobs_url": "s3://bucket/x?token=t0psecret"}, "neither credentials"),
    ],
)
def test_settings_that_do_not_suit_each_other_are_refused(memory: dict[str, Any], told: str) -> None:
    with pytest.raises(Exception, match=told) as refused:
        parsed(**memory)
    assert "t0psecret" not in str(refused.value)


def test_nothing_shows_the_password(tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(yaml.safe_dump(config(database_url=NEAR, listen_url=NEAR)))
    shown = CliRunner().invoke(check, [str(file), "--all"])
    assert shown.exit_code == 0 and "database_url: '**********'" in shown.output
    read = parsed(database_url=NEAR, listen_url=NEAR)
    rows = EffectiveSettings(read, None).rows()
    assert {row.value for row in rows if row.key.endswith(("database_url", "listen_url"))} == {"(not shown)"}
    for told in (shown.output, repr(read), str(rows), read.model_dump_json()):
        assert "t0psecret" not in told


def test_another_database_takes_a_new_gateway() -> None:
    now = parsed(database_url=NEAR)
    assert needs_new_gateway(now, parsed()) == ["memory.database_url"]
    assert needs_new_gateway(now, parsed(database_url=NEAR, connections=8)) == ["memory.connections"]
    assert needs_new_gateway(now, parsed(database_url=NEAR, deadline_ms=10)) == []


def test_a_url_is_a_secret() -> None:
    assert isinstance(TypeAdapter(DatabaseUrl).validate_python(NEAR), SecretStr)
