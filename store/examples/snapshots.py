"""Snapshots of indexes, which shorten the start. One is used only if its seal is whole. Knows no graph and no tenant's data.

usearch crashes the process on a damaged file, and silently takes over the dimensions of a foreign one, so nothing is
handed to it before length and SHA-256 are checked. A snapshot is two files: the bytes under a name used once, and
`<tenant>.json`, replaced last, which names them and says what they are.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import secrets
from collections.abc import Iterator
from pathlib import Path

import structlog

from store.examples.seals import Seal, checked_tenant, sealed, unsealed
from store.people.secret import sync_folder

log = structlog.get_logger(__name__)


class Snapshots:
    """The folder of snapshots; several processes may share it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def save(self, seal: Seal, graph: bytes | bytearray) -> bool:
        """Write one tenant's snapshot, durably and all or nothing. False if another process is saving just now.

        One that is there and just as fresh, from another process with the same database, is left as it is.

        Raises OSError, for instance when the disk is full; what was there before then stays.
        """
        name = checked_tenant(seal.tenant)
        self._folder.mkdir(parents=True, exist_ok=True)
        with self._only_one(wait=False) as mine:
            if not mine:
                return False
            if self._is_there(seal):
                return True
            file_name = f"{name}.{seal.seq}-{secrets.token_hex(4)}.usearch"
            try:
                size_bytes = _write(self._folder / file_name, graph)
                named = {
                    "file": file_name,
                    "size_bytes": size_bytes,
                    "sha256": hashlib.sha256(graph).hexdigest(),
                }
                temporary = self._folder / f"{name}.json.new"
                _write(temporary, json.dumps(sealed(seal, named), indent=1).encode())
                temporary.replace(self._folder / f"{name}.json")
            except BaseException:
                (self._folder / file_name).unlink(missing_ok=True)
                raise
            sync_folder(self._folder)
            self._remove_files(name, keep=file_name)
            return True

    def find(self, wanted: Seal) -> tuple[Path, Seal] | None:
        """The tenant's snapshot if it is whole and of what is wanted; None, with a line in the log, if it is not.

        `wanted.seq` is the last place in the database's log: a snapshot from beyond it is of another history.
        """
        name = checked_tenant(wanted.tenant)
        if not (self._folder / f"{name}.json").exists():
            return None
        with self._only_one(wait=True, shared=True):
            problem, path, seal = self._examine(wanted)
        if problem:
            log.warning("index_snapshot_removed", tenant=name, problem=problem)
            self.remove(name)
            return None
        assert path is not None and seal is not None
        return path, seal

    def tenants(self) -> list[str]:
        """Of whom there is a snapshot."""
        return sorted(path.stem for path in self._folder.glob("*.json"))

    def remove(self, tenant: str) -> None:
        """Delete a tenant's snapshot."""
        if self._folder.exists():
            with self._only_one(wait=True):
                (self._folder / f"{checked_tenant(tenant)}.json").unlink(missing_ok=True)
                self._remove_files(checked_tenant(tenant), keep=None)

    def _examine(self, wanted: Seal) -> tuple[str, Path | None, Seal | None]:
        known = self._sealed(wanted.tenant)
        if known is None:
            return "its seal is damaged", None, None
        seal, written = known
        if field := seal.differs(wanted):
            problem = f"it is of {field} {getattr(seal, field)!r}, not {getattr(wanted, field)!r}"
            return problem, None, None
        if seal.seq > wanted.seq:
            return f"it reaches to {seal.seq}, but the log ends at {wanted.seq}", None, None
        path = self._folder / str(written["file"])
        try:
            if path.stat().st_size != written["size_bytes"]:
                return "its length is wrong", None, None
            with path.open("rb") as file:
                digest = hashlib.file_digest(file, "sha256").hexdigest()
        except OSError as error:
            return str(error), None, None
        if digest != written["sha256"]:
            return "its checksum is wrong", None, None
        return "", path, seal

    def _is_there(self, seal: Seal) -> bool:
        known = self._sealed(seal.tenant)
        if known is None or not (self._folder / str(known[1]["file"])).exists():
            return False
        return known[0].fits(seal) and known[0].seq >= seal.seq

    def _sealed(self, tenant: str) -> tuple[Seal, dict[str, object]] | None:
        try:
            return unsealed((self._folder / f"{tenant}.json").read_bytes())
        except OSError:
            return None

    @contextlib.contextmanager
    def _only_one(self, *, wait: bool, shared: bool = False) -> Iterator[bool]:
        with (self._folder / ".lock").open("ab") as lock:
            how = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
            try:
                fcntl.flock(lock, how if wait else how | fcntl.LOCK_NB)
            except BlockingIOError:
                yield False
            else:
                yield True

    def _remove_files(self, name: str, keep: str | None) -> None:
        for path in self._folder.glob(f"{name}.*.usearch"):
            if path.name != keep:
                path.unlink(missing_ok=True)


def _write(path: Path, content: bytes | bytearray) -> int:
    with path.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
        return file.tell()
