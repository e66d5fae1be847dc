"""Admits a pair to the bank: it is known already, merged into its twin, put in its twin's place, or added.

Runs inside a write job. Finds no neighbours: whoever embeds the pair asks the index and hands them over.
"""

from __future__ import annotations

from store.answers.wrong_answers import drop_answers
from store.database import Connection
from store.examples import rows as example_rows
from store.examples.private_bank import put_aside
from store.examples.twins import TwinRule, agrees, same_question
from store.examples.vectors import from_blob
from store.records import HELD_BACK_S, Admitted, Example, NewExample

_TWINS_READ = 5
"""Neighbours whose texts are read, nearest first: reading takes up to some milliseconds, for which other writes wait."""

_HELD_READ = 1_000
"""The latest ones; each costs a dot product while other writes wait."""


def admit(
    connection: Connection, new: NewExample, blob: bytes | None, now_s: float, rule: TwinRule
) -> Admitted:
    """Keep a pair once. Twins are looked for among `new.neighbours` of the same tenant and scope only."""
    aside = put_aside(connection, new, now_s)
    if aside is not None:
        return aside
    known = example_rows.by_request(connection, new.tenant, new.request_id)
    if known is not None:
        return Admitted(known, "known")
    held = _repeated(connection, new, rule)
    if held is not None:
        return _merge(connection, held, new, blob, now_s)
    twins = _twins(connection, new, rule)
    agreeing = next((twin for twin in twins if agrees(twin.answer, new.answer, rule)), None)
    if agreeing is not None:
        return _merge(connection, agreeing, new, blob, now_s)
    corrected = next((twin for twin in twins if _corrects(new, twin, now_s)), None)
    if corrected is not None:
        drop_answers(connection, new.tenant, examples=[corrected.id])
        _merge(connection, corrected, new, blob, now_s)
        example_rows.begin_anew(connection, corrected.id)
        return Admitted(_now(connection, corrected), "replaced")
    added = example_rows.insert(connection, new, blob, now_s)
    if not twins:
        return Admitted(added, "added")
    for id in (added.id, *(twin.id for twin in twins)):
        connection.execute("UPDATE example_accounts SET flagged = 1 WHERE id = ?", (id,))
    return Admitted(_now(connection, added), "disagrees")


def _twins(connection: Connection, new: NewExample, rule: TwinRule) -> list[Example]:
    near = [id for id, similarity in new.neighbours if similarity >= rule.min_similarity][:_TWINS_READ]
    return [
        example
        for example in example_rows.these(connection, new.tenant, near)
        if example.scope == new.scope
        # What is quarantined by hand neither gives way to a newcomer nor casts doubt on it.
        and not example.held_back_by_hand
        and same_question(example.question, new.question, len(new.embedded_text))
    ]


def _merge(
    connection: Connection, twin: Example, new: NewExample, blob: bytes | None, now_s: float
) -> Admitted:
    replaces = _takes_the_place(twin, new, now_s)
    gone_id = twin.request_id if replaces else new.request_id
    if replaces:
        example_rows.replace_texts(connection, twin, new, blob, now_s)
    if gone_id:
        connection.execute(
            "INSERT INTO merged_requests (tenant, request_id, example_id, merged_at_s) VALUES (?, ?, ?, ?)"
            " ON CONFLICT DO NOTHING",
            (new.tenant, gone_id, twin.id, now_s),
        )
    connection.execute(
        "UPDATE example_accounts SET merged = merged + 1, seen_at_s = max(seen_at_s, ?) WHERE id = ?",
        (now_s, twin.id),
    )
    example_rows.refresh_worth(connection, twin.id)
    return Admitted(_now(connection, twin), "replaced" if replaces else "merged")


def _corrects(new: NewExample, twin: Example, now_s: float) -> bool:
    """Whether a right answer that somebody gave puts an observed one right: it says otherwise, and it is the one to keep."""
    given = new.kind == "demonstration" and twin.kind == "observed"
    return given and _takes_the_place(twin, new, now_s)


def _takes_the_place(twin: Example, new: NewExample, now_s: float) -> bool:
    """Whether the newcomer's texts stand for both from now on: the freshest, unless the older one is better or held."""
    if twin.pinned or twin.held_back_by_hand:
        return False
    if twin.kind == "demonstration" and new.kind != "demonstration":
        return False
    if new.served_from_s > max(now_s, twin.served_from_s):
        # A newcomer in quarantine would take with it what is being served.
        return False
    if new.vector is None or new.embedding_version != twin.embedding_version:
        return False
    if twin.kind != new.kind:
        return True
    old_quality = 0.5 if twin.quality is None else twin.quality
    return (0.5 if new.quality is None else new.quality) >= old_quality


def _now(connection: Connection, example: Example) -> Example:
    (current,) = example_rows.these(connection, example.tenant, [example.id])
    return current


def _repeated(connection: Connection, new: NewExample, rule: TwinRule) -> Example | None:
    """The quarantined example of the same tenant and scope that says what the newcomer says; None if there is none.

    Asks no index: none may be in memory yet. A newcomer without a vector is compared by its words alone.
    """
    rows = connection.execute(_HELD, (new.tenant, new.scope, _HELD_READ)).fetchall()
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
