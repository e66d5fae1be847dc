"""Reads a tenant's examples whole, page by page: for exports. Knows no file."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from store.examples.rows import these
from store.examples.vectors import from_blob
from store.records import Example, Vector
from store.sqlite.database import Database

_PAGE = 500


@dataclass(frozen=True, slots=True)
class Exported:
    """An example with everything that is kept of it."""

    example: Example
    embedded_text: str
    vector: Vector | None


def exported(db: Database, tenant: str) -> Iterator[Exported]:
    """All of a tenant's examples, oldest first. What is added meanwhile comes last."""
    after_id = 0
    while True:
        rows = (
            db.read()
            .execute(
                "SELECT id, embedded_text, vector FROM examples WHERE +tenant = ? AND id > ? ORDER BY id LIMIT ?",
                (tenant, after_id, _PAGE),
            )
            .fetchall()
        )
        if not rows:
            return
        after_id = rows[-1][0]
        whole = {example.id: example for example in these(db.read(), tenant, [row[0] for row in rows])}
        for id, embedded_text, blob in rows:
            if id in whole:
                yield Exported(whole[id], embedded_text, None if blob is None else from_blob(blob))
