"""Examples that a person quarantined: marked by a date nobody waits for, and kept from coming back under another row.

The same question is asked again, the same engine answers the same: without this the pair would be kept anew, and served.
"""

from __future__ import annotations

import sqlite3

from store.examples import rows as example_rows
from store.examples.twins import TwinRule, agrees, same_question
from store.examples.vectors import from_blob
from store.records import Example, NewExample

HELD_BACK_S = 4_102_444_800.0
"""An example that is served from here on (the year 2100) is quarantined by a person, until a person lets it go."""
_MOST = 1_000
"""The latest ones; each costs a dot product while other writes wait."""


def by_hand(example: Example) -> bool:
    """Whether a person quarantined it; newcomers' own quarantine ends by itself."""
    return example.served_from_s >= HELD_BACK_S


def repeated(connection: sqlite3.Connection, new: NewExample, rule: TwinRule) -> Example | None:
    """The quarantined example of the same tenant and scope that says what the newcomer says; None if there is none.

    Asks no index: none may be in memory yet. A newcomer without a vector is compared by its words alone.
    """
    rows = connection.execute(_HELD, (new.tenant, new.scope, _MOST)).fetchall()
    near = [id for id, blob, version in rows if _near(new, blob, version, rule)]
    for held in example_rows.these(connection, new.tenant, near) if near else ():
        embedded = len(new.embedded_text) if new.vector is not None else 0
        if same_question(held.question, new.question, embedded) and agrees(held.answer, new.answer, rule):
            return held
    return None


# The number stands in the index's condition: as a parameter SQLite would not know that the index will do.
_HELD = (
    "SELECT a.id, e.vector, e.embedding_version FROM example_accounts a JOIN examples e ON e.id = a.id"  # noqa: S608
    f" WHERE a.tenant = ? AND a.served_from_s >= {HELD_BACK_S!r} AND e.scope = ? ORDER BY a.id DESC LIMIT ?"
)


def _near(new: NewExample, blob: bytes | None, version: str, rule: TwinRule) -> bool:
    if new.vector is None or blob is None or version != new.embedding_version:
        return True
    held = from_blob(blob)
    return len(held) == len(new.vector) and float(held @ new.vector) >= rule.min_similarity
