"""A backup as one file: a tar archive whose first member, `manifest.json`, lists the others with their checksums.

Reading one trusts nothing: each member must be listed, of a name that a data folder has, a plain file of the size and the
checksum told. Everything is put into a new folder first, which takes its place only when all of it is right.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
import shutil
import tarfile
import tempfile
import time
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import IO, Any

from store.backup import DATABASE, SECRET, SECRET_BYTES, checked_copy, copied, is_ours, refuse_other
from store.errors import StoreError

FORMAT = 2
_FORMER = 1
"""The format that lists migrations by name: the last one's number is the schema's."""
_MANIFEST = "manifest.json"
_MANIFEST_BYTES = 16 * 2**20
_CHUNK_BYTES = 2**20
_SHA256 = re.compile(r"[0-9a-f]{64}")


class BadArchive(Exception):
    """An archive that cannot be restored. The text says why, and what to do about it where there is something."""


@dataclass(frozen=True, slots=True)
class Member:
    """One file of a backup."""

    name: str
    size_bytes: int
    sha256: str


@dataclass(frozen=True, slots=True)
class Manifest:
    """What a backup says of itself."""

    release: str
    created_at: str
    """In UTC, by ISO 8601."""
    schema: int
    """The number of the database's schema."""
    files: tuple[Member, ...]
    format: int = FORMAT

    @property
    def size_bytes(self) -> int:
        """Of all files."""
        return sum(member.size_bytes for member in self.files)


# ---- writing


def back_up(data_folder: Path, archive: Path) -> Manifest:
    """Write a backup of a data folder, which may be in use, into a new file that only its owner can read. Blocks.

    The database is copied beside the archive first: that takes its size in room. Names that end in `.gz` or `.tgz` are
    compressed. Raises OSError (FileExistsError among it) and StoreError.
    """
    if archive.exists():
        raise FileExistsError(f"{archive} is there already: choose another name")
    with tempfile.TemporaryDirectory(prefix=f".{archive.name}-", dir=archive.parent) as made:
        database, files = copied(data_folder, Path(made))
        staged = [(name, staged) for name, path in files if (staged := _staged(name, path, Path(made)))]
        members = tuple(_member(name, path) for name, path in staged)
        manifest = Manifest(
            version("understudy-gateway"),
            datetime.now(UTC).isoformat(timespec="seconds"),
            database.schema,
            members,
        )
        whole = Path(made) / "archive"
        with whole.open("xb") as file:
            with tarfile.open(fileobj=file, mode="w:gz" if archive.suffix in (".gz", ".tgz") else "w") as tar:
                _add(tar, _MANIFEST, io.BytesIO(json.dumps(asdict(manifest), indent=1).encode()))
                for name, path in staged:
                    with path.open("rb") as content:
                        _add(tar, name, content)
            file.flush()
            os.fsync(file.fileno())
        whole.chmod(0o600)
        # Unlike a rename, a link never replaces a file that came meanwhile.
        os.link(whole, archive)
    return manifest


def _staged(name: str, path: Path, folder: Path) -> Path | None:
    """A copy that nobody changes; None of a file that has just been removed."""
    if name == DATABASE:
        return path
    target = folder / name
    target.parent.mkdir(exist_ok=True)
    try:
        shutil.copyfile(path, target)
    except FileNotFoundError:
        if name == SECRET:
            raise
        return None
    return target


def _member(name: str, path: Path) -> Member:
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return Member(name, path.stat().st_size, digest)


def _add(tar: tarfile.TarFile, name: str, content: IO[bytes]) -> None:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode, entry.mtime = content.seek(0, os.SEEK_END), 0o600, int(time.time())
    content.seek(0)
    tar.addfile(entry, content)


# ---- reading


def restore(archive: Path, data_folder: Path) -> Manifest:
    """Make a data folder of a backup. Blocks. It must be empty, or not there.

    Raises BadArchive, FileExistsError for a folder with something in it, and other OSErrors: the folder is as before then.
    """
    if data_folder.exists() and (not data_folder.is_dir() or any(data_folder.iterdir())):
        raise FileExistsError(
            f"{data_folder} is not empty: stop its gateway and move it away, or name another folder"
        )
    data_folder.parent.mkdir(parents=True, exist_ok=True)
    with _made_whole(archive, data_folder.absolute().parent) as (folder, manifest):
        if data_folder.exists():
            data_folder.rmdir()
        folder.rename(data_folder)
    return manifest


def check(archive: Path, folder: Path) -> Manifest:
    """Read a backup to its end and give what it says of itself. `folder`: where there is room for it meanwhile.

    Raises BadArchive and OSError.
    """
    with _made_whole(archive, folder) as (_, manifest):
        return manifest


@contextmanager
def _made_whole(archive: Path, beside: Path) -> Iterator[tuple[Path, Manifest]]:
    """A folder with all files of a backup that was found right; gone afterwards, unless it was renamed."""
    folder = Path(tempfile.mkdtemp(prefix=".restoring-", dir=beside))
    try:
        try:
            manifest = _extracted(archive, folder)
            found = checked_copy(folder / DATABASE)
        except (tarfile.TarError, zlib.error, EOFError, ValueError) as error:
            raise BadArchive(f"{archive} is no whole backup: {error or type(error).__name__}") from error
        except StoreError as error:
            raise BadArchive(f"{archive}: {error}") from error
        if found.schema != manifest.schema:
            raise BadArchive(f"{archive}: its manifest tells another schema than its database")
        yield folder, manifest
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _extracted(archive: Path, folder: Path) -> Manifest:
    with tarfile.open(archive, "r|*") as tar:
        first = tar.next()
        if first is None or first.name != _MANIFEST or not first.isreg() or first.size > _MANIFEST_BYTES:
            raise BadArchive(f"{archive} is no backup of a gateway: its first member is not {_MANIFEST}")
        manifest = _manifest(archive, _content(tar, first).read())
        free_bytes = shutil.disk_usage(folder).free
        if manifest.size_bytes > free_bytes:
            raise BadArchive(
                f"{archive} holds {manifest.size_bytes} bytes, and there is room for {free_bytes}"
            )
        left = {member.name: member for member in manifest.files}
        while (entry := tar.next()) is not None:
            member = left.pop(entry.name, None)
            if member is None or not entry.isreg() or entry.size != member.size_bytes:
                raise BadArchive(f"{archive}: {entry.name[:100]!r} is not what the manifest tells of it")
            _write(_content(tar, entry), folder / member.name, member, archive)
    if left:
        raise BadArchive(f"{archive} is torn: {', '.join(sorted(left)[:5])} is missing")
    return manifest


def _content(tar: tarfile.TarFile, entry: tarfile.TarInfo) -> IO[bytes]:
    content = tar.extractfile(entry)
    if content is None:
        raise BadArchive(f"{entry.name[:100]!r} is no plain file")
    return content


def _write(content: IO[bytes], path: Path, member: Member, archive: Path) -> None:
    path.parent.mkdir(mode=0o700, exist_ok=True)
    digest = hashlib.sha256()
    with path.open("xb") as file:
        os.fchmod(file.fileno(), 0o600)
        while chunk := content.read(_CHUNK_BYTES):
            digest.update(chunk)
            file.write(chunk)
        file.flush()
        os.fsync(file.fileno())
    if digest.hexdigest() != member.sha256:
        raise BadArchive(f"{archive}: the checksum of {member.name} is wrong, so it was damaged or changed")


def _manifest(archive: Path, text: bytes) -> Manifest:
    try:
        data: dict[str, Any] = json.loads(text)
        if data["format"] not in (FORMAT, _FORMER):
            raise BadArchive(
                f"{archive} has format {data['format']!r}, and this release reads {FORMAT}: restore it with release"
                f" {str(data.get('release'))[:40]!r}, which wrote it"
            )
        members = tuple(Member(str(m["name"]), int(m["size_bytes"]), str(m["sha256"])) for m in data["files"])
        manifest = Manifest(
            str(data["release"])[:40],
            str(data["created_at"])[:40],
            int(data["schema"] if data["format"] == FORMAT else data["migrations"][-1][:4]),
            members,
        )
    except (ValueError, LookupError, TypeError, RecursionError) as error:
        raise BadArchive(f"{archive}: its manifest cannot be read") from error
    for member in members:
        if not is_ours(member.name) or member.size_bytes < 0 or not _SHA256.fullmatch(member.sha256):
            raise BadArchive(f"{archive}: {member.name[:100]!r} is no file of a data folder")
    sizes = {member.name: member.size_bytes for member in members}
    if len(sizes) < len(members) or DATABASE not in sizes or sizes.get(SECRET) != SECRET_BYTES:
        raise BadArchive(f"{archive}: its manifest names no database with its secret, or a file twice")
    try:
        refuse_other(manifest.schema)
    except StoreError as error:
        raise BadArchive(f"{archive}, which release {manifest.release!r} wrote: {error}") from error
    return manifest
