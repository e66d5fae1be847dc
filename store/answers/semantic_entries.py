"""Whole answers that may be given to a merely similar question. Each belongs to the example whose question it answers.

The example is what is found by nearness, admitted by the rules, evicted and deleted; its entry, and the comparisons made of
it, go with it in the same transaction (triggers of migration 0011). Knows rows: whether one is given out is decided
elsewhere.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace

from store.records import ExactAnswer
from store.sqlite.database import Database

_TRIMMED_AT_ONCE = 64


@dataclass(frozen=True, slots=True)
class SemanticEntry:
    """A remembered question and its answer."""

    id: int
    """Never used again, for another entry or after deletion."""
    example_id: int
    question: str
    text: str
    """What the answer says."""
    answer: ExactAnswer


class SemanticEntries:
    """Answers for similar questions. Every call names a tenant. An entry older than `ttl_s` seconds is never given out."""

    def __init__(
        self, db: Database, *, ttl_s: float = 86_400.0, aliases: SemanticAliases | None = None
    ) -> None:
        """With `aliases` an example also stands for the entry that its alias names."""
        self._db = db
        self._ttl_s = ttl_s
        self._aliases = aliases

    def with_aliases(self) -> SemanticEntries:
        """The same entries, where an example also stands for the entry that its alias names."""
        return SemanticEntries(self._db, ttl_s=self._ttl_s, aliases=SemanticAliases(self._db))

    def add(
        self,
        tenant: str,
        request_id: str,
        same_otherwise: bytes,
        question: str,
        answer: ExactAnswer,
        text: str,
    ) -> Future[bool]:
        """Keep the whole answer of a request that has become an example; False, and nothing is kept, if it has not.

        To be called after ExampleBank.admit for the same request: jobs are written in order. `same_otherwise` is the
        name of everything in the request but its question. An example that holds other texts (a twin's, or redacted
        ones) stands for another pair, and gets no entry. Raises StoreBusy.
        """
        before_s = answer.stored_at_s - self._ttl_s

        def insert(connection: sqlite3.Connection) -> bool:
            connection.execute(_TRIM, (tenant, before_s, _TRIMMED_AT_ONCE))
            row = connection.execute(_EXAMPLE, (tenant, request_id, question, text)).fetchone()
            if row is None:
                return False
            connection.execute(
                _UPSERT,
                (
                    tenant,
                    row[0],
                    same_otherwise,
                    answer.stored_at_s,
                    answer.engine,
                    answer.content_type,
                    answer.usage_estimated,
                    answer.body,
                ),
            )
            return True

        return self._db.write(insert)

    def among(
        self, tenant: str, same_otherwise: bytes, example_ids: Sequence[int], now_s: float
    ) -> dict[int, SemanticEntry]:
        """The tenant's entries on these examples, by example id, that may be given out at `now_s` (Unix seconds).

        Left out: what has expired, what belongs to a request that differs in anything but its question, and examples
        still in quarantine.
        """
        found = self._own(tenant, same_otherwise, example_ids, now_s)
        if self._aliases is None:
            return found
        named = self._aliases.of(tenant, same_otherwise, [id for id in example_ids if id not in found])
        shared = self._own(tenant, same_otherwise, [holder for holder, _ in named.values()], now_s)
        for id, (holder, question) in named.items():
            if holder in shared:
                # The gates compare with the words that were found near, not with those of the entry's own question.
                found[id] = replace(shared[holder], example_id=id, question=question)
        return found

    def _own(
        self, tenant: str, same_otherwise: bytes, example_ids: Sequence[int], now_s: float
    ) -> dict[int, SemanticEntry]:
        found: dict[int, SemanticEntry] = {}
        connection = self._db.read()
        for example_id in dict.fromkeys(example_ids):
            row = connection.execute(
                _SELECT, (example_id, same_otherwise, tenant, now_s - self._ttl_s, now_s)
            ).fetchone()
            if row is not None:
                id, question, text, body, content_type, engine, stored_at_s, estimated = row
                answer = ExactAnswer(body, content_type, engine, stored_at_s, bool(estimated), self._ttl_s)
                found[example_id] = SemanticEntry(id, example_id, question, text, answer)
        return found

    def forget_tenant(self, tenant: str) -> Future[int]:
        """Delete everything of a tenant; gives how many entries."""
        return self._db.write(
            lambda connection: (
                connection.execute("DELETE FROM semantic_entries WHERE tenant = ?", (tenant,)).rowcount
            )
        )


_EXAMPLE = "SELECT id FROM examples WHERE tenant = ? AND request_id = ? AND question = ? AND answer = ?"
_TRIM = (
    "DELETE FROM semantic_entries WHERE id IN"
    " (SELECT id FROM semantic_entries WHERE tenant = ? AND stored_at_s <= ? LIMIT ?)"
)
_UPSERT = (
    "INSERT INTO semantic_entries (tenant, example_id, same_otherwise, stored_at_s, engine, content_type,"
    " usage_estimated, body) VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
    " ON CONFLICT (example_id, same_otherwise) DO UPDATE SET stored_at_s = excluded.stored_at_s,"
    " engine = excluded.engine, content_type = excluded.content_type, usage_estimated = excluded.usage_estimated,"
    " body = excluded.body"
)
_SELECT = (
    "SELECT s.id, e.question, e.answer, s.body, s.content_type, s.engine, s.stored_at_s, s.usage_estimated"
    " FROM semantic_entries s JOIN examples e ON e.id = s.example_id AND e.tenant = s.tenant"
    " JOIN example_accounts a ON a.id = s.example_id"
    " WHERE s.example_id = ? AND s.same_otherwise = ? AND s.tenant = ? AND s.stored_at_s > ? AND a.served_from_s <= ?"
)


class SemanticAliases:
    """Questions that share another question's entry, each belonging to its own example. Every call names a tenant.

    Which pairs may share is decided elsewhere (learning.reuse.near_misses). An alias goes with its example, with its
    entry, and with any change of the example's texts.
    """

    def __init__(self, db: Database) -> None:
        self._db = db

    def add(
        self, tenant: str, request_id: str, question: str, same_otherwise: bytes, entry_id: int
    ) -> Future[bool]:
        """Have the question of a request that has become an example share an entry; False where either is gone.

        An entry of its own, if the example has one, gives way: two answers to one question would be two chances to be
        wrong. Raises StoreBusy.
        """

        def insert(connection: sqlite3.Connection) -> bool:
            row = connection.execute(
                "SELECT e.id FROM examples e, semantic_entries s WHERE e.tenant = ?1 AND e.request_id = ?2"
                " AND e.question = ?3 AND s.id = ?4 AND s.tenant = ?1 AND s.same_otherwise = ?5 AND s.example_id <> e.id",
                (tenant, request_id, question, entry_id, same_otherwise),
            ).fetchone()
            if row is None:
                return False
            connection.execute(
                "DELETE FROM semantic_entries WHERE example_id = ? AND same_otherwise = ?",
                (row[0], same_otherwise),
            )
            connection.execute(
                "INSERT OR REPLACE INTO semantic_aliases (example_id, same_otherwise, tenant, entry_id, at_s)"
                " VALUES (?, ?, ?, ?, ?)",
                (row[0], same_otherwise, tenant, entry_id, time.time()),
            )
            return True

        return self._db.write(insert)

    def of(
        self, tenant: str, same_otherwise: bytes, example_ids: Sequence[int]
    ) -> dict[int, tuple[int, str]]:
        """The tenant's aliases on these examples: id to (id of the example that holds the entry, the alias's question)."""
        found: dict[int, tuple[int, str]] = {}
        connection = self._db.read()
        for example_id in dict.fromkeys(example_ids):
            row = connection.execute(
                "SELECT s.example_id, e.question FROM semantic_aliases a JOIN semantic_entries s ON s.id = a.entry_id"
                " JOIN examples e ON e.id = a.example_id"
                " WHERE a.example_id = ? AND a.same_otherwise = ? AND a.tenant = ? AND s.tenant = a.tenant",
                (example_id, same_otherwise, tenant),
            ).fetchone()
            if row is not None:
                found[example_id] = (row[0], row[1])
        return found

    def count(self, tenant: str) -> int:
        """How many there are of a tenant."""
        row = (
            self._db.read()
            .execute("SELECT count(*) FROM semantic_aliases WHERE tenant = ?", (tenant,))
            .fetchone()
        )
        return int(row[0])
