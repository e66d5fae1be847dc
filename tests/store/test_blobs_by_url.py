from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from store.blobs import Blobs
from store.blobs_by_url import UrlBlobs
from store.errors import StoreFailed
from store.examples.seals import Seal
from store.examples.shared_snapshots import SharedSnapshots

SEAL = Seal("a1", "database", "v1", 8, seq=10, count=3)


@pytest.fixture
def blobs(tmp_path: Path) -> Blobs:
    return UrlBlobs(f"file://{tmp_path}/common")


def test_files_are_kept_found_by_their_beginning_and_removed(blobs: Blobs) -> None:
    assert blobs.get("x/1") is None and blobs.names("x/") == {} and blobs.names("") == {}
    data = os.urandom(3_000_000)
    blobs.put("x/1", data)
    blobs.put("x/1", bytearray(b"short"))
    for name in ("x/20", "y/1"):
        blobs.put(name, name.encode())
    assert blobs.get("x/1") == b"short"
    assert sorted(blobs.names("x/")) == ["x/1", "x/20"] and sorted(blobs.names("x/2")) == ["x/20"]
    assert abs(blobs.names("y/")["y/1"] - time.time()) < 3600
    blobs.remove(["x/1", "missing"])
    assert sorted(blobs.names("")) == ["x/20", "y/1"]


def test_snapshots_lie_there_as_in_the_database(blobs: Blobs) -> None:
    shared = SharedSnapshots(blobs)
    assert shared.publish(SEAL, b"graph") and shared.graph(SEAL) == (SEAL, b"graph")
    shared.remove("a1")
    assert blobs.names("") == {}


def test_a_protocol_that_nobody_knows_is_the_stores_error() -> None:
    with pytest.raises(StoreFailed, match="nobodyknows://x cannot be used"):
        UrlBlobs("nobodyknows://x")


def test_a_place_that_cannot_be_written_is_the_stores_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(StoreFailed, match="cannot be used"):
        UrlBlobs(f"file://{tmp_path}/file").put("x/1", b"")
