"""Whether anybody has committed, told from memory that SQLite shares between processes, and without it."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from store.answers.exact_cache import ExactCache
from store.sqlite import wal_index
from store.sqlite.database import Database
from store.sqlite.wal_index import wal_header
from tests.store.rows import answer

_COMMITS = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
for line in sys.stdin:
    connection.execute(line)
    print("done", flush=True)
"""
_BUMP = "UPDATE generations SET value = value + 1 WHERE name = 'exact_answers'\n"


class Other:
    """Another process that has the file open and runs what it is told."""

    def __init__(self, path: Path) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", _COMMITS, str(path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def runs(self, sql: str) -> None:
        """Returns once the statement is committed."""
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(sql)
        self.process.stdin.flush()
        assert self.process.stdout.readline() == "done\n"


@pytest.fixture
def other(db: Database) -> Iterator[Other]:
    other = Other(db.path)
    yield other
    other.process.kill()
    other.process.communicate()


@pytest.fixture(params=["by the header", "by asking SQLite"])
def looked_at(request: pytest.FixtureRequest, db: Database, monkeypatch: pytest.MonkeyPatch) -> Database:
    """A database whose changes are noticed in one way or the other."""
    if request.param == "by asking SQLite":
        monkeypatch.setattr(wal_index, "_MAPS", Path("/nowhere"))
    elif not Path("/proc/self/maps").exists():
        pytest.skip("this system does not tell where the index is mapped")
    assert isinstance(db.data_version(), bytes) == (request.param == "by the header")
    return db


def test_every_commit_of_another_process_is_seen_by_when_it_is_acknowledged(
    looked_at: Database, other: Other
) -> None:
    seen = looked_at.data_version()
    for _ in range(300):
        other.runs(_BUMP)
        now = looked_at.data_version()
        assert now != seen
        assert looked_at.data_version() == now
        seen = now


@pytest.mark.parametrize("between", ["PRAGMA wal_checkpoint(TRUNCATE)\n", "VACUUM\n"])
def test_commits_are_seen_when_the_log_begins_anew(looked_at: Database, other: Other, between: str) -> None:
    for _ in range(20):
        other.runs(_BUMP)
        other.runs(between)
        seen = looked_at.data_version()
        other.runs(_BUMP)
        assert looked_at.data_version() != seen


def test_neither_reading_nor_what_is_taken_back_is_a_change(looked_at: Database, other: Other) -> None:
    seen = looked_at.data_version()
    other.runs("SELECT count(*) FROM examples\n")
    other.runs("BEGIN IMMEDIATE\n")
    other.runs(_BUMP)
    assert looked_at.data_version() == seen
    other.runs("ROLLBACK\n")
    assert looked_at.data_version() == seen


def test_an_answer_that_another_process_deletes_is_not_given_after_that(
    looked_at: Database, other: Other
) -> None:
    cache = ExactCache(looked_at, ttl_s=1e12, memory_bytes=10**6, disk_bytes=10**6, max_entry_bytes=10**6)
    for number in range(50):
        key = b"%d" % number
        cache.put(key, "a1", answer(b"wrong")).result(30)
        assert cache.get(key, 1000.0) is not None
        for statement in ("BEGIN\n", "DELETE FROM exact_answers\n", _BUMP, "COMMIT\n"):
            other.runs(statement)
        assert cache.get(key, 1000.0) is None


def test_closing_one_opening_of_a_file_leaves_the_others_their_look(db: Database, other: Other) -> None:
    second = Database.open(db.path)
    second.data_version()
    second.close()
    seen = db.data_version()
    other.runs(_BUMP)
    assert db.data_version() != seen


def test_looking_takes_no_lock_from_sqlite(db: Database, other: Other) -> None:
    """Closing a second handle on a locked file would: POSIX locks belong to the process."""
    holding = sqlite3.connect(db.path, isolation_level=None)
    holding.execute("BEGIN IMMEDIATE")
    db.data_version()
    second = Database.open(db.path)
    second.data_version()
    second.close()
    refused = f"import sqlite3; sqlite3.connect({str(db.path)!r}, timeout=0).execute('BEGIN IMMEDIATE')"
    tried = subprocess.run([sys.executable, "-c", refused], capture_output=True, text=True, check=False)
    holding.close()
    assert "database is locked" in tried.stderr


def test_an_index_that_is_not_mapped_here_is_not_looked_at(tmp_path: Path) -> None:
    assert wal_header(tmp_path / "never-opened.db") is None
