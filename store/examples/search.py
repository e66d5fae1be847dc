"""Finds examples for people: by words, by what they are, by likeness; sorted by worth, use or age, a page at a time."""

from __future__ import annotations

import heapq
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from store.database import Database
from store.examples.accounting import DECAY_RATE_PER_S
from store.examples.rows import SELECT, as_example, these
from store.examples.vectors import from_blob
from store.records import Example, Vector

Sort = Literal["gain", "uses", "newest", "oldest"]
Which = Literal["", "demonstration", "observed", "pinned", "flagged", "held_back"]
_LOOKED_THROUGH = 20_000
MOST_VECTORS = 200_000
"""About a second."""
_VECTORS_AT_ONCE = 5_000
_MOST_GAINS = 200_000
_WORDS = 2_000

_WHICH: dict[Which, str] = {
    "": "TRUE",
    "demonstration": "a.kind = 'demonstration'",
    "observed": "a.kind = 'observed'",
    "pinned": "a.pinned = 1",
    "flagged": "a.flagged = 1",
    "held_back": "a.served_from_s > :now",
}
# The inner rows come in an index's order, and are looked through one by one until the page is full.
_ORDER: dict[str, str] = {
    "uses": "uses DESC, id DESC",
    "newest": "id DESC",
    "oldest": "id",
}


@dataclass(frozen=True, slots=True)
class FoundExamples:
    """One page."""

    rows: tuple[Example, ...]
    similarities: tuple[float, ...] = ()
    """Of each row to what it was to be near to; empty for other searches."""
    next: int | None = None
    """How many to skip for the next page; None: there is nothing more."""
    all_looked_at: bool = True
    """False where a part of the bank was not looked at."""
    matches: int | None = None
    """How many there are on all pages; None where nobody counted."""


class ExampleSearch:
    """Over one tenant's examples at a time."""

    def __init__(self, db: Database) -> None:
        self._db = db

    def page(
        self, tenant: str, *, sort: Sort = "newest", which: Which = "", skip: int = 0, limit: int = 50
    ) -> FoundExamples:
        """The tenant's examples in an order. Looks through so many at once; behind the last of them nothing is found.

        By gain: by what is left of it now, of those that have any.
        """
        if sort == "gain":
            return self._by_gain(tenant, which, skip, limit)
        query, values = page_query(tenant, sort=sort, which=which, skip=skip, limit=limit + 1)
        rows = [as_example(row) for row in self._db.read().execute(query, values).fetchall()]
        more = len(rows) > limit
        whole = more or self._count(tenant) <= _LOOKED_THROUGH
        return FoundExamples(tuple(rows[:limit]), (), skip + limit if more else None, whole)

    def _by_gain(self, tenant: str, which: Which, skip: int, limit: int) -> FoundExamples:
        read, now_s = self._db.read(), time.time()
        sums = np.array(read.execute(_GAINS, (tenant, _MOST_GAINS)).fetchall(), dtype=np.float64).reshape(
            -1, 3
        )
        # Each sum is as of its own last use: only at one instant can they be compared, and logarithms do not overflow.
        left = np.log(sums[:, 1]) + DECAY_RATE_PER_S * sums[:, 2]
        ids = [int(id) for id in sums[np.argsort(-left, kind="stable"), 0]]
        found: list[Example] = []
        for start in range(0, min(len(ids), _LOOKED_THROUGH), 500):
            chunk = these(read, tenant, ids[start : start + 500])
            found += [example for example in chunk if _is(example, which, now_s)]
            if len(found) > skip + limit:
                break
        more = len(found) > skip + limit
        whole = more or len(ids) <= _LOOKED_THROUGH
        return FoundExamples(tuple(found[skip : skip + limit]), (), skip + limit if more else None, whole)

    def with_words(
        self, tenant: str, text: str, *, which: Which = "", skip: int = 0, limit: int = 50
    ) -> FoundExamples:
        """The tenant's examples that have these words, the best matches first."""
        ids = self._db.words.examples(tenant, text, _WORDS)
        now_s = time.time()
        rows = [e for e in these(self._db.read(), tenant, ids) if _is(e, which, now_s)]
        more = len(rows) > skip + limit
        return FoundExamples(
            tuple(rows[skip : skip + limit]),
            (),
            skip + limit if more else None,
            len(ids) < _WORDS,
            len(rows),
        )

    def matching(
        self, tenant: str, scope: str, said: Sequence[str], limit: int, within_s: float = 0.01
    ) -> list[tuple[int, float]]:
        """Up to `limit` (id, BM25) of a scope's examples whose questions have any of these words, the best first.

        `said`: in lower case, without accents; the rarest are looked for. None are found where it takes over `within_s`.
        """
        return self._db.words.questions(tenant, scope, said, limit, within_s)

    def nearest(
        self,
        tenant: str,
        vector: Vector,
        version: str,
        *,
        which: Which = "",
        limit: int = 50,
        among: int = MOST_VECTORS,
    ) -> FoundExamples:
        """The tenant's examples whose questions are nearest, by exact search among the latest so many."""
        best: list[tuple[float, int]] = []
        read, before, seen = self._db.read(), 2**62, 0
        while seen < among:
            rows = read.execute(_VECTORS, (tenant, before, _VECTORS_AT_ONCE)).fetchall()
            if not rows:
                break
            seen, before = seen + len(rows), rows[-1][3]
            own = [(id, blob) for id, blob, of, _ in rows if of == version and len(blob) == 2 * len(vector)]
            if own:
                matrix = np.frombuffer(b"".join(blob for _, blob in own), "<f2").reshape(len(own), -1)
                scores = matrix.astype(np.float32) @ vector
                ids = [id for id, _ in own]
                best = heapq.nlargest(4 * limit, [*best, *zip(scores.tolist(), ids, strict=True)])
        similarity = {id: score for score, id in best}
        now_s = time.time()
        found = [e for e in these(read, tenant, list(similarity)) if _is(e, which, now_s)][:limit]
        return FoundExamples(tuple(found), tuple(similarity[e.id] for e in found), None, seen < among)

    def vector(self, id: int) -> tuple[Vector, str] | None:
        """An example's vector and its embedding version; None while it has none."""
        row = (
            self._db.read()
            .execute("SELECT vector, embedding_version FROM examples WHERE id = ?", (id,))
            .fetchone()
        )
        return None if row is None or row[0] is None else (from_blob(row[0]), str(row[1]))

    def _count(self, tenant: str) -> int:
        row = (
            self._db.read()
            .execute("SELECT examples FROM example_totals WHERE tenant = ?", (tenant,))
            .fetchone()
        )
        return row[0] if row else 0


def page_query(tenant: str, *, sort: Sort, which: Which, skip: int, limit: int) -> tuple[str, dict[str, Any]]:
    """The query of `ExampleSearch.page` and its values."""
    order = _ORDER[sort]
    return (
        SELECT  # noqa: S608 - our own constants
        + " JOIN (SELECT a.id AS found FROM (SELECT * FROM example_accounts WHERE tenant = :tenant"
        + f" ORDER BY {order} LIMIT :looked) a WHERE {_WHICH[which]} LIMIT :limit OFFSET :skip) f ON f.found = e.id"
        + " ORDER BY "
        + ", ".join(("e." if part.startswith("id") else "a.") + part for part in order.split(", ")),
        {
            "tenant": tenant,
            "now": time.time(),
            "looked": _LOOKED_THROUGH,
            "limit": limit,
            "skip": skip,
        },
    )


def _is(example: Example, which: Which, now_s: float) -> bool:
    return {
        "": True,
        "demonstration": example.kind == "demonstration",
        "observed": example.kind == "observed",
        "pinned": example.pinned,
        "flagged": example.flagged,
        "held_back": example.served_from_s > now_s,
    }[which]


_GAINS = "SELECT id, gain, gain_at_s FROM example_accounts WHERE tenant = ? AND gain > 0 ORDER BY gain DESC LIMIT ?"
_VECTORS = (
    "SELECT id, vector, embedding_version, seq FROM examples WHERE tenant = ? AND seq < ? AND vector IS NOT NULL"
    " ORDER BY seq DESC LIMIT ?"
)
