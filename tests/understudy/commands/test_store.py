"""`understudy store`: what an operator sees of migrating and moving."""

from __future__ import annotations

import re
from contextlib import closing
from pathlib import Path

import pytest
from click.testing import CliRunner

from store import Store
from store.postgres.connecting import connect
from tests.store.rows import new_example, request_record
from understudy.commands.store import store


def run(*arguments: str, url: str = "") -> tuple[int, str, str]:
    done = CliRunner().invoke(store, arguments, env={"UNDERSTUDY_DATABASE_URL": url} if url else None)
    return done.exit_code, done.stdout, done.stderr


def folder(path: Path) -> Path:
    with closing(Store.open(path)) as opened:
        opened.examples.add(new_example(1)).result(30)
        opened.decisions.requests.record(request_record(1)).result(30)
        opened.artifacts.publish("scorer", "a1", "gpt-4o", b"what was learnt", metrics={})
    return path


@pytest.mark.slow
def test_everything_is_moved_there_and_back(postgres_url: str, tmp_path: Path) -> None:
    data, back = str(folder(tmp_path / "data")), tmp_path / "back"
    status, said, _ = run("copy", "--from", data, "--to", postgres_url)
    assert status == 0 and "run this again with --final" in said
    status, said, _ = run("copy", "--from", data, "--to", postgres_url, "--final", "--verify")
    assert status == 0 and "can be served" in said and "both hold the same" in said
    assert re.search(r"^requests +1 [0-9a-f]{32}$", said, re.MULTILINE)
    assert "1 files of what was learnt are in the database" in said
    password = re.search(r":([^:@/]+)@", postgres_url)
    assert password is not None and password[1] not in said

    status, _, why = run("copy", "--from", postgres_url, "--to", str(back), "--final")
    assert status == 2 and "has no file `secret`" in why
    back.mkdir()
    (back / "secret").write_bytes((tmp_path / "data" / "secret").read_bytes())
    status, said, why = run("copy", "--from", postgres_url, "--to", str(back), "--final", "--verify")
    assert status == 0, why
    with closing(Store.open(back)) as opened:
        (version,) = opened.artifacts.versions()
        assert opened.artifacts.read(version) == b"what was learnt"
        assert opened.examples.count("a1") == 1


def test_a_difference_is_told_by_the_exit_status(postgres_url: str, tmp_path: Path) -> None:
    places = ("--from", str(folder(tmp_path / "data")), "--to", postgres_url)
    assert run("copy", *places, "--final")[0] == 0
    with connect(postgres_url, statement_timeout_ms=0) as connection:
        connection.execute("UPDATE requests SET model = 'another'")
    status, said, _ = run("copy", *places, "--verify")
    assert status == 1
    assert re.search(r"^requests +1 DIFFERENT: [0-9a-f]{32} and [0-9a-f]{32}$", said, re.MULTILINE)
    assert "they differ" in said


def test_what_cannot_be_done_is_told_in_a_sentence(postgres_url: str, tmp_path: Path) -> None:
    assert run("migrate", url=postgres_url)[:2] == (0, "the schema is this release's already\n")
    assert (
        "does not exist; nothing was changed" in run("migrate", "--grant", "nobody_here", url=postgres_url)[2]
    )
    assert run("migrate", "--url", "postgresql://u:hunter2@127.0.0.1:1/none")[0] == 2
    for url in (
        "postgresql://u:hunter2@127.0.0.1:1/none",
        "postgresql://u:hunter2@db.example/none",
        "hunter2",
    ):
        status, _, why = run("migrate", "--url", url)
        assert status == 2 and why.startswith("understudy: nothing was migrated: ") and "hunter2" not in why
    status, _, why = run("copy", "--from", str(tmp_path), "--to", postgres_url)
    assert status == 2 and "holds no understudy.db" in why
    status, _, why = run("copy", "--from", str(tmp_path), "--to", str(tmp_path))
    assert status == 2 and "one place is a data folder" in why
