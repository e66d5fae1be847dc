"""Tenants' own workflows, and collections of texts with their vectors: what outlives the runs that use it.

A definition is bytes, which only its caller understands; a vector is too.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass

from store.database import Connection, Database
from store.workflows.beginning import total_bytes
from store.workflows.records import Limits
from store.workflows.values import as_bytes, as_value, hold_room

NO_LIMITS = Limits()
_WORKFLOW = "SELECT w.tenant, w.name, w.version, w.number, w.definition, w.contributor, w.created_at_s FROM workflows w"
_LATEST = "w.number = (SELECT max(l.number) FROM workflows l WHERE l.tenant = w.tenant AND l.name = w.name)"
_OF_COLLECTION = "FROM collection_texts WHERE tenant = :tenant AND collection = :collection"
_PLACE = f"SELECT (SELECT min(seq) {_OF_COLLECTION}), (SELECT max(seq) {_OF_COLLECTION})"
_COLUMNS = "tenant, collection, contributor, digest, created_at_s, size_bytes, identity, vector, text"
_COLLECTIONS = (
    "SELECT tenant, collection, count(*), sum(size_bytes), min(created_at_s) FROM collection_texts"
    " WHERE :tenant IS NULL OR tenant = :tenant GROUP BY tenant, collection ORDER BY tenant, collection"
)


@dataclass(frozen=True, slots=True)
class KeptWorkflow:
    """One version of a tenant's workflow."""

    tenant: str
    name: str
    version: str
    number: int
    """1 for the first of this name; the highest is the one that runs."""
    definition: bytes
    contributor: str
    created_at_s: float


@dataclass(frozen=True, slots=True)
class NewText:
    """A text that is to be kept in a collection."""

    text: str
    vector: bytes
    """Little-endian float32."""


@dataclass(frozen=True, slots=True)
class CollectionText:
    """A text of a collection."""

    seq: int
    text: str
    vector: bytes
    identity: str
    """Of the embedder that made the vector: vectors of another one cannot be compared."""


@dataclass(frozen=True, slots=True)
class CollectionPlace:
    """How far a collection is. An index that was made at one place is up to date while the place is the same."""

    generation: int
    """The number of its first text. Another one since anything was removed or replaced: read the collection anew."""
    last_seq: int
    """Of its latest text. Within a generation: read what comes after the last one seen."""


@dataclass(frozen=True, slots=True)
class Collection:
    """A collection in a list."""

    tenant: str
    name: str
    texts: int
    size_bytes: int
    created_at_s: float


class Assets:
    """Definitions and collections: what names a tenant never gives another's; writes and reads are as of WorkflowRuns."""

    def __init__(self, db: Database) -> None:
        self.reads = db.reads
        self._db = db

    # ---- workflows

    def put_workflow(
        self,
        tenant: str,
        name: str,
        version: str,
        definition: bytes,
        *,
        now_s: float,
        contributor: str = "",
        keep: int = 20,
        limits: Limits = NO_LIMITS,
    ) -> Future[int]:
        """Keep a version of a workflow as its latest, and the `keep` latest of the name; gives its number.

        A version that is the latest already stays as it is. The future raises TooManyBytes.
        """

        def put(connection: Connection) -> int:
            self._db.hold(connection, room_of(tenant))
            known = connection.execute(
                f"{_WORKFLOW} WHERE w.tenant = ? AND w.name = ? AND {_LATEST}", (tenant, name)
            ).fetchone()
            if known is not None and known[2] == version:
                return int(known[3])
            number = 1 if known is None else int(known[3]) + 1
            which = (tenant, name, version)
            connection.execute("DELETE FROM workflows WHERE tenant = ? AND name = ? AND version = ?", which)
            connection.execute(
                "DELETE FROM workflows WHERE tenant = ? AND name = ? AND number <= ?",
                (tenant, name, number - keep),
            )
            hold_room(total_bytes(connection, tenant), len(definition), limits)
            connection.execute(
                "INSERT INTO workflows (tenant, name, version, number, contributor, created_at_s, size_bytes, definition)"
                " VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                (*which, number, contributor, now_s, len(definition), definition),
            )
            return number

        return self._db.write(put)

    def workflow(self, tenant: str, name: str, version: str | None = None) -> KeptWorkflow | None:
        """That version of the tenant's workflow, else the latest; None where there is none."""
        row = (
            self._db.read()
            .execute(
                f"{_WORKFLOW} WHERE w.tenant = :tenant AND w.name = :name"
                f" AND {_LATEST if version is None else 'w.version = :version'}",
                {"tenant": tenant, "name": name, "version": version},
            )
            .fetchone()
        )
        return None if row is None else KeptWorkflow(*row)

    def workflows(self, tenant: str | None = None) -> list[KeptWorkflow]:
        """The latest version of each workflow, of one tenant or of all, by tenant and name."""
        rows = self._db.read().execute(
            f"{_WORKFLOW} WHERE (:tenant IS NULL OR w.tenant = :tenant) AND {_LATEST} ORDER BY w.tenant, w.name",
            {"tenant": tenant},
        )
        return [KeptWorkflow(*row) for row in rows.fetchall()]

    def remove_workflow(self, tenant: str, name: str) -> Future[bool]:
        """Delete all versions; runs under way go on. False where there is none."""
        return self._delete("DELETE FROM workflows WHERE tenant = ? AND name = ?", tenant, name)

    # ---- collections

    def add_texts(
        self,
        tenant: str,
        collection: str,
        texts: Sequence[NewText],
        *,
        identity: str,
        now_s: float,
        contributor: str = "",
        limits: Limits = NO_LIMITS,
    ) -> Future[CollectionPlace]:
        """Keep texts in a collection, made as needed; gives its place then.

        A text that this contributor has added before gets the vector of now, so that a step may be repeated. The future
        raises TooManyBytes, and then nothing is kept.
        """

        def add(connection: Connection) -> CollectionPlace:
            self._db.hold(connection, room_of(tenant))
            # Here, and not in the caller's thread: megabytes are hashed.
            rows = [
                {
                    "tenant": tenant,
                    "collection": collection,
                    "contributor": contributor,
                    "digest": hashlib.sha256(data).digest(),
                    "now": now_s,
                    "size": len(data) + len(each.vector),
                    "identity": identity,
                    "vector": each.vector,
                    "text": data,
                }
                for each in texts
                for data in [as_bytes(each.text)]
            ]
            before = total_bytes(connection, tenant)
            replaced = connection.executemany(
                f"DELETE {_OF_COLLECTION} AND contributor = :contributor"
                " AND digest = :digest AND identity <> :identity",
                rows,
            ).rowcount
            connection.executemany(
                f"INSERT INTO collection_texts ({_COLUMNS}) VALUES"  # noqa: S608 - a constant
                " (:tenant, :collection, :contributor, :digest, :now, :size, :identity, :vector, :text)"
                " ON CONFLICT (tenant, collection, contributor, digest) DO NOTHING",
                rows,
            )
            if replaced > 0:
                _renew(connection, tenant, collection)
            # What was there already takes no room. Whoever raises is undone.
            hold_room(before, max(0, total_bytes(connection, tenant) - before), limits)
            of_it = {"tenant": tenant, "collection": collection}
            return CollectionPlace(*connection.execute(_PLACE, of_it).fetchone())

        return self._db.write(add)

    def place(self, tenant: str, collection: str) -> CollectionPlace | None:
        """How far a collection is; None where there is none. Microseconds: to be asked before each search."""
        of_it = {"tenant": tenant, "collection": collection}
        first, last = self._db.read().execute(_PLACE, of_it).fetchone()
        return None if first is None else CollectionPlace(first, last)

    def texts(
        self, tenant: str, collection: str, after_seq: int = 0, limit: int = 1000
    ) -> list[CollectionText]:
        """The texts of a collection after that one, in their order."""
        rows = self._db.read().execute(
            "SELECT seq, text, vector, identity FROM collection_texts WHERE tenant = ? AND collection = ? AND seq > ?"
            " ORDER BY seq LIMIT ?",
            (tenant, collection, after_seq, limit),
        )
        return [
            CollectionText(seq, str(as_value(text, False)), vector, identity)
            for seq, text, vector, identity in rows.fetchall()
        ]

    def collections(self, tenant: str | None = None) -> list[Collection]:
        """Collections with their sizes, of one tenant or of all, by tenant and name."""
        rows = self._db.read().execute(_COLLECTIONS, {"tenant": tenant})
        return [Collection(*row) for row in rows.fetchall()]

    def remove_collection(self, tenant: str, collection: str) -> Future[bool]:
        """Delete a collection with its texts; False where there is none."""
        return self._delete(
            "DELETE FROM collection_texts WHERE tenant = ? AND collection = ?", tenant, collection
        )

    def _delete(self, statement: str, tenant: str, name: str) -> Future[bool]:
        def scrub(deleted: bool) -> None:
            if deleted:
                self._db.scrub_soon()

        return self._db.write(
            lambda connection: connection.execute(statement, (tenant, name)).rowcount > 0, after=scrub
        )


def room_of(tenant: str) -> str:
    """What is held by whoever adds to what a tenant has: see `Database.hold`."""
    return f"workflows of {tenant}"


def forget(connection: Connection, tenant: str, contributor: str | None = None) -> int:
    """Delete what a tenant, or one contributor of it, has kept; gives how many texts and versions."""
    whose = "tenant = ?1 AND (?2 IS NULL OR contributor = ?2 AND contributor <> '')"
    touched = connection.execute(
        f"SELECT DISTINCT collection FROM collection_texts WHERE {whose}",  # noqa: S608 - a constant
        (tenant, contributor),
    ).fetchall()
    deleted = sum(
        connection.execute(f"DELETE FROM {table} WHERE {whose}", (tenant, contributor)).rowcount  # noqa: S608
        for table in ("collection_texts", "workflows")
    )
    for (collection,) in touched:
        _renew(connection, tenant, collection)
    return deleted


def _renew(connection: Connection, tenant: str, collection: str) -> None:
    """Have every process read a collection anew: its first text becomes its last."""
    first = connection.execute(
        f"DELETE FROM collection_texts WHERE seq = (SELECT min(seq) {_OF_COLLECTION}) RETURNING {_COLUMNS}",  # noqa: S608
        {"tenant": tenant, "collection": collection},
    ).fetchall()
    connection.executemany(
        f"INSERT INTO collection_texts ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",  # noqa: S608 - a constant
        first,
    )
