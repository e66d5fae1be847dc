from __future__ import annotations

import fcntl
import json
import random
from dataclasses import replace
from pathlib import Path

import pytest

from store.examples.snapshots import Seal, Snapshots

SEAL = Seal("a1", "database", "v1", 8, seq=10, count=3)
GRAPH = bytes(random.Random(1).randbytes(5000))


@pytest.fixture
def snapshots(tmp_path: Path) -> Snapshots:
    snapshots = Snapshots(tmp_path / "index")
    assert snapshots.save(SEAL, GRAPH)
    return snapshots


def data_file(tmp_path: Path) -> Path:
    (file,) = (tmp_path / "index").glob("*.usearch")
    return file


def test_a_whole_snapshot_is_found_and_only_one_is_kept(snapshots: Snapshots, tmp_path: Path) -> None:
    later = replace(SEAL, seq=20, count=4)
    assert snapshots.save(later, GRAPH[::-1])
    found = snapshots.find(replace(SEAL, seq=25, count=0))
    assert found is not None
    path, seal = found
    assert path == data_file(tmp_path)
    assert path.read_bytes() == GRAPH[::-1]
    assert seal == later
    assert snapshots.find(replace(SEAL, tenant="b2")) is None


def test_any_flipped_byte_anywhere_is_noticed(snapshots: Snapshots, tmp_path: Path) -> None:
    chance = random.Random(2)
    for name in (data_file(tmp_path).name, "a1.json"):
        whole = {file.name: file.read_bytes() for file in (tmp_path / "index").iterdir()}
        size = len(whole[name])
        for at in [0, size - 1, *(chance.randrange(size) for _ in range(60))]:
            broken = bytearray(whole[name])
            broken[at] ^= 1 << chance.randrange(8)
            for file, content in whole.items():
                (tmp_path / "index" / file).write_bytes(bytes(broken) if file == name else content)
            found = snapshots.find(SEAL)
            if found is not None:
                # Only white space between the seal's fields can change without changing what it says.
                assert json.loads(bytes(broken)) == json.loads(whole[name])
                assert found[0].read_bytes() == GRAPH
        for file, content in whole.items():
            (tmp_path / "index" / file).write_bytes(content)


@pytest.mark.parametrize("length", [0, 1, 2500, 4999])
def test_a_truncated_snapshot_is_noticed_and_removed(
    snapshots: Snapshots, tmp_path: Path, length: int
) -> None:
    data_file(tmp_path).write_bytes(GRAPH[:length])
    assert snapshots.find(SEAL) is None
    assert [file.name for file in (tmp_path / "index").iterdir()] == [".lock"]


@pytest.mark.parametrize("seal", ["", "{", "[]", "null", "{}", '{"seal": "x", "format": 1}', "[" * 100_000])
def test_a_broken_seal_is_no_error(snapshots: Snapshots, tmp_path: Path, seal: str) -> None:
    (tmp_path / "index" / "a1.json").write_text(seal)
    assert snapshots.find(SEAL) is None


@pytest.mark.parametrize(
    "wanted",
    [
        replace(SEAL, version="v2"),
        replace(SEAL, dimensions=16),
        replace(SEAL, database_id="another"),
        replace(SEAL, seq=9),
    ],
)
def test_a_snapshot_of_something_else_is_not_used(snapshots: Snapshots, wanted: Seal) -> None:
    assert snapshots.find(wanted) is None


def test_one_tenant_s_files_under_another_s_name_are_not_used(snapshots: Snapshots, tmp_path: Path) -> None:
    (tmp_path / "index" / "b2.json").write_bytes((tmp_path / "index" / "a1.json").read_bytes())
    assert snapshots.find(replace(SEAL, tenant="b2")) is None
    assert snapshots.find(SEAL) is not None


def test_an_older_snapshot_never_replaces_a_fresher_one(snapshots: Snapshots, tmp_path: Path) -> None:
    assert snapshots.save(replace(SEAL, seq=9), b"older")
    assert data_file(tmp_path).read_bytes() == GRAPH
    assert snapshots.save(replace(SEAL, seq=9, database_id="another"), b"another's")
    assert data_file(tmp_path).read_bytes() == b"another's"


def test_while_another_process_saves_this_one_leaves_it_to_it(snapshots: Snapshots, tmp_path: Path) -> None:
    with (tmp_path / "index" / ".lock").open("ab") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert snapshots.save(replace(SEAL, seq=20), b"mine") is False
    assert snapshots.save(replace(SEAL, seq=20), b"mine") is True


def test_a_failed_save_leaves_the_snapshot_that_was_there(snapshots: Snapshots, tmp_path: Path) -> None:
    (tmp_path / "index" / "a1.json.new").mkdir()
    with pytest.raises(IsADirectoryError):
        snapshots.save(replace(SEAL, seq=20), b"mine")
    assert data_file(tmp_path).read_bytes() == GRAPH
    assert snapshots.find(SEAL) is not None


def test_removing_leaves_nothing_of_the_tenant_and_all_of_the_others(
    snapshots: Snapshots, tmp_path: Path
) -> None:
    snapshots.save(replace(SEAL, tenant="a12"), GRAPH)
    snapshots.remove("a1")
    assert {file.name.split(".")[0] for file in (tmp_path / "index").iterdir()} == {"", "a12"}
    Snapshots(tmp_path / "nowhere").remove("a1")


@pytest.mark.parametrize("tenant", ["", "../a1", "A1", "a1.json", "a/b", "Default", "a" * 65])
def test_a_tenant_can_never_name_a_file_elsewhere(snapshots: Snapshots, tenant: str) -> None:
    with pytest.raises(ValueError, match="neither lower-case hexadecimal nor 'default'"):
        snapshots.save(replace(SEAL, tenant=tenant), GRAPH)
