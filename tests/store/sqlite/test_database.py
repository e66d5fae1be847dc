from __future__ import annotations

import random
import signal
import sqlite3
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from store.errors import StoreClosed, StoreFailed
from store.sqlite.database import Database

CHILD = Path(__file__).parents[1] / "child_that_writes.py"


def child(*arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen([sys.executable, str(CHILD), *arguments], stdout=subprocess.PIPE, text=True)


def intact(path: Path) -> bool:
    connection = sqlite3.connect(path)
    try:
        return connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    finally:
        connection.close()


@pytest.mark.parametrize("lives", [5, pytest.param(20, marks=pytest.mark.slow)])
def test_kills_lose_nothing_that_was_acknowledged(tmp_path: Path, lives: int) -> None:
    path = tmp_path / "understudy.db"
    Database.open(path).close()
    chance = random.Random(7)
    acknowledged: set[str] = set()
    for life in range(lives):
        writing = child(str(path), f"life{life}")
        assert writing.stdout is not None
        for _ in range(chance.randint(1, 300)):
            acknowledged.add(writing.stdout.readline().strip())
        writing.send_signal(signal.SIGKILL)
        # What the pipe still holds was acknowledged too; the last line may be cut.
        acknowledged.update(line.strip() for line in writing.stdout if line.endswith("\n"))
        writing.wait()
        writing.stdout.close()
        assert intact(path)

    db = Database.open(path)
    kept = {f"example {request}" for (request,) in db.read().execute("SELECT request_id FROM examples")}
    kept |= {f"answer {key.decode()}" for (key,) in db.read().execute("SELECT key FROM exact_answers")}
    (size_bytes,) = db.read().execute("SELECT total_bytes FROM exact_size").fetchone()
    (sum_bytes,) = db.read().execute("SELECT sum(size_bytes) FROM exact_answers").fetchone()
    seqs = [seq for (seq,) in db.read().execute("SELECT seq FROM examples ORDER BY id")]
    (last_seq,) = db.read().execute("SELECT last_seq FROM example_sequence").fetchone()
    db.close()
    assert len(acknowledged) > 20
    assert acknowledged <= kept
    assert size_bytes == sum_bytes
    assert seqs == sorted(set(seqs))
    assert last_seq == seqs[-1]


def test_two_processes_write_one_file_and_neither_loses_a_row(tmp_path: Path) -> None:
    path = tmp_path / "understudy.db"
    db = Database.open(path)
    before = db.data_version()
    others = [child(str(path), f"process{number}", "300") for number in range(2)]
    said = [other.communicate(timeout=180)[0].split("\n")[:-1] for other in others]

    assert [len(lines) for lines in said] == [300, 300]
    assert db.data_version() != before
    rows = db.read().execute("SELECT count(*), count(DISTINCT seq) FROM examples").fetchone()
    assert rows == (300, 300)
    db.close()
    assert intact(path)


def test_the_change_check_sees_every_commit_and_nothing_else(db: Database) -> None:
    seen = db.data_version()
    assert db.data_version() == seen
    db.write(lambda connection: connection.execute("UPDATE generations SET value = 5")).result(30)
    assert db.data_version() != seen


def test_a_reader_cannot_write(db: Database) -> None:
    with pytest.raises(StoreFailed, match="readonly"):
        db.read().execute("DELETE FROM examples")


def test_each_thread_reads_on_its_own_connection_and_leaves_none_behind(db: Database) -> None:
    mine = db.read()
    theirs: list[sqlite3.Connection] = []
    for _ in range(5):
        thread = threading.Thread(target=lambda: theirs.append(db.read()))
        thread.start()
        thread.join()
        del thread
    assert db.read() is mine
    assert mine not in theirs
    with pytest.raises(StoreClosed, match="closed"):
        theirs[0].execute("SELECT 1")


@pytest.mark.slow
def test_closing_under_a_thread_that_reads_ends_its_reading_with_a_clear_error(tmp_path: Path) -> None:
    for round_ in range(20):
        db = Database.open(tmp_path / f"{round_}.db")
        ended: list[type[Exception]] = []
        reading = threading.Event()

        def read(
            db: Database = db, ended: list[type[Exception]] = ended, reading: threading.Event = reading
        ) -> None:
            try:
                while True:
                    db.read().execute("SELECT name FROM sqlite_master ORDER BY sql").fetchall()
                    reading.set()
            except Exception as error:
                ended.append(type(error))

        threads = [threading.Thread(target=read) for _ in range(2)]
        for thread in threads:
            thread.start()
        assert reading.wait(30)
        db.close()
        for thread in threads:
            thread.join(30)
        assert ended == [StoreClosed, StoreClosed]


def test_a_path_with_odd_characters_is_one_file(tmp_path: Path) -> None:
    path = tmp_path / "what? a%20name #1" / "understudy.db"
    db = Database.open(path)
    db.write(lambda connection: connection.execute("UPDATE generations SET value = 5")).result(30)
    assert db.read().execute("SELECT DISTINCT value FROM generations").fetchall() == [(5,)]
    db.close()
    assert path.exists()


def test_a_durable_database_waits_for_the_disk_at_every_commit(tmp_path: Path) -> None:
    levels = []
    for durable in (False, True):
        db = Database.open(tmp_path / f"{durable}.db", durable=durable)
        levels.append(
            db.write(lambda connection: connection.execute("PRAGMA synchronous").fetchone()[0]).result(30)
        )
        db.close()
    assert levels == [1, 2]


def test_a_disk_error_surfaces_and_the_writer_goes_on_once_it_is_over(tmp_path: Path) -> None:
    """A file-size limit makes the kernel refuse the write-ahead log's growth, as a failing disk would."""
    script = tmp_path / "script.py"
    script.write_text(DISK_ERROR)
    done = subprocess.run(
        [sys.executable, str(script), str(tmp_path / "a.db")], capture_output=True, text=True, timeout=180
    )
    assert done.stdout.split() == ["failed", "written", "1"], done.stderr
    assert done.stderr.index("store_cannot_write") < done.stderr.index("store_can_write")
    assert intact(tmp_path / "a.db")


DISK_ERROR = """
import resource, sys, structlog
from pathlib import Path
from store.errors import StoreFailed
from store.sqlite.database import Database

def put(name, size):
    return lambda connection: connection.execute("INSERT INTO generations VALUES (?, 1)", (name + "x" * size,))

structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))
db = Database.open(Path(sys.argv[1]))
_, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
resource.setrlimit(resource.RLIMIT_FSIZE, (600_000, hard))
try:
    db.write(put("large", 5_000_000)).result(30)
except StoreFailed:
    print("failed")
resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
db.write(put("later", 5_000_000)).result(30)
print("written")
print(db.read().execute("SELECT count(*) FROM generations WHERE length(name) > 1000").fetchone()[0])
db.close()
"""


def test_what_was_deleted_is_in_no_file_after_erasing(db: Database) -> None:
    def fill(connection: sqlite3.Connection) -> None:
        connection.executemany(
            "INSERT INTO generations VALUES (?, 0)",
            [(f"MARKER {n} " + "x" * (n % 1500),) for n in range(2000)],
        )

    db.write(fill).result(30)
    db.scrub().result(30)
    assert b"MARKER" in db.path.read_bytes()

    db.write(
        lambda connection: connection.execute("DELETE FROM generations WHERE name LIKE 'MARKER%'")
    ).result(30)
    assert db.erase().result(30)

    for file in db.path.parent.iterdir():
        assert b"MARKER" not in file.read_bytes(), file


def test_scrubbing_says_when_a_reader_holds_on_to_the_old_state(db: Database) -> None:
    db.write(lambda connection: connection.execute("UPDATE generations SET value = 1")).result(30)
    holding = db.read()
    holding.execute("BEGIN")
    holding.execute("SELECT * FROM generations").fetchall()
    db.write(lambda connection: connection.execute("UPDATE generations SET value = 2")).result(30)

    assert db.scrub().result(30) is False

    holding.execute("COMMIT")
    assert db.scrub().result(30) is True


def test_a_new_file_that_another_process_is_just_switching_to_wal_is_waited_for(tmp_path: Path) -> None:
    # Two workers that start together on a new folder: SQLite refuses the second at once, without its busy timeout.
    path = tmp_path / "memory.db"
    other = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    other.execute("BEGIN IMMEDIATE")
    ends = threading.Timer(0.3, other.execute, ["COMMIT"])
    ends.start()
    Database.open(path).close()
    ends.join()
    other.close()
