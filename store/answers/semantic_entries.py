"""Whole answers that may be given to a merely similar question. Each belongs to the example whose question it answers.

The example is what is found by nearness, admitted by the rules, evicted and deleted; its entry, and the comparisons made of
it, go with it in the same transaction (triggers). Knows rows: whether one is given out is decided
elsewhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass

from store.answers.exact_cache import CLOCKS_APART_S
from store.database import Connection, Database
from store.inserting import replacing
from store.records import ExactAnswer

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

    def __init__(self, db: Database, *, ttl_s: float = 86_400.0) -> None:
        self._db = db
        self._ttl_s = ttl_s

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

        def insert(connection: Connection) -> bool:
            connection.execute(_TRIM, (tenant, before_s, _TRIMMED_AT_ONCE))
            row = connection.execute(_EXAMPLE, (tenant, request_id, question, text)).fetchone()
            if row is None:
                return False
            connection.execute(
                _UPSERT.sql,
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
        found: dict[int, SemanticEntry] = {}
        connection = self._db.read()
        for example_id in dict.fromkeys(example_ids):
            row = connection.execute(
                _SELECT,
                (example_id, same_otherwise, tenant, now_s - self._ttl_s, now_s + CLOCKS_APART_S, now_s),
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
_UPSERT = replacing(
    "semantic_entries",
    "tenant, example_id, same_otherwise, stored_at_s, engine, content_type, usage_estimated, body",
    key="example_id, same_otherwise",
    kept="tenant",
)
_SELECT = (
    "SELECT s.id, e.question, e.answer, s.body, s.content_type, s.engine, s.stored_at_s, s.usage_estimated"
    " FROM semantic_entries s JOIN examples e ON e.id = s.example_id AND e.tenant = s.tenant"
    " JOIN example_accounts a ON a.id = s.example_id"
    " WHERE s.example_id = ? AND s.same_otherwise = ? AND s.tenant = ? AND s.stored_at_s > ? AND s.stored_at_s <= ?"
    " AND a.served_from_s <= ?"
)
