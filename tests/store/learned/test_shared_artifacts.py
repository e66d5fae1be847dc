"""Two replicas, each with a folder of its own, and one PostgreSQL database."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from store.blobs import PART_BYTES, RowBlobs
from store.database import Database
from store.learned.artifacts import ArtifactBroken, Artifacts
from store.records import ArtifactRecord


@pytest.fixture
def db(postgres_url: str) -> Iterator[Database]:
    from store.postgres.database import PostgresDatabase

    database = PostgresDatabase.open(postgres_url)
    yield database
    database.close()


@pytest.fixture
def here(db: Database, tmp_path: Path) -> Artifacts:
    return Artifacts(db, tmp_path / "here", keep=2, blobs=RowBlobs(db))


@pytest.fixture
def there(db: Database, tmp_path: Path) -> Artifacts:
    return Artifacts(db, tmp_path / "there", keep=2, blobs=RowBlobs(db))


def publish(artifacts: Artifacts, data: bytes, tenant: str = "a1") -> ArtifactRecord:
    return artifacts.publish("bandit", tenant, "m", data, metrics={})


def test_what_one_replica_publishes_another_reads_and_keeps_as_a_file(
    here: Artifacts, there: Artifacts
) -> None:
    data = os.urandom(2 * PART_BYTES + 17)
    publish(here, data)
    found = there.best("bandit", "a1", "m")
    assert found is not None and not there.path(found).exists()
    assert there.read(found) == data
    assert there.path(found).read_bytes() == data


@pytest.mark.parametrize("damage", ["gone", "cut", "empty"])
def test_a_damaged_file_is_fetched_again(here: Artifacts, damage: str) -> None:
    record = publish(here, b"x" * 1000)
    path = here.path(record)
    path.unlink() if damage == "gone" else path.write_bytes({"cut": b"x" * 999, "empty": b""}[damage])
    assert here.read(record) == b"x" * 1000 == path.read_bytes()


def test_what_is_damaged_everywhere_is_never_given_out(db: Database, here: Artifacts) -> None:
    record = publish(here, b"x" * 1000)
    here.path(record).unlink()
    RowBlobs(db).put(f"artifacts/{here.path(record).name}", b"x" * 999)
    with pytest.raises(ArtifactBroken, match=f"version {record.id} cannot be read"):
        here.read(record)


def test_a_forgotten_tenant_and_what_is_beyond_the_number_to_keep_leave_no_row(
    db: Database, here: Artifacts, there: Artifacts
) -> None:
    for number in range(5):
        publish(here, b"%d" % number)
    publish(here, b"theirs", tenant="b2")
    assert len(RowBlobs(db).names("artifacts/")) == 4
    assert there.forget_tenant("a1") == 3
    (left,) = RowBlobs(db).names("artifacts/")
    assert RowBlobs(db).get(left) == b"theirs"


def test_what_no_row_names_is_swept_from_every_folder(
    db: Database, here: Artifacts, there: Artifacts
) -> None:
    record = publish(here, b"one")
    there.read(record)
    here.forget_tenant("a1")
    RowBlobs(db).put("artifacts/of-a-kill", b"half")
    os.utime(there.path(record), (time.time() - 7200,) * 2)
    assert there.sweep() == 1 and not there.path(record).exists()
    assert RowBlobs(db).names("artifacts/"), "so young a file may be about to get its row"
    assert there.sweep(older_than_s=0) == 1 and not RowBlobs(db).names("artifacts/")


def test_files_follow_a_move_to_postgresql_and_back(db: Database, tmp_path: Path, there: Artifacts) -> None:
    only_files = Artifacts(db, tmp_path / "moved")
    record = only_files.publish("bandit", "a1", "m", b"learnt before", metrics={})
    with pytest.raises(ArtifactBroken):
        there.read(record)
    moved = Artifacts(db, tmp_path / "moved", blobs=RowBlobs(db))
    assert moved.share() == 1 and moved.share() == 0
    assert there.fetch() == 1 and there.path(record).read_bytes() == b"learnt before"
