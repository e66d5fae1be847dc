from __future__ import annotations

from pathlib import Path

from store.database import Database
from store.learned.artifacts import Artifacts, files_of, of_slot, prune


def test_pruning_names_only_bytes_that_no_version_of_the_slot_has_any_more(
    either: Database, tmp_path: Path
) -> None:
    artifacts = Artifacts(either, tmp_path / "artifacts")
    for data in (b"a", b"b", b"a", b"c", b"d"):
        artifacts.publish("counts", "a1", "m", data, metrics={})
    artifacts.publish("counts", "a1", "other", b"b", metrics={})
    before = {data: sha for sha, data in ((r.sha256, artifacts.read(r)) for r in artifacts.versions())}

    unused = either.write(lambda connection: prune(connection, "counts", "a1", "m", 2)).result(30)

    assert unused == {before[b"b"]}
    assert [artifacts.read(r) for r in of_slot(either.read(), "counts", "a1", "m")] == [b"d", b"c", b"a"]
    assert ("counts", "a1", "other", before[b"b"]) in files_of(either.read())
