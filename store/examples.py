"""The bank of examples and the log that workers follow: every change has a place in it, removals too.

Knows rows. Which pair deserves to become an example, and which example helps, is decided elsewhere.
"""

from __future__ import annotations

import json
import sqlite3
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future

from store.database import Database
from store.records import Change, Example, NewExample, Unembedded, Vector
from store.vectors import from_blob, to_blob


class ExampleBank:
    """Adds, reads and removes examples. Every read names a tenant or is for the store's own housekeeping."""

    def __init__(self, db: Database) -> None:
        self._db = db
        self._listeners: list[Callable[[], None]] = []
        self._uses: dict[int, tuple[int, float]] = {}
        self._uses_lock = threading.Lock()

    def on_change(self, listener: Callable[[], None]) -> None:
        """Have `listener` called on the writer's thread after each commit of ours that changed the log. Be quick."""
        self._listeners.append(listener)

    def add(self, new: NewExample) -> Future[Example]:
        """Keep a pair. The future gives it with its id and place in the log, once committed.

        Adding the same (tenant, request_id) again gives the example that is there already; an empty request_id is
        never the same. Raises BadVector or StoreBusy at once.
        """
        blob = None if new.vector is None else to_blob(new.vector)
        created_at_s = time.time()

        def insert(connection: sqlite3.Connection) -> Example:
            if new.request_id:
                row = connection.execute(
                    _SELECT + " WHERE tenant = ? AND request_id = ? AND request_id <> ''",
                    (new.tenant, new.request_id),
                ).fetchone()
                if row is not None:
                    return Example(*row)
            seq = _next_seq(connection)
            id = connection.execute(
                _INSERT,
                (
                    seq,
                    new.tenant,
                    new.scope,
                    new.source_engine,
                    new.request_id,
                    created_at_s,
                    new.prompt_tokens,
                    new.completion_tokens,
                    new.embedding_version,
                    blob,
                    new.question,
                    new.answer,
                    new.embedded_text,
                ),
            ).lastrowid
            assert id is not None
            return Example(
                id,
                seq,
                new.tenant,
                new.scope,
                new.question,
                new.answer,
                new.source_engine,
                created_at_s,
                new.prompt_tokens,
                new.completion_tokens,
            )

        return self._db.write(insert, after=self._tell)

    def by_ids(self, tenant: str, ids: Sequence[int]) -> list[Example]:
        """The tenant's examples with these ids, in the order asked for.

        Ids that are gone, or that belong to another tenant, are left out.
        """
        if not ids:
            return []
        rows = self._db.read().execute(
            _SELECT_THESE,
            (json.dumps(list(ids)), tenant),
        )
        found = {row[0]: Example(*row) for row in rows.fetchall()}
        return [found[id] for id in ids if id in found]

    def tail(self, after_seq: int, limit: int = 1000, tenant: str | None = None) -> list[Change]:
        """The next changes in the log's order, at most `limit`; of one tenant, if it is named.

        An example stands at the place of its latest change, so what changed twice is met once.
        """
        if tenant is None:
            rows = self._db.read().execute(_TAIL, {"after": after_seq, "limit": limit})
        else:
            rows = self._db.read().execute(
                _TAIL_OF_TENANT, {"after": after_seq, "limit": limit, "tenant": tenant}
            )
        return [
            Change(seq, of, id, None if blob is None else from_blob(blob), bool(removed), version)
            for seq, of, id, blob, removed, version in rows.fetchall()
        ]

    def last_seq(self) -> int:
        """The last place given out in the log; 0 when it is empty."""
        row: tuple[int] = self._db.read().execute("SELECT last_seq FROM example_sequence").fetchone()
        return row[0]

    def tenants(self) -> dict[str, int]:
        """Every tenant that has examples, and how many."""
        rows = self._db.read().execute("SELECT tenant, count(*) FROM examples GROUP BY tenant").fetchall()
        return dict(rows)

    def database_id(self) -> str:
        """Which database this bank is in: what was derived from another one does not belong to it."""
        return self._db.database_id()

    def without_vector(self, version: str, limit: int = 100, after_id: int = 0) -> list[Unembedded]:
        """Examples that have no vector of this embedding version, by id: what a background job has left to embed."""
        rows = self._db.read().execute(
            "SELECT id, tenant, embedded_text FROM examples"
            " WHERE id > ? AND (vector IS NULL OR embedding_version <> ?) ORDER BY id LIMIT ?",
            (after_id, version, limit),
        )
        return [Unembedded(*row) for row in rows.fetchall()]

    def set_vector(self, id: int, vector: Vector, version: str) -> Future[bool]:
        """Give an example its vector; the change takes a new place in the log. False if the example is gone.

        Raises BadVector or StoreBusy at once.
        """
        blob = to_blob(vector)

        def update(connection: sqlite3.Connection) -> bool:
            if connection.execute("SELECT 1 FROM examples WHERE id = ?", (id,)).fetchone() is None:
                return False
            connection.execute(
                "UPDATE examples SET vector = ?, embedding_version = ?, seq = ? WHERE id = ?",
                (blob, version, _next_seq(connection), id),
            )
            return True

        return self._db.write(update, after=self._tell)

    def remove(self, tenant: str, ids: Sequence[int]) -> Future[int]:
        """Remove the tenant's examples with these ids; gives how many there were.

        Their text is overwritten in the file and, once the write-ahead log has been emptied, gone from there too:
        that is set off after the commit; `Database.scrub` waits for it.
        """
        wanted = json.dumps(list(ids))

        def delete(connection: sqlite3.Connection) -> int:
            found = connection.execute(
                "SELECT id FROM examples WHERE id IN (SELECT value FROM json_each(?)) AND +tenant = ? ORDER BY id",
                (wanted, tenant),
            ).fetchall()
            return _delete(connection, tenant, [id for (id,) in found])

        return self._db.write(delete, after=self._scrub_and_tell)

    def remove_tenant(self, tenant: str) -> Future[int]:
        """Remove everything a tenant has here; gives how many examples that was. See `remove`."""

        def delete(connection: sqlite3.Connection) -> int:
            found = connection.execute(
                "SELECT id FROM examples WHERE tenant = ? ORDER BY id", (tenant,)
            ).fetchall()
            return _delete(connection, tenant, [id for (id,) in found])

        return self._db.write(delete, after=self._scrub_and_tell)

    def count(self, tenant: str | None = None) -> int:
        """How many examples there are, of one tenant or of all."""
        if tenant is None:
            cursor = self._db.read().execute("SELECT count(*) FROM examples")
        else:
            cursor = self._db.read().execute("SELECT count(*) FROM examples WHERE tenant = ?", (tenant,))
        row: tuple[int] = cursor.fetchone()
        return row[0]

    def note_use(self, ids: Sequence[int]) -> None:
        """Note that these examples were sent to an engine just now. Only counted here; `flush_uses` writes."""
        now_s = time.time()
        with self._uses_lock:
            for id in ids:
                uses, _ = self._uses.get(id, (0, 0.0))
                self._uses[id] = (uses + 1, now_s)

    def flush_uses(self) -> Future[None] | None:
        """Hand the noted uses to the writer; None if there are none. Call it now and then, and before closing."""
        with self._uses_lock:
            noted, self._uses = self._uses, {}
        if not noted:
            return None
        rows = [(uses, last_used_at_s, id) for id, (uses, last_used_at_s) in noted.items()]

        def update(connection: sqlite3.Connection) -> None:
            connection.executemany(
                "UPDATE examples SET uses = uses + ?, last_used_at_s = max(coalesce(last_used_at_s, 0), ?)"
                " WHERE id = ?",
                rows,
            )

        return self._db.write(update)

    def _tell(self, _: object) -> None:
        for listener in self._listeners:
            listener()

    def _scrub_and_tell(self, removed: int) -> None:
        self._tell(removed)
        if removed:
            self._db.scrub_soon()


def _next_seq(connection: sqlite3.Connection) -> int:
    row: tuple[int] = connection.execute(
        "UPDATE example_sequence SET last_seq = last_seq + 1 RETURNING last_seq"
    ).fetchone()
    return row[0]


def _delete(connection: sqlite3.Connection, tenant: str, ids: list[int]) -> int:
    for id in ids:
        connection.execute(
            "INSERT INTO removed_examples (seq, example_id, tenant) VALUES (?, ?, ?)",
            (_next_seq(connection), id, tenant),
        )
        connection.execute("DELETE FROM examples WHERE id = ?", (id,))
    return len(ids)


_SELECT = (
    "SELECT id, seq, tenant, scope, question, answer, source_engine, created_at_s, prompt_tokens, completion_tokens"
    " FROM examples"
)
# The plus keeps SQLite from walking all of the tenant's rows to find a handful by their ids (2 ms against 20 us).
_SELECT_THESE = _SELECT + " WHERE id IN (SELECT value FROM json_each(?)) AND +tenant = ?"  # noqa: S608 - a constant
_INSERT = (
    "INSERT INTO examples (seq, tenant, scope, source_engine, request_id, created_at_s, prompt_tokens,"
    " completion_tokens, embedding_version, vector, question, answer, embedded_text)"
    " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
)
_TAIL = (
    "SELECT * FROM (SELECT seq, tenant, id, vector, 0, embedding_version FROM examples"
    " WHERE seq > :after ORDER BY seq LIMIT :limit)"
    " UNION ALL "
    "SELECT * FROM (SELECT seq, tenant, example_id, NULL, 1, '' FROM removed_examples"
    " WHERE seq > :after ORDER BY seq LIMIT :limit)"
    " ORDER BY 1 LIMIT :limit"
)
_TAIL_OF_TENANT = (
    "SELECT * FROM (SELECT seq, tenant, id, vector, 0, embedding_version FROM examples"
    " WHERE tenant = :tenant AND seq > :after ORDER BY seq LIMIT :limit)"
    " UNION ALL "
    "SELECT * FROM (SELECT seq, tenant, example_id, NULL, 1, '' FROM removed_examples"
    " WHERE tenant = :tenant AND seq > :after ORDER BY seq LIMIT :limit)"
    " ORDER BY 1 LIMIT :limit"
)
