"""Versions of what was learnt: written whole or not at all, checksummed, taken into use by a row, rolled back by another.

The file is on disk before its row is, so a kill between the two leaves a file that no row names, which `sweep` removes, and
never a version without its bytes. Where replicas have a folder each, `store.blobs` holds every file, and a folder those that
were read. What the bytes mean is not known here.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any, Literal

import orjson

from store.blobs import Blobs
from store.database import Connection, Database
from store.generation import Generation
from store.people.secret import sync_folder
from store.records import ArtifactRecord

KINDS = ("scorer", "bandit", "counts", "student")
_GENERATION = "artifacts"
_UNFINISHED = ".unfinished-"
_PREFIX = "artifacts/"
_DELETIONS_KEPT_S = 400 * 86_400.0
"""Of a file's name where all replicas have it."""
_LEARNT_FROM = (
    "WITH named AS (SELECT value FROM json_each(?2))"
    " SELECT 1 FROM choices WHERE tenant = ?1 AND contributor IN (SELECT value FROM named)"
    " UNION ALL SELECT 1 FROM task_answers WHERE tenant = ?1 AND contributor IN (SELECT value FROM named) LIMIT 1"
)
_ORPHAN_AGE_S = 3600.0
"""A file that young may belong to a version whose row is being written."""


Check = Callable[[ArtifactRecord | None], None]
"""Gets the version in use, None for none, inside the transaction that takes another; what it raises stops that."""


class ArtifactBroken(Exception):
    """A version's file is gone, or is not what was written; what it was for goes on without it."""


class Artifacts:
    """Everything published under one folder. Reading is cheap; what writes blocks, and is for learners and commands."""

    def __init__(
        self,
        db: Database,
        folder: Path,
        *,
        keep: int = 10,
        timeout_s: float = 60.0,
        blobs: Blobs | None = None,
    ) -> None:
        """`keep`: how many versions out of use are kept of each kind, tenant and model, for rolling back to.

        `blobs`: what holds every file, where other replicas do not see this folder.
        """
        self._db = db
        self._folder = folder
        self._blobs = blobs
        self._keep = keep
        self._timeout_s = timeout_s
        self._generation = Generation(db, _GENERATION)

    # ---- for workers

    def generation(self) -> int:
        """A number that differs whenever any version was published, rolled back or removed. Microseconds."""
        row: tuple[int] = (
            self._db.read().execute("SELECT value FROM generations WHERE name = ?", (_GENERATION,)).fetchone()
        )
        return row[0]

    def active(self, kind: str, tenant: str, model: str) -> ArtifactRecord | None:
        """The version in use for exactly this tenant and served model, or None."""
        rows = of_slot(self._db.read(), kind, tenant, model, " AND state = 'active'")
        return rows[0] if rows else None

    def best(self, kind: str, tenant: str, model: str) -> ArtifactRecord | None:
        """What this tenant should use: its own, else the operator's for the model, else the operator's for any; or None."""
        for whose, which in dict.fromkeys(((tenant, model), ("", model), ("", ""))):
            found = self.active(kind, whose, which)
            if found is not None:
                return found
        return None

    def read(self, record: ArtifactRecord) -> bytes:
        """The bytes that were published. Raises ArtifactBroken when they are not there whole and unchanged.

        What this folder lacks is fetched from where all replicas have it. Raises what reading raises.
        """
        try:
            data, problem = self.path(record).read_bytes(), "is damaged: its checksum differs"
        except OSError as error:
            data, problem = None, f"cannot be read: {error.strerror}"
        if data is not None and hashlib.sha256(data).hexdigest() == record.sha256:
            return data
        fetched = self._fetched(record)
        if fetched is None:
            raise ArtifactBroken(f"{record.kind} version {record.id} {problem}")
        return fetched

    def path(self, record: ArtifactRecord) -> Path:
        """Where a version's bytes lie, once they were read. Two versions of a slot that are the same share one file."""
        return self._folder / _file_name(record.kind, record.tenant, record.model, record.sha256)

    # ---- for learners and commands

    def publish(
        self,
        kind: str,
        tenant: str,
        model: str,
        data: bytes,
        *,
        metrics: Mapping[str, Any],
        parent: int | None = None,
        note: str = "",
        state: Literal["active", "retired", "rejected"] = "active",
    ) -> ArtifactRecord:
        """Keep a version; an "active" one takes the place of the one in use, unless that is frozen.

        Gives the record as it was stored: "retired", not "active", where the slot is frozen. Versions out of use beyond
        the number to keep are deleted. Raises ValueError for an unknown kind or metrics that are no JSON, OSError, and
        what writing raises, TimeoutError among it.
        """
        if kind not in KINDS:
            raise ValueError(f"an artifact of kind {kind!r}: one of {', '.join(KINDS)} is right")
        digest = hashlib.sha256(data).hexdigest()
        try:
            encoded = orjson.dumps(dict(metrics), option=orjson.OPT_SERIALIZE_NUMPY).decode()
        except TypeError as error:
            raise ValueError(f"metrics that are no JSON: {error}") from error
        created_at_s = time.time()
        self._keep_file(_file_name(kind, tenant, model, digest), data)

        def insert(connection: Connection) -> tuple[ArtifactRecord, set[str]]:
            self._db.hold(connection, _GENERATION)
            kept_as = state
            if state == "active" and _is_frozen(connection, kind, tenant, model):
                kept_as = "retired"
            if kept_as == "active":
                _retire_active(connection, kind, tenant, model)
            id = connection.execute(
                "INSERT INTO artifacts (kind, tenant, model, created_at_s, sha256, size_bytes, parent, metrics, note,"
                " state, served) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) RETURNING id",
                (
                    kind,
                    tenant,
                    model,
                    created_at_s,
                    digest,
                    len(data),
                    parent,
                    encoded,
                    note,
                    kept_as,
                    kept_as == "active",
                ),
            ).fetchone()[0]
            unused = prune(connection, kind, tenant, model, self._keep)
            self._generation.bump(connection)
            row = connection.execute(SELECT + " WHERE id = ?", (id,)).fetchone()
            return as_record(row), {_file_name(kind, tenant, model, sha256) for sha256 in unused}

        record, unused = self._db.write(insert).result(self._timeout_s)
        self._remove_files(unused)
        return record

    def get(self, id: int) -> ArtifactRecord | None:
        """The version with this id, or None."""
        row = self._db.read().execute(SELECT + " WHERE id = ?", (id,)).fetchone()
        return as_record(row) if row is not None else None

    def versions(
        self, kind: str | None = None, tenant: str | None = None, model: str | None = None
    ) -> list[ArtifactRecord]:
        """Every version there is, newest first; of one kind, tenant or model if named."""
        rows = self._db.read().execute(
            SELECT + " WHERE (:kind IS NULL OR kind = :kind) AND (:tenant IS NULL OR tenant = :tenant)"
            " AND (:model IS NULL OR model = :model) ORDER BY id DESC",
            {"kind": kind, "tenant": tenant, "model": model},
        )
        return [as_record(row) for row in rows.fetchall()]

    def rollback(
        self, kind: str, tenant: str, model: str, *, check: Check = lambda in_use: None
    ) -> ArtifactRecord | None:
        """Go back to the version that served before the one in use. None: there was none before, so the built-in
        prior or rule serves, or the operator's own version where there is one. Raises what `check` raises.

        A learner may publish again at its next turn: freeze the slot to keep it from that.
        """

        def step_back(connection: Connection) -> ArtifactRecord | None:
            current = self._in_use(connection, kind, tenant, model, check)
            if not current:
                return None
            _retire_active(connection, kind, tenant, model)
            self._generation.bump(connection)
            earlier = of_slot(connection, kind, tenant, model, " AND served = 1 AND id < ?", current[0].id)
            return _activate(connection, earlier[0].id) if earlier else None

        return self._db.write(step_back).result(self._timeout_s)

    def activate(self, id: int, *, check: Check = lambda in_use: None) -> ArtifactRecord | None:
        """Take a version into use, whatever its state, frozen or not: a person asked for it. None if there is none.

        Raises what `check` raises.
        """

        def take(connection: Connection) -> ArtifactRecord | None:
            self._db.hold(connection, _GENERATION)
            row = connection.execute(SELECT + " WHERE id = ?", (id,)).fetchone()
            if row is None:
                return None
            record = as_record(row)
            self._in_use(connection, record.kind, record.tenant, record.model, check)
            _retire_active(connection, record.kind, record.tenant, record.model)
            self._generation.bump(connection)
            return _activate(connection, id)

        return self._db.write(take).result(self._timeout_s)

    def retire(
        self, kind: str, tenant: str, model: str, *, check: Check = lambda in_use: None
    ) -> ArtifactRecord | None:
        """Take the version in use out of use, frozen or not, so that what is built in serves; gives it, None if none was.

        Raises what `check` raises.
        """

        def take(connection: Connection) -> ArtifactRecord | None:
            found = self._in_use(connection, kind, tenant, model, check)
            if not found:
                return None
            _retire_active(connection, kind, tenant, model)
            self._generation.bump(connection)
            return found[0]

        return self._db.write(take).result(self._timeout_s)

    def _in_use(
        self, connection: Connection, kind: str, tenant: str, model: str, check: Check
    ) -> list[ArtifactRecord]:
        """The version in use, if any, checked; nobody takes another into use before this job's commit."""
        self._db.hold(connection, _GENERATION)
        found = of_slot(connection, kind, tenant, model, " AND state = 'active'")
        check(found[0] if found else None)
        return found

    def freeze(self, kind: str, tenant: str, model: str) -> None:
        """Keep what is in use, the built-in among it: versions published from now on are kept and not used."""
        now_s = time.time()

        def insert(connection: Connection) -> None:
            connection.execute(
                "INSERT INTO frozen_artifacts (kind, tenant, model, frozen_at_s) VALUES (?, ?, ?, ?)"
                " ON CONFLICT DO NOTHING",
                (kind, tenant, model, now_s),
            )

        self._db.write(insert).result(self._timeout_s)

    def unfreeze(self, kind: str, tenant: str, model: str) -> bool:
        """Let the next version published be used; False if the slot was not frozen."""
        return self._db.write(
            lambda connection: (
                connection.execute(
                    "DELETE FROM frozen_artifacts WHERE kind = ? AND tenant = ? AND model = ?",
                    (kind, tenant, model),
                ).rowcount
                > 0
            )
        ).result(self._timeout_s)

    def frozen(self) -> dict[tuple[str, str, str], float]:
        """The frozen (kind, tenant, model), and since when (Unix seconds)."""
        rows = self._db.read().execute("SELECT kind, tenant, model, frozen_at_s FROM frozen_artifacts")
        return {(kind, tenant, model): at_s for kind, tenant, model, at_s in rows.fetchall()}

    # ---- away

    def forget_tenant(self, tenant: str) -> int:
        """Delete all that was learnt from a tenant, rows and files; gives how many versions.

        Raises ValueError for the empty tenant: what the operator brought is nobody's to forget.
        """
        deleted = self.forget_rows(tenant).result(self._timeout_s)
        self.forget_files(tenant)
        return deleted

    def forget_rows(self, tenant: str, contributors: Sequence[str] | None = None) -> Future[int]:
        """Delete all versions that were learnt from a tenant; gives how many.

        `contributors`: only where there is a choice or a labelled answer of one of them, which somebody may have learnt
        from. `forget_files` is to follow. Raises ValueError for the empty tenant.
        """
        if not tenant:
            raise ValueError("the empty tenant's versions are the operator's: delete them by name")
        named = None if contributors is None else json.dumps(list(contributors))

        def delete(connection: Connection) -> int:
            if named is not None and not connection.execute(_LEARNT_FROM, (tenant, named)).fetchone():
                return 0
            connection.execute("DELETE FROM frozen_artifacts WHERE tenant = ?", (tenant,))
            self._generation.bump(connection)
            deleted = connection.execute("DELETE FROM artifacts WHERE tenant = ?", (tenant,)).rowcount
            if deleted:
                now_s = time.time()
                connection.execute(
                    "INSERT INTO deleted_versions (at_s, versions) VALUES (?, ?)", (now_s, deleted)
                )
                connection.execute(
                    "DELETE FROM deleted_versions WHERE at_s < ?", (now_s - _DELETIONS_KEPT_S,)
                )
            return deleted

        return self._db.write(delete)

    def forget_files(self, tenant: str) -> None:
        """Delete the files of all versions that were learnt from a tenant."""
        # By name rather than by row: a file that a kill left without one goes, too.
        names = {file.name for file in self._folder.glob(f"*-{_short(tenant)}-*-*")}
        for kind in KINDS if self._blobs is not None else ():
            names |= set(self._shared(f"{kind}-{_short(tenant)}-"))
        self._remove_files(names)

    def latest_deletion(self) -> tuple[float, int] | None:
        """When versions were last deleted with a tenant (Unix seconds), and how many; None: never within 400 days."""
        row = (
            self._db.read()
            .execute("SELECT at_s, versions FROM deleted_versions ORDER BY at_s DESC LIMIT 1")
            .fetchone()
        )
        return None if row is None else (float(row[0]), int(row[1]))

    def sweep(self, older_than_s: float = _ORPHAN_AGE_S) -> int:
        """Remove files that no row names and that were not written within `older_than_s` seconds; gives how many."""
        before_s = time.time() - older_than_s
        # Files first, rows second: a file whose row comes in between is then known.
        old = [file.name for file in self._files() if _written_at_s(file) <= before_s]
        old += [name for name, at_s in self._shared("").items() if at_s <= before_s]
        named = {_file_name(*row) for row in files_of(self._db.read())}
        orphans = set(old) - named
        self._remove_files(orphans)
        return len(orphans)

    # ---- where replicas have a folder each

    def share(self) -> int:
        """Give all replicas what only this folder has, as after a move from SQLite; gives how many files.

        Raises ArtifactBroken for one that is not what was written, and what writing raises.
        """
        assert self._blobs is not None, "with SQLite the folder is all there is"
        there = self._shared("")
        wanted = {self.path(record).name: record for record in self.versions()}
        missing = {name: record for name, record in wanted.items() if name not in there}
        for name, record in missing.items():
            self._blobs.put(_PREFIX + name, self.read(record))
        return len(missing)

    def fetch(self) -> int:
        """Bring every version's bytes into this folder, as before a move to SQLite; gives how many files there are.

        Raises ArtifactBroken, and what reading raises.
        """
        wanted = {self.path(record).name: record for record in self.versions()}
        for record in wanted.values():
            self.read(record)
        return len(wanted)

    def _fetched(self, record: ArtifactRecord) -> bytes | None:
        if self._blobs is None:
            return None
        name = self.path(record).name
        data = self._blobs.get(_PREFIX + name)
        if data is None or hashlib.sha256(data).hexdigest() != record.sha256:
            return None
        self._write_file(name, data)
        return data

    def _shared(self, beginning: str) -> dict[str, float]:
        """Names of files that all replicas have, and when each was written (Unix seconds)."""
        if self._blobs is None:
            return {}
        found = self._blobs.names(_PREFIX + beginning)
        return {name.removeprefix(_PREFIX): at_s for name, at_s in found.items()}

    def _keep_file(self, name: str, data: bytes) -> None:
        self._write_file(name, data)
        if self._blobs is not None:
            self._blobs.put(_PREFIX + name, data)

    def _files(self) -> list[Path]:
        return [file for file in self._folder.iterdir() if file.is_file()] if self._folder.is_dir() else []

    def _remove_files(self, names: set[str]) -> None:
        for name in names:
            with contextlib.suppress(FileNotFoundError):
                (self._folder / name).unlink()
        if self._blobs is not None:
            self._blobs.remove(_PREFIX + name for name in names)

    def _write_file(self, name: str, data: bytes) -> None:
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        descriptor, temporary = tempfile.mkstemp(prefix=_UNFINISHED, dir=self._folder)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            Path(temporary).replace(self._folder / name)
        except BaseException:
            Path(temporary).unlink(missing_ok=True)
            raise
        sync_folder(self._folder)


def _file_name(kind: str, tenant: str, model: str, sha256: str) -> str:
    """The tenant's part comes first, so that all of a tenant's files are found; the operator's has none."""
    return f"{kind}-{_short(tenant)}-{_short(model)}-{sha256}"


def _short(name: str) -> str:
    return hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:16] if name else "any"


def _written_at_s(file: Path) -> float:
    try:
        return file.stat().st_mtime
    except FileNotFoundError:
        return float("inf")


def _is_frozen(connection: Connection, kind: str, tenant: str, model: str) -> bool:
    row = connection.execute(
        "SELECT 1 FROM frozen_artifacts WHERE kind = ? AND tenant = ? AND model = ?", (kind, tenant, model)
    ).fetchone()
    return row is not None


def _retire_active(connection: Connection, kind: str, tenant: str, model: str) -> None:
    connection.execute(
        "UPDATE artifacts SET state = 'retired' WHERE kind = ? AND tenant = ? AND model = ? AND state = 'active'",
        (kind, tenant, model),
    )


def _activate(connection: Connection, id: int) -> ArtifactRecord:
    connection.execute("UPDATE artifacts SET state = 'active', served = 1 WHERE id = ?", (id,))
    return as_record(connection.execute(SELECT + " WHERE id = ?", (id,)).fetchone())


SELECT = "SELECT id, kind, tenant, model, created_at_s, sha256, size_bytes, parent, metrics, note, state FROM artifacts"


def as_record(row: tuple[Any, ...]) -> ArtifactRecord:
    """A row of SELECT as a value."""
    values = list(row)
    values[8] = orjson.loads(values[8])
    return ArtifactRecord(*values)


def of_slot(
    connection: Connection, kind: str, tenant: str, model: str, condition: str = "", *values: object
) -> list[ArtifactRecord]:
    """The versions of one kind for one tenant and served model, newest first."""
    rows = connection.execute(
        SELECT + " WHERE kind = ? AND tenant = ? AND model = ?" + condition + " ORDER BY id DESC",
        (kind, tenant, model, *values),
    )
    return [as_record(row) for row in rows.fetchall()]


def files_of(connection: Connection) -> list[tuple[str, str, str, str]]:
    """(kind, tenant, model, sha256) of every version: what a file's name is made of."""
    return connection.execute("SELECT kind, tenant, model, sha256 FROM artifacts").fetchall()


def prune(connection: Connection, kind: str, tenant: str, model: str, keep: int) -> set[str]:
    """Drop the oldest versions out of use; gives the checksums that no version of the slot has any more.

    `keep` are kept of those that were in use once and as many of those that never were, so that a run of rejected
    ones cannot push out what a rollback needs.
    """
    before = {record.sha256 for record in of_slot(connection, kind, tenant, model)}
    for served in (0, 1):
        connection.execute(
            "DELETE FROM artifacts WHERE id IN (SELECT id FROM artifacts WHERE kind = ? AND tenant = ? AND model = ?"
            " AND state <> 'active' AND served = ? ORDER BY id DESC LIMIT 1000000000 OFFSET ?)",
            (kind, tenant, model, served, keep),
        )
    return before - {record.sha256 for record in of_slot(connection, kind, tenant, model)}
