"""Embeddings of the examples' answers: kept beside the examples, deleted with them, made in the background.

Migration 0022 gives every example a row that waits for its vector, and empties it again when the answer changes; so nobody
who writes examples needs to know of this. Knows rows; embeds nothing.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass

import numpy as np

from store.database import Connection, Database
from store.examples import rows as example_rows
from store.examples.vectors import from_blob, to_blob
from store.records import Vector


@dataclass(frozen=True, slots=True)
class WaitingAnswer:
    """An example whose answer has no vector of the wanted version."""

    id: int
    answer: str


class AnswerVectors:
    """Keeps the embeddings of answers. Every read of vectors names a tenant."""

    def __init__(self, db: Database) -> None:
        self._db = db

    def put(self, id: int, vector: Vector, version: str, answer: str) -> Future[bool]:
        """Keep the vector of an example's answer, as 16-bit floats. False if the example is gone, or its answer is not
        `answer` any more. Raises BadVector, ValueError (an empty version) or StoreBusy at once.
        """
        blob = to_blob(vector)
        if not version:
            raise ValueError("an answer's vector needs the version of what made it")

        def update(connection: Connection) -> bool:
            kept = connection.execute(_PUT, (version, blob, id, answer)).rowcount > 0
            if kept:
                example_rows.refresh_worth(connection, id)
            return kept

        return self._db.write(example_rows.alone(self._db, update))

    def of(self, tenant: str, ids: Sequence[int], version: str) -> dict[int, Vector]:
        """Vectors of the answers of the tenant's examples, by id; those that have none of this version are left out."""
        rows = self._db.read().execute(_OF, (json.dumps(list(ids)), tenant, version)).fetchall()
        return {id: from_blob(blob) for id, blob in rows}

    def missing(self, version: str, limit: int = 100, after_id: int = 0) -> list[WaitingAnswer]:
        """Examples whose answer has no vector of this version, by id: what is left to embed.

        Costs nothing when there are none, however large the bank.
        """
        connection = self._db.read()
        found: dict[int, WaitingAnswer] = {}
        for (other,) in connection.execute(_VERSIONS).fetchall():
            if other is not None and other != version:
                rows = connection.execute(_WAITING, (other, after_id, limit)).fetchall()
                found.update({id: WaitingAnswer(id, answer) for id, answer in rows})
        return [found[id] for id in sorted(found)[:limit]]


class CandidateVectors:
    """The vectors of a handful of examples, of question and answer, in one query: what scoring them takes."""

    def __init__(self, db: Database, *, question_version: str, answer_version: str = "") -> None:
        """Vectors of other versions than these are as good as none: they point elsewhere."""
        self._db = db
        self._versions = (question_version, answer_version)

    def pairs(self, tenant: str, ids: Sequence[int]) -> dict[int, tuple[Vector | None, Vector | None]]:
        """(of the question, of the answer) by id, for those of the tenant's examples that have either.

        Takes some 50 microseconds for 20 examples. The vectors share one block of memory.
        """
        rows = (
            self._db.read()
            .execute(_PAIRS, (*self._versions, self._versions[1], json.dumps(list(ids)), tenant))
            .fetchall()
        )
        blobs = [blob for _, question, answer in rows for blob in (question, answer) if blob is not None]
        vectors = iter(_together(blobs))
        found: dict[int, tuple[Vector | None, Vector | None]] = {}
        for id, question, answer in rows:
            of_question = None if question is None else next(vectors)
            of_answer = None if answer is None else next(vectors)
            if of_question is not None or of_answer is not None:
                found[id] = (of_question, of_answer)
        return found


def _together(blobs: Sequence[bytes]) -> list[Vector]:
    """`from_blob` of each, in a third of the time where they are of one size."""
    if not blobs or any(len(blob) != len(blobs[0]) for blob in blobs):
        return [from_blob(blob) for blob in blobs]
    return list(np.frombuffer(b"".join(blobs), dtype="<f2").reshape(len(blobs), -1).astype(np.float32))


_PUT = (
    "UPDATE answer_vectors SET version = ?, vector = ? WHERE example_id = ?"
    " AND (SELECT answer FROM examples WHERE id = example_id) = ?"
)
# The plus keeps SQLite from walking all of the tenant's rows to find a handful by their ids.
_OF = (
    "SELECT e.id, v.vector FROM examples e JOIN answer_vectors v ON v.example_id = e.id"
    " WHERE e.id IN (SELECT CAST(value AS INTEGER) FROM json_each(?)) AND +e.tenant = ? AND +v.version = ?"
    " AND v.vector IS NOT NULL"
)
_PAIRS = (
    "SELECT e.id, CASE WHEN e.embedding_version = ? THEN e.vector END,"
    " CASE WHEN v.version = ? AND ? <> '' THEN v.vector END"
    " FROM examples e LEFT JOIN answer_vectors v ON v.example_id = e.id"
    " WHERE e.id IN (SELECT CAST(value AS INTEGER) FROM json_each(?)) AND +e.tenant = ?"
)
# Walks from one version to the next by the index, where DISTINCT would read every entry.
_VERSIONS = (
    "WITH RECURSIVE versions (version) AS ("
    "SELECT min(version) FROM answer_vectors UNION ALL"
    " SELECT (SELECT min(version) FROM answer_vectors WHERE version > versions.version) FROM versions"
    " WHERE version IS NOT NULL) SELECT version FROM versions"
)
_WAITING = (
    "SELECT v.example_id, e.answer FROM answer_vectors v JOIN examples e ON e.id = v.example_id"
    " WHERE v.version = ? AND v.example_id > ? ORDER BY v.example_id LIMIT ?"
)
