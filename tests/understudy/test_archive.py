"""A backup restores to what was there, from a folder in use; a damaged, newer or hostile one restores nothing."""

from __future__ import annotations

import io
import json
import tarfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

from store import Store
from store.records import ExactAnswer
from understudy.archive import BadArchive, back_up, check, restore
from understudy.commands.backup import backup as backup_command
from understudy.commands.backup import restore as restore_command


def kept(number: int) -> tuple[bytes, ExactAnswer]:
    answer = ExactAnswer(b"{}" * 500, "application/json", "e", time.time(), False, 3600.0)
    return number.to_bytes(32, "big"), answer


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A data folder with a key, an answer, and a file of what was learnt."""
    data = tmp_path / "data"
    store = Store.open(data)
    store.keys.create("acme", "web")
    key, answer = kept(1)
    store.answers.exact.put(key, "t", answer).result(30)
    store.close()
    (data / "artifacts").mkdir(exist_ok=True)
    (data / "artifacts" / "scorer-1.bin").write_bytes(b"learnt")
    return data


def test_a_backup_restores_elsewhere_while_the_source_is_written_to(folder: Path, tmp_path: Path) -> None:
    store = Store.open(folder)
    stopping, written = threading.Event(), [1]

    def write() -> None:
        while not stopping.is_set():
            key, answer = kept(written[0] + 1)
            store.answers.exact.put(key, "t", answer).result(30)
            written[0] += 1

    writer = threading.Thread(target=write)
    writer.start()
    try:
        while written[0] < 20:
            time.sleep(0.01)
        before = written[0]
        manifest = back_up(folder, tmp_path / "backup.tar.gz")
        after = written[0]
    finally:
        stopping.set()
        writer.join()
        store.close()
    assert {member.name for member in manifest.files} == {"understudy.db", "secret", "artifacts/scorer-1.bin"}
    assert (tmp_path / "backup.tar.gz").stat().st_mode & 0o777 == 0o600
    assert check(tmp_path / "backup.tar.gz", tmp_path) == manifest
    restore(tmp_path / "backup.tar.gz", tmp_path / "elsewhere")
    with_copy = Store.open(tmp_path / "elsewhere")
    try:
        assert [key.tenant_name for key in with_copy.keys.list()] == ["acme"]
        assert before <= with_copy.answers.exact.count("t") <= after + 1
        assert with_copy.secret == (folder / "secret").read_bytes()
    finally:
        with_copy.close()
    assert (tmp_path / "elsewhere" / "artifacts" / "scorer-1.bin").read_bytes() == b"learnt"
    assert not [path.name for path in tmp_path.iterdir() if path.name.startswith(".")], "nothing is left over"


def test_the_commands_say_what_they_did_and_replace_nothing(folder: Path, tmp_path: Path) -> None:
    def run(command: click.Command, *arguments: str) -> tuple[int, str]:
        done = CliRunner().invoke(command, arguments)
        return done.exit_code, done.output

    archive = str(tmp_path / "backup.tar")
    assert run(backup_command, "--data", str(folder), archive)[0] == 0
    status, said = run(backup_command, "--data", str(folder), archive)
    assert status == 2 and "already" in said
    status, said = run(restore_command, archive)
    assert status == 0 and "3 files" in said
    status, said = run(restore_command, archive, "--data", str(folder))
    assert status == 2 and "not empty" in said
    assert run(restore_command, archive, "--data", str(tmp_path / "there"))[0] == 0
    assert Store.is_in(tmp_path / "there")


def rewritten(archive: Path, change: Callable[[dict[str, bytes], dict[str, Any]], None]) -> None:
    """The archive with other members or another manifest."""
    with tarfile.open(archive) as tar:
        members = {entry.name: tar.extractfile(entry).read() for entry in tar}  # type: ignore[union-attr]
    manifest = json.loads(members.pop("manifest.json"))
    change(members, manifest)
    with tarfile.open(archive, "w") as tar:
        for name, content in {"manifest.json": json.dumps(manifest).encode(), **members}.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            tar.addfile(entry, io.BytesIO(content))


def entry_of(name: str) -> dict[str, Any]:
    return {
        "name": name,
        "size_bytes": 1,
        "sha256": "2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881",
    }


HOSTILE = {
    "a path out of the folder": lambda m, j: (m.update({"../x": b"x"}), j["files"].append(entry_of("../x"))),
    "an absolute path": lambda m, j: (m.update({"/tmp/x": b"x"}), j["files"].append(entry_of("/tmp/x"))),
    "a path below": lambda m, j: j["files"].append(entry_of("artifacts/../../x")),
    "a file nobody has": lambda m, j: (m.update({"index/a": b"x"}), j["files"].append(entry_of("index/a"))),
    "a file that is not listed": lambda m, j: m.update({"artifacts/more": b"x"}),
    "a listed file that is missing": lambda m, j: m.pop("secret"),
    "other bytes": lambda m, j: m.update({"artifacts/scorer-1.bin": b"LEARNT"}),
    "another size": lambda m, j: m.update({"artifacts/scorer-1.bin": b"learnt more"}),
    "a later format": lambda m, j: j.update({"format": 9}),
    "a later schema": lambda m, j: j.update({"schema": 9999}),
    "an earlier schema": lambda m, j: j.update({"schema": 1}),
    "no list": lambda m, j: j.update({"files": 7}),
    "more than the disk holds": lambda m, j: j["files"][0].update({"size_bytes": 10**18}),
    "a file twice": lambda m, j: j["files"].append(j["files"][0]),
}


@pytest.mark.parametrize("what", HOSTILE)
def test_what_is_not_as_it_was_written_restores_nothing(what: str, folder: Path, tmp_path: Path) -> None:
    archive = tmp_path / "backup.tar"
    back_up(folder, archive)
    rewritten(archive, HOSTILE[what])
    with pytest.raises(BadArchive):
        restore(archive, tmp_path / "new" / "data")
    assert not list((tmp_path / "new").iterdir())


@pytest.mark.parametrize("suffix", [".tar", ".tgz"])
def test_a_torn_archive_restores_nothing(suffix: str, folder: Path, tmp_path: Path) -> None:
    archive = tmp_path / f"backup{suffix}"
    back_up(folder, archive)
    whole = archive.read_bytes()
    for length in (0, 100, 600, len(whole) // 2, len(whole) - 11_000):
        archive.write_bytes(whole[:length])
        with pytest.raises(BadArchive):
            restore(archive, tmp_path / "new" / "data")
        assert not list((tmp_path / "new").iterdir())


def test_a_link_in_an_archive_is_refused(folder: Path, tmp_path: Path) -> None:
    archive = tmp_path / "backup.tar"
    back_up(folder, archive)
    with tarfile.open(archive) as tar:
        manifest = tar.extractfile("manifest.json").read()  # type: ignore[union-attr]
    with tarfile.open(archive, "w") as tar:
        first = tarfile.TarInfo("manifest.json")
        first.size = len(manifest)
        tar.addfile(first, io.BytesIO(manifest))
        link = tarfile.TarInfo("understudy.db")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        tar.addfile(link)
    with pytest.raises(BadArchive):
        restore(archive, tmp_path / "new" / "data")
