"""Which of a tenant's examples have most to gain: reads their accounts, page by page, and keeps the best of them."""

from __future__ import annotations

import heapq
from dataclasses import dataclass

from store.examples.accounting import decayed
from store.sqlite.database import Database

_PAGE = 20_000


@dataclass(frozen=True, slots=True)
class GainRow:
    """What an example's account says, as of one moment."""

    id: int
    gain: float
    """G(e), decayed to that moment; never below 0."""
    used: float
    """Decayed uses."""
    kind: str
    pinned: bool
    created_at_s: float
    question_characters: int
    completion_tokens: int


def highest_gains(
    db: Database, tenant: str, now_s: float, limit: int, *, least: float = 1e-6
) -> list[GainRow]:
    """Up to `limit` examples of the tenant with a gain of at least `least`, highest first.

    Blocks: reads every account of the tenant, about a second per million; never for the event loop.
    """
    best: list[tuple[float, int]] = []
    after = 0
    while True:
        rows = (
            db.read()
            .execute(
                "SELECT id, gain, gain_at_s FROM example_accounts WHERE tenant = ? AND id > ? ORDER BY id LIMIT ?",
                (tenant, after, _PAGE),
            )
            .fetchall()
        )
        if not rows:
            break
        after = rows[-1][0]
        best += [
            (worth, id)
            for id, gain, at_s in rows
            if gain > 0 and (worth := decayed(gain, at_s, now_s)) >= least
        ]
        best = heapq.nlargest(limit, best)
    return gain_rows(db, tenant, [id for _, id in best], now_s)


def gain_rows(db: Database, tenant: str, ids: list[int], now_s: float) -> list[GainRow]:
    """The rows of these examples of the tenant's, in the order asked for; what is gone is left out."""
    found: dict[int, GainRow] = {}
    for start in range(0, len(ids), 500):
        batch = ids[start : start + 500]
        marks = ",".join("?" * len(batch))
        rows = db.read().execute(
            "SELECT a.id, a.gain, a.gain_at_s, a.used, a.used_at_s, a.kind, a.pinned, e.created_at_s,"  # noqa: S608
            " length(e.question), e.completion_tokens FROM example_accounts a JOIN examples e ON e.id = a.id"
            f" WHERE a.id IN ({marks}) AND +a.tenant = ?",
            (*batch, tenant),
        )
        for (
            id,
            gain,
            gain_at_s,
            used,
            used_at_s,
            kind,
            pinned,
            created_at_s,
            characters,
            tokens,
        ) in rows.fetchall():
            found[id] = GainRow(
                id,
                max(0.0, decayed(gain, gain_at_s, now_s)),
                decayed(used, used_at_s, now_s),
                kind,
                bool(pinned),
                created_at_s,
                characters,
                tokens,
            )
    return [found[id] for id in ids if id in found]


def vectors_of(db: Database, tenant: str, ids: list[int], version: str) -> dict[int, bytes]:
    """The stored vectors of these examples of the tenant's that have one of this embedding version."""
    found: dict[int, bytes] = {}
    for start in range(0, len(ids), 500):
        batch = ids[start : start + 500]
        marks = ",".join("?" * len(batch))
        rows = db.read().execute(
            f"SELECT id, vector FROM examples WHERE id IN ({marks}) AND +tenant = ? AND embedding_version = ?"  # noqa: S608
            " AND vector IS NOT NULL",
            (*batch, tenant, version),
        )
        found.update(rows.fetchall())
    return found
