"""Search by words in PostgreSQL, over the columns of words that the schema computes. Knows two tables.

The database computes what a text's words are, for what is kept and for what is looked for: nothing is folded here.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Protocol

from cachetools import TTLCache

from store.database import Connection, Rows, WordsTable
from store.errors import StoreFailed
from store.typed import typed

_MOST_READ = 1000
"""Rows with any of the words; of a common word they would be most of the bank."""
_COUNTED = 5 * _MOST_READ
"""Beyond so many rows a word is common, and how common does not matter."""
_MEASURED = 10_000
"""The latest examples, by which the average length is known."""
_MEASURED_EVERY_S = 30.0
_LEAST_S = 0.05
"""A search is not given less: a round trip is a part of it, and only the bank's own size makes it long."""
_LONGEST_CHARACTERS = 500
"""Of a part that is looked for: a longer word is not in the index either."""


class _Reading(Protocol):
    """Of a database: what reads."""

    def read(self) -> Connection: ...

    def read_within(self, within_s: float, sql: str, parameters: Any = ...) -> Rows: ...


class PostgresWords:
    """Search by words in one database."""

    def __init__(self, db: _Reading) -> None:
        self._db = db
        self._measured: TTLCache[str, tuple[int, float]] = TTLCache(1, _MEASURED_EVERY_S)

    def examples(self, tenant: str, text: str, limit: int) -> list[int]:
        """See `store.database.Words`. What is best goes by how often and how near to each other the words stand."""
        asked, values = _query(text)
        if not asked:
            return []
        rows = self._db.read().execute(
            f"SELECT id FROM examples, (SELECT {asked} AS asked) q WHERE words @@ asked AND tenant = ?"  # noqa: S608
            " ORDER BY ts_rank(words, asked, 1) DESC, id LIMIT ?",
            (*values, tenant, limit),
        )
        return [id for (id,) in rows.fetchall()]

    def questions(
        self, tenant: str, scope: str, said: Sequence[str], limit: int, within_s: float
    ) -> list[tuple[int, float]]:
        """See `store.database.Words`: scores as SQLite's bm25() gives them, weights (0, 0, 1, 0)."""
        if not said or within_s <= 0:
            return []
        try:
            count, average = self._measure()
            values = {
                "said": json.dumps(sorted({word for word in said if "\0" not in word})),
                "tenant": tenant,
                "scope": scope,
                "limit": limit,
                "count": count,
                "average": average,
                "most": _MOST_READ,
                "counted": _COUNTED,
            }
            return self._db.read_within(max(within_s, _LEAST_S), _MATCHING, values).fetchall()
        except StoreFailed:
            return []

    def requests(self, text: str, before: int, limit: int) -> list[tuple[int, str]]:
        """See `store.database.Words`."""
        asked, values = _query(text)
        if not asked:
            return []
        rows = self._db.read().execute(
            f"SELECT row_id, request_id FROM request_texts WHERE words @@ ({asked}) AND row_id < ?"  # noqa: S608
            " ORDER BY row_id DESC LIMIT ?",
            (*values, before, limit),
        )
        return rows.fetchall()

    def purge_soon(self, table: WordsTable) -> None:
        """Nothing: an index of words is vacuumed with its table."""

    def purge(self, timeout_s: float) -> None:
        """Nothing: see `purge_soon`."""

    def _measure(self) -> tuple[int, float]:
        """(how many examples there are, their average number of words), half a minute old at most."""
        known = self._measured.get("")
        if known is None:
            row = self._db.read().execute(_MEASURE, (_MEASURED,)).fetchone()
            known = self._measured[""] = (int(row[0]), float(row[1]))
        return known


def _query(text: str) -> tuple[str, list[object]]:
    """What gives the tsquery for what a person typed, and its values; empty when there is no word in it."""
    asked = typed(text)
    values: list[object] = []
    for place, part in enumerate(asked.parts, 1):
        values += [part[:_LONGEST_CHARACTERS], asked.beginning and place == len(asked.parts)]
    return " && ".join(["words_asked(?, CAST(? AS INTEGER) = 1)"] * len(asked.parts)), values


_MEASURE = (
    "SELECT coalesce((SELECT sum(examples) FROM example_totals), 0),"
    " coalesce((SELECT avg(word_count) FROM (SELECT word_count FROM examples ORDER BY id DESC LIMIT ?) latest), 1)"
)
# BM25 (Robertson and Zaragoza, 2009) with k1 = 1.2 and b = 0.75, a word's weight never below 1e-6: as FTS5 has it. The
# rarest words are looked for, until `:most` rows would be read.
_MATCHING = r"""
WITH counted (word, asked, found) AS MATERIALIZED (
    SELECT word, asked, (SELECT count(*) FROM (
        SELECT 1 FROM examples WHERE question_words @@ asked LIMIT :counted) AS few)
    FROM (SELECT value AS word,
            ('''' || replace(replace(value, '\', '\\'), '''', '''''') || '''')::tsquery AS asked
        FROM json_each(:said) WHERE octet_length(value) BETWEEN 1 AND 2000) said
),
placed (word, asked, found, place, so_far) AS (
    SELECT word, asked, found, row_number() OVER rarest, sum(found) OVER rarest FROM counted WHERE found > 0
    WINDOW rarest AS (ORDER BY found, word)
),
used (word, asked, weight) AS MATERIALIZED (
    SELECT word, asked, greatest(1e-6, ln(greatest(1e-9, (:count - found + 0.5) / (found + 0.5))::double precision))
    FROM placed WHERE place = 1 OR so_far <= :most
)
SELECT e.id, sum(u.weight * held.often * 2.2
    / (held.often + 1.2 * (0.25 + 0.75 * e.word_count / :average)))::double precision AS score
FROM examples e
JOIN LATERAL unnest(e.question_words) AS in_question (word, positions, weights) ON TRUE
JOIN LATERAL (SELECT cardinality(positions)::double precision AS often) held ON TRUE
JOIN used u ON u.word = in_question.word
WHERE e.question_words @@ (SELECT string_agg(asked::text, ' | ')::tsquery FROM used)
    AND e.tenant = :tenant AND e.scope = :scope
GROUP BY e.id ORDER BY score DESC, e.id LIMIT :limit
"""
