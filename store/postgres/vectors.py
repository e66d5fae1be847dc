"""Examples' vectors in PostgreSQL with pgvector, for tenants whose index is not in memory. Knows no text.

The table follows the log of examples: one process, the owner, takes its changes in, in the log's order. A tenant with many
vectors has an HNSW graph (Malkov and Yashunin, arXiv 1603.09320) of its own, a partial index; with few it is scanned. One
graph with a filter would find next to nothing for a small tenant.
"""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import orjson
import psycopg
import structlog
from psycopg import errors, sql

from store.changes import Follower
from store.database import Connection
from store.errors import StoreClosed
from store.examples.seals import checked_tenant
from store.examples.tenant_index import CONNECTIVITY, EXPANSION_ADD, expansion_search
from store.examples.vectors import BadVector, checked
from store.postgres.errors import in_words
from store.records import Change, Vector

if TYPE_CHECKING:
    from store.examples.bank import ExampleBank
    from store.postgres.database import PostgresDatabase

log = structlog.get_logger(__name__)

SCANNED_AT_MOST = 10_000
"""Vectors of a tenant; more have a graph. Scanning 7,600 took twice as long as searching their graph."""
_PAGE = 500
_LOOK_EVERY_S = 0.5
_TOTALS_EVERY_S = 5.0
_BUILD_EVERY_S = 30.0
_BUILDING = 0x756E6466
"""Of the advisory lock of who builds: two at once on a table would wait for each other."""
_BUILD_MEMORY = "256MB"
_EXTENSION = "vector"
_GRAPHS = "example_vectors_of_"
_PREPARED = """
CREATE EXTENSION IF NOT EXISTS vector;
CREATE TABLE IF NOT EXISTS example_vectors (
    id BIGINT PRIMARY KEY, tenant TEXT COLLATE "C" NOT NULL, vector HALFVEC NOT NULL
);
CREATE INDEX IF NOT EXISTS example_vectors_by_tenant ON example_vectors (tenant);
CREATE TABLE IF NOT EXISTS example_vectors_state (
    only_row BIGINT PRIMARY KEY CHECK (only_row = 1), version TEXT COLLATE "C" NOT NULL, seq BIGINT NOT NULL
);
INSERT INTO example_vectors_state (only_row, version, seq) VALUES (1, '', 0) ON CONFLICT DO NOTHING;
CREATE OR REPLACE FUNCTION nearest_examples(whose TEXT, wanted HALFVEC, k BIGINT, width BIGINT)
    RETURNS TABLE (example BIGINT, similarity DOUBLE PRECISION) LANGUAGE plpgsql AS $$
BEGIN
    PERFORM set_config('hnsw.ef_search', width::text, true);
    -- The tenant as a literal: a plan for any tenant could use no tenant's graph.
    RETURN QUERY EXECUTE format(
        'SELECT id, 1 - (vector::halfvec(%1$s) <=> $1) FROM example_vectors WHERE tenant = %2$L'
        ' ORDER BY vector::halfvec(%1$s) <=> $1 LIMIT $2', vector_dims(wanted), whose) USING wanted, k;
END $$;
"""
_SAVED = (
    "INSERT INTO example_vectors (id, tenant, vector) VALUES (?, ?, CAST(? AS halfvec)) ON CONFLICT (id)"
    " DO UPDATE SET tenant = excluded.tenant, vector = excluded.vector"
    " WHERE example_vectors.vector IS DISTINCT FROM excluded.vector"
)
_ALL_GRAPHS = (
    "SELECT c.relname, i.indisvalid FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid"
    " WHERE i.indrelid = to_regclass('example_vectors') AND starts_with(c.relname::text, 'example_vectors_of_')"
)
_REMEDY = "run `understudy store migrate --vectors` as the database's owner"


def unavailable(connection: psycopg.Connection[Any]) -> str:
    """Why the server has no pgvector; empty where it has."""
    query = "SELECT 1 FROM pg_available_extensions WHERE name = %s"
    if connection.execute(query, (_EXTENSION,)).fetchone() is None:
        return "the server has no extension `vector` (pgvector)"
    return ""


def prepare(connection: psycopg.Connection[Any]) -> str:
    """Make the extension, the tables and the search, as their owner may; does nothing where they are.

    Gives why that cannot be, such as an extension that is not installed; empty when all is there.
    """
    problem = unavailable(connection)
    if problem:
        return problem
    try:
        with connection.transaction():
            connection.execute(_PREPARED.encode())
    except psycopg.Error as error:
        return in_words(error)
    return ""


class PostgresVectors(Follower):
    """One database's vectors of one embedding version. Searches may come from any thread."""

    def __init__(
        self,
        db: PostgresDatabase,
        bank: ExampleBank,
        dimensions: int,
        version: str,
        *,
        owner: Callable[[], bool],
        wanted: Callable[[], bool] = lambda: True,
        scanned_at_most: int = SCANNED_AT_MOST,
    ) -> None:
        """`owner`: whether this process keeps the table up with the log. `wanted`: whether there is need for it at all."""
        super().__init__("vectors", _LOOK_EVERY_S)
        self._db = db
        self._bank = bank
        self._dimensions = dimensions
        self._version = f"{version} {dimensions}"
        self._owner = owner
        self._wanted = wanted
        self._scanned_at_most = scanned_at_most
        self._progress = threading.Condition()
        self._builder: threading.Thread | None = None
        self._next_build_s = 0.0
        self._next_totals_s = 0.0
        self._is_wanted = False
        self._seq = -1
        self._refused = False
        self.built = 0
        """Graphs built so far by this process."""

    @classmethod
    def open(
        cls,
        db: PostgresDatabase,
        bank: ExampleBank,
        dimensions: int,
        version: str,
        *,
        owner: Callable[[], bool],
        wanted: Callable[[], bool] = lambda: True,
    ) -> PostgresVectors | None:
        """None, with a line in the log that says why, where the database has no pgvector. Raises StoreError."""
        row = db.read().execute("SELECT to_regclass('example_vectors_state')").fetchone()
        if row[0] is None:
            with db.connect(statement_timeout_ms=60_000) as connection:
                problem = prepare(connection)
            if problem:
                log.warning("pgvector_not_used", problem=problem, remedy=_REMEDY, used="usearch")
                return None
        return cls(db, bank, dimensions, version, owner=owner, wanted=wanted)

    # ---- searching

    @property
    def ready(self) -> bool:
        """Whether the table has been seen to hold what the log told when this process began."""
        return self._seq >= 0

    def nearest(self, tenant: str, vector: Vector, k: int) -> list[tuple[int, float]]:
        """Up to k (example id, cosine similarity) of the tenant's own, best first. A round trip; raises StoreError.

        `vector`: shape (dimensions,), of unit length. Similarities carry float16's error, about 0.001.
        """
        width = max(k, expansion_search(0))
        rows = self._db.read().execute(
            "SELECT example, similarity FROM nearest_examples(?, CAST(? AS halfvec), ?, ?)",
            (tenant, _as_text(vector), k, width),
        )
        return [(id, float(similarity)) for id, similarity in rows.fetchall()]

    def size(self, tenant: str) -> int:
        """How many vectors of a tenant are there. Reads them all."""
        row = self._db.read().execute("SELECT count(*) FROM example_vectors WHERE tenant = ?", (tenant,))
        return int(row.fetchone()[0])

    # ---- following the log

    def start(self) -> None:
        """Look from now on. Until the first look it is not known that nobody wants the table."""
        self._is_wanted = True
        super().start()

    def reached(self, seq: int, timeout_s: float) -> bool:
        """Wait until everything up to `seq` is in the table. False after `timeout_s`; True where nobody wants it."""
        self.notify()
        with self._progress:
            return self._progress.wait_for(
                lambda: self._seq >= seq or not self._is_wanted, max(0.0, timeout_s)
            )

    def forget(self, tenant: str, timeout_s: float = 60.0) -> None:
        """Delete a tenant's vectors at once. Its graph goes when it is next looked after. Raises what writing raises."""
        self._db.write(
            lambda connection: connection.execute("DELETE FROM example_vectors WHERE tenant = ?", (tenant,))
        ).result(timeout_s)

    def stop(self, timeout_s: float | None = 30.0) -> bool:
        """End the threads. False if that took longer than `timeout_s` seconds."""
        ended = super().stop(timeout_s)
        if self._builder is not None:
            self._builder.join(timeout_s)
        return ended and (self._builder is None or not self._builder.is_alive())

    def look(self) -> bool:
        """Take in a page of the log: see Follower."""
        now_s = time.monotonic()
        if now_s >= self._next_totals_s:
            self._next_totals_s = now_s + _TOTALS_EVERY_S
            self._is_wanted = self._wanted()
        if not self._is_wanted:
            self._reach(-1)
            return False
        version, seq = self._db.read().execute("SELECT version, seq FROM example_vectors_state").fetchone()
        if version != self._version:
            self._reach(-1)
            if not self._owner():
                return False
            self._begin_anew(version)
            return True
        changes = self._bank.tail(seq, _PAGE)
        dropped = self._bank.dropped(seq)
        if not changes and not dropped:
            self._reach(seq)
            self._look_after_graphs()
            return False
        if self._owner():
            self._take_in(seq, changes, dropped)
            return True
        if self._seq >= 0 or not changes:
            self._reach(seq)
        return False

    def _reach(self, seq: int) -> None:
        with self._progress:
            self._seq = seq
            self._progress.notify_all()

    def _take_in(self, seq: int, changes: Sequence[Change], dropped: dict[str, int]) -> None:
        kept: list[tuple[int, str, str]] = []
        gone: list[tuple[int]] = []
        for change in changes:
            text = self._text_of(change)
            if text is None:
                gone.append((change.id,))
            else:
                kept.append((change.id, change.tenant, text))
        reached = changes[-1].seq if changes else seq
        if len(changes) < _PAGE:
            reached = max(reached, *dropped.values()) if dropped else reached

        def job(connection: Connection) -> None:
            state = connection.execute("SELECT version, seq FROM example_vectors_state FOR UPDATE").fetchone()
            if tuple(state) != (self._version, seq):
                # Another process was first: what is to be done is found out anew.
                return
            for tenant in dropped:
                connection.execute(
                    "DELETE FROM example_vectors WHERE tenant = ?"
                    " AND id NOT IN (SELECT id FROM examples WHERE tenant = ?)",
                    (tenant, tenant),
                )
            connection.executemany(_SAVED, sorted(kept))
            connection.executemany("DELETE FROM example_vectors WHERE id = ?", sorted(gone))
            connection.execute("UPDATE example_vectors_state SET seq = ?", (reached,))

        self._db.write(job).result(60.0)

    def _text_of(self, change: Change) -> str | None:
        """The vector as pgvector reads it; None for what is not to be in the table."""
        version = self._version.rsplit(" ", 1)[0]
        if change.removed or change.vector is None or change.embedding_version != version:
            return None
        try:
            return _as_text(checked(change.vector, self._dimensions))
        except BadVector as problem:
            log.warning("example_not_indexed", example=change.id, problem=str(problem))
            return None

    def _begin_anew(self, old: str) -> None:
        """Another embedder's vectors mean something else: they go, and so do their graphs."""
        log.info("vectors_read_anew", version=self._version)
        graphs = _graphs(self._db.read())
        if graphs:
            with self._db.connect(statement_timeout_ms=0) as connection:
                for name in graphs:
                    _drop(connection, name)

        def job(connection: Connection) -> None:
            state = connection.execute("SELECT version FROM example_vectors_state FOR UPDATE").fetchone()
            if state[0] == old:
                connection.execute("DELETE FROM example_vectors")
                connection.execute("UPDATE example_vectors_state SET version = ?, seq = 0", (self._version,))

        self._db.write(job).result(600.0)

    # ---- graphs

    def _look_after_graphs(self) -> None:
        now_s = time.monotonic()
        busy = self._builder is not None and self._builder.is_alive()
        if now_s < self._next_build_s or busy or self._refused or not self._owner():
            return
        self._next_build_s = now_s + _BUILD_EVERY_S
        self._builder = threading.Thread(target=self._build_what_is_due, name="vectors-builder", daemon=True)
        self._builder.start()

    def _build_what_is_due(self) -> None:
        try:
            self.make_graphs()
        except errors.InsufficientPrivilege:
            self._refused = True
            log.warning("pgvector_graphs_not_made", problem="the role may not make indexes", remedy=_REMEDY)
        except StoreClosed:
            return
        except Exception as error:
            log.error("pgvector_graphs_not_made", problem=str(error))

    def make_graphs(self) -> int:
        """As the function `make_graphs`, over a connection of its own. Raises psycopg.Error, and StoreError."""
        with self._db.connect(statement_timeout_ms=0) as connection:
            built = make_graphs(
                connection, scanned_at_most=self._scanned_at_most, stopping=self._stopping.is_set
            )
        self.built += built
        return built


def make_graphs(
    connection: psycopg.Connection[Any],
    *,
    scanned_at_most: int = SCANNED_AT_MOST,
    stopping: Callable[[], bool] = lambda: False,
) -> int:
    """Build the graphs of tenants with many vectors, drop those of tenants with few; gives how many were built.

    Others read and write meanwhile; while another one builds, none is built. Takes about 0.2 ms of the server's CPU per
    vector. Raises psycopg.Error.
    """
    # Only tried: who waits in a statement keeps the other one's building from ending.
    (alone,) = connection.execute("SELECT pg_try_advisory_lock(%s)", (_BUILDING,)).fetchone() or (False,)
    if not alone:
        return 0
    try:
        return _made(connection, scanned_at_most, stopping)
    finally:
        if not connection.closed:
            connection.execute("SELECT pg_advisory_unlock(%s)", (_BUILDING,))


def _made(connection: psycopg.Connection[Any], scanned_at_most: int, stopping: Callable[[], bool]) -> int:
    (version,) = connection.execute("SELECT version FROM example_vectors_state").fetchone() or ("",)
    counts = connection.execute("SELECT tenant, examples FROM example_totals").fetchall()
    there = _graphs(connection)
    # Half as many: a number that goes up and down must not build each time.
    for name in there.keys() - {_graph_name(t) for t, count in counts if count > scanned_at_most / 2}:
        _drop(connection, name)
    built = 0
    for tenant, count in sorted(counts, key=lambda row: -row[1]):
        is_due = version and count > scanned_at_most and not there.get(_graph_name(tenant))
        if is_due and not stopping():
            _build(connection, tenant, int(version.rsplit(" ", 1)[1]))
            built += 1
    return built


def _build(connection: psycopg.Connection[Any], tenant: str, dimensions: int) -> None:
    name = _graph_name(tenant)
    # One that is not valid is what a kill has left.
    _drop(connection, name)
    begun_s = time.monotonic()
    statement = sql.SQL(
        "CREATE INDEX CONCURRENTLY {name} ON example_vectors USING hnsw"
        " ((vector::halfvec({dimensions})) halfvec_cosine_ops)"
        " WITH (m = {m}, ef_construction = {width}) WHERE tenant = {tenant}"
    ).format(
        name=sql.Identifier(name),
        dimensions=sql.Literal(dimensions),
        m=sql.Literal(CONNECTIVITY),
        width=sql.Literal(EXPANSION_ADD),
        tenant=sql.Literal(checked_tenant(tenant)),
    )
    connection.execute(sql.SQL("SET maintenance_work_mem = {}").format(sql.Literal(_BUILD_MEMORY)))
    connection.execute(statement)
    log.info("pgvector_graph_made", tenant=tenant, seconds=round(time.monotonic() - begun_s, 1))


def _drop(connection: psycopg.Connection[Any], name: str) -> None:
    connection.execute(sql.SQL("DROP INDEX CONCURRENTLY IF EXISTS {}").format(sql.Identifier(name)))


def _graphs(connection: Any) -> dict[str, bool]:
    """The names of all graphs, and whether each is whole."""
    rows = connection.execute(_ALL_GRAPHS)
    return {str(name): bool(is_valid) for name, is_valid in rows.fetchall()}


def _graph_name(tenant: str) -> str:
    return _GRAPHS + hashlib.sha256(tenant.encode()).hexdigest()[:24]


def _as_text(vector: Vector) -> str:
    return orjson.dumps(
        np.ascontiguousarray(vector, dtype=np.float32), option=orjson.OPT_SERIALIZE_NUMPY
    ).decode()
