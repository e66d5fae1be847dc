"""Stored answers as people look at them: listed, counted, and deleted by what they belong to."""

from __future__ import annotations

from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, Literal

from store.answers.wrong_answers import EXACT_GENERATION, count_answers, drop_answers
from store.database import Connection, Database
from store.generation import bump

CacheSort = Literal["newest", "oldest", "hits"]


@dataclass(frozen=True, slots=True)
class CacheEntry:
    """An answer that is given again to the very same request, without its body."""

    id: int
    tenant: str
    request_id: str
    """The request that it was first given to; empty where nobody knows."""
    engine: str
    stored_at_s: float
    last_used_at_s: float
    hits: int
    """How often it was given again, as of some seconds ago."""
    size_bytes: int
    corrected: bool
    """Whether a person wrote it."""


@dataclass(frozen=True, slots=True)
class CacheTotals:
    """Of everybody's answers to the very same request, and of how many there are for similar questions."""

    entries: int
    size_bytes: int
    hits: int
    oldest_at_s: float | None
    similar: int


@dataclass(frozen=True, slots=True)
class Purge:
    """Which stored answers: one entry, what one request would be given again, those of a tenant, or of a tenant's key.

    One of them is named, a key with its tenant; where nothing is, all answers are meant.
    """

    entry: int = 0
    request_id: str = ""
    tenant: str = ""
    key_id: str = ""


@dataclass(frozen=True, slots=True)
class Purged:
    """How many answers."""

    exact: int
    similar: int


class CacheListing:
    """Over everybody's stored answers."""

    def __init__(self, db: Database) -> None:
        self._db = db

    def page(
        self, *, tenant: str = "", sort: CacheSort = "newest", skip: int = 0, limit: int = 50
    ) -> list[CacheEntry]:
        """Up to `limit` entries in an order, of one tenant if named; by hits only those that were given again. Blocks."""
        condition, order = _ORDER[sort]
        whose = " AND tenant = :tenant" if tenant else ""
        rows = self._db.read().execute(
            f"SELECT {_COLUMNS} FROM exact_answers WHERE {condition}{whose}"  # noqa: S608 - our own constants
            f" ORDER BY {order} LIMIT :limit OFFSET :skip",
            {"tenant": tenant, "limit": limit, "skip": skip},
        )
        return [CacheEntry(*[*row[:-1], bool(row[-1])]) for row in rows.fetchall()]

    def totals(self) -> CacheTotals:
        """Sums over everybody's."""
        read = self._db.read()
        entries, oldest = read.execute("SELECT count(*), min(stored_at_s) FROM exact_answers").fetchone()
        (hits,) = read.execute("SELECT coalesce(sum(hits), 0) FROM exact_answers WHERE hits > 0").fetchone()
        (size_bytes,) = read.execute("SELECT coalesce(sum(total_bytes), 0) FROM exact_size").fetchone()
        (similar,) = read.execute("SELECT count(*) FROM semantic_entries").fetchone()
        return CacheTotals(entries, int(size_bytes), int(hits), oldest, similar)

    def tenants(self) -> dict[str, int]:
        """Tenants with exact answers and how many each has, those with most first, at most 200."""
        return dict(self._db.read().execute(_TENANTS).fetchall())

    def is_corrected(self, key: bytes) -> bool:
        """Whether the answer under a key is what a person wrote. Blocks."""
        found = self._db.read().execute("SELECT corrected FROM exact_answers WHERE key = ?", (key,))
        return (1,) in found.fetchall()

    def of_example(self, tenant: str, example: int) -> Purged:
        """How many answers go when a tenant's example is taken back. Blocks."""
        return Purged(*count_answers(self._db.read(), tenant, examples=[example]))

    def count(self, which: Purge) -> Purged:
        """How many answers `purge` would delete. Blocks."""
        return _count(self._db.read(), which)

    def purge(self, which: Purge) -> Future[Purged]:
        """Delete them; gives how many. No process gives one of them after the commit. Raises StoreBusy."""

        def delete(connection: Connection) -> Purged:
            found = _count(connection, which)
            if which.request_id:
                tenant = _tenant_of(connection, which.request_id)
                drop_answers(connection, tenant, requests=[which.request_id])
            else:
                bump(connection, EXACT_GENERATION)
                for table, condition, values in _conditions(which):
                    connection.execute(f"DELETE FROM {table} WHERE {condition}", values)  # noqa: S608
            return found

        return self._db.write(delete, after=lambda _: self._db.scrub_soon())


_COLUMNS = "id, tenant, request_id, engine, stored_at_s, last_used_at_s, hits, size_bytes, corrected"
_TENANTS = "SELECT tenant, count(*) AS n FROM exact_answers GROUP BY tenant ORDER BY n DESC, tenant LIMIT 200"
_ORDER: dict[CacheSort, tuple[str, str]] = {
    "newest": ("TRUE", "stored_at_s DESC, id DESC"),
    "oldest": ("TRUE", "stored_at_s, id"),
    "hits": ("hits > 0", "hits DESC, id DESC"),
}


def _count(connection: Connection, which: Purge) -> Purged:
    if which.request_id:
        tenant = _tenant_of(connection, which.request_id)
        return Purged(*count_answers(connection, tenant, requests=[which.request_id]))
    counts = (
        connection.execute(f"SELECT count(*) FROM {table} WHERE {condition}", values).fetchone()[0]  # noqa: S608
        for table, condition, values in _conditions(which)
    )
    return Purged(*counts)


def _conditions(which: Purge) -> list[tuple[str, str, dict[str, Any]]]:
    """Table, condition and values: of exact answers and of those for similar questions."""
    exact = similar = "TRUE"
    values: dict[str, Any] = {}
    if which.entry:
        exact, similar, values = "id = :entry", "FALSE", {"entry": which.entry}
    elif which.key_id:
        # A contributor's name begins with the key's id and a slash; "0" is the character after it.
        exact = "tenant = :tenant AND contributor >= :first AND contributor < :end"
        similar = f"example_id IN (SELECT id FROM example_accounts WHERE {exact})"  # noqa: S608
        values = {"tenant": which.tenant, "first": f"{which.key_id}/", "end": f"{which.key_id}0"}
    elif which.tenant:
        exact = similar = "tenant = :tenant"
        values = {"tenant": which.tenant}
    return [("exact_answers", exact, values), ("semantic_entries", similar, {} if which.entry else values)]


def _tenant_of(connection: Connection, request_id: str) -> str:
    row = connection.execute(
        "SELECT tenant FROM exact_answers WHERE request_id = ?1 AND request_id <> ''"
        " UNION SELECT tenant FROM requests WHERE id = ?1 ORDER BY tenant",
        (request_id,),
    ).fetchone()
    return "" if row is None else str(row[0])
