from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from store.learned.artifacts import ArtifactBroken, Artifacts
from store.records import ArtifactRecord
from store.sqlite.database import Database

ROOT = Path(__file__).parents[3]


@pytest.fixture
def artifacts(db: Database, tmp_path: Path) -> Artifacts:
    return Artifacts(db, tmp_path / "artifacts", keep=3)


def publish(
    artifacts: Artifacts, data: bytes, tenant: str = "a1", model: str = "m", **more: Any
) -> ArtifactRecord:
    return artifacts.publish(
        "bandit", tenant, model, data, metrics=more.pop("metrics", {"apgr": 0.7}), **more
    )


def in_use(artifacts: Artifacts, tenant: str = "a1", model: str = "m") -> bytes | None:
    record = artifacts.active("bandit", tenant, model)
    return artifacts.read(record) if record is not None else None


@pytest.mark.parametrize("damage", ["gone", "cut", "changed", "empty"])
def test_a_damaged_version_is_never_given_out(artifacts: Artifacts, damage: str) -> None:
    record = publish(artifacts, b"x" * 1000)
    path = artifacts.path(record)
    if damage == "gone":
        path.unlink()
    else:
        path.write_bytes({"cut": b"x" * 999, "changed": b"x" * 999 + b"y", "empty": b""}[damage])
    with pytest.raises(ArtifactBroken, match=f"version {record.id}"):
        artifacts.read(record)


def test_a_kill_between_file_and_row_leaves_a_file_that_is_swept_and_what_was_in_use(
    artifacts: Artifacts, tmp_path: Path
) -> None:
    publish(artifacts, b"one")
    killed = subprocess.run(
        [sys.executable, "-c", KILLED, str(tmp_path)], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert killed.returncode == -9, killed.stderr
    folder = tmp_path / "artifacts"
    assert len(list(folder.iterdir())) == 2 and len(artifacts.versions()) == 1
    assert in_use(artifacts) == b"one"
    (folder / ".unfinished-x").write_bytes(b"half")

    assert artifacts.sweep() == 0, "so young a file may be about to get its row"
    for file in folder.iterdir():
        os.utime(file, (time.time() - 7200,) * 2)
    assert artifacts.sweep() == 2
    assert [file.read_bytes() for file in folder.iterdir()] == [b"one"] and in_use(artifacts) == b"one"


KILLED = """
import os, signal, sys
from pathlib import Path
from store.learned.artifacts import ArtifactBroken, Artifacts
from store.sqlite.database import Database

db = Database.open(Path(sys.argv[1]) / "understudy.db")
# The writer dies as it takes up the row: the file is on disk by then.
db.write = lambda job: os.kill(os.getpid(), signal.SIGKILL)
Artifacts(db, Path(sys.argv[1]) / "artifacts").publish("bandit", "a1", "m", b"two", metrics={})
"""


def test_kills_while_publishing_never_leave_a_version_without_its_bytes(tmp_path: Path) -> None:
    for _ in range(3):
        child = subprocess.Popen(
            [sys.executable, "-c", ENDLESS, str(tmp_path)], stdout=subprocess.PIPE, text=True, cwd=ROOT
        )
        assert child.stdout is not None
        for _ in range(20):
            last = int(child.stdout.readline())
        child.kill()
        child.wait()
        child.stdout.close()
        db = Database.open(tmp_path / "understudy.db")
        artifacts = Artifacts(db, tmp_path / "artifacts")
        active = artifacts.active("bandit", "a1", "m")
        assert active is not None and active.id >= last
        for record in artifacts.versions():
            assert len(artifacts.read(record)) == record.size_bytes
        db.close()


ENDLESS = """
import itertools, os, sys
from pathlib import Path
from store.learned.artifacts import ArtifactBroken, Artifacts
from store.sqlite.database import Database

db = Database.open(Path(sys.argv[1]) / "understudy.db")
artifacts = Artifacts(db, Path(sys.argv[1]) / "artifacts", keep=2)
while True:
    print(artifacts.publish("bandit", "a1", "m", os.urandom(5000), metrics={}).id, flush=True)
"""
