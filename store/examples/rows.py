"""Examples as rows: inserting, rewriting, removing, each inside somebody's write job. Decides nothing."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

from store.answers.wrong_answers import drop_answers
from store.database import Connection, Database
from store.examples.accounting import worth
from store.generation import tell
from store.records import Example, NewExample

T = TypeVar("T")

FIXED_BYTES = 1024
"""What an example costs beside its texts and its vector: its row, and its place in the index."""

_COLUMNS = (
    "e.id, e.seq, e.tenant, e.scope, e.question, e.answer, e.source_engine, e.created_at_s, e.prompt_tokens,"
    " e.completion_tokens, e.request_id, e.embedding_version, a.kind, a.contributor, a.pinned, a.flagged, a.merged,"
    " a.served_from_s, a.size_bytes, a.uses, a.last_used_at_s, a.used, a.used_at_s, a.gain, a.gain_at_s,"
    " a.quality_sum, a.quality_count, e.embedded_text"
)
_FLAGS = 14
"""Where `pinned` and `flagged`, which SQLite keeps as numbers, stand among the columns."""
SELECT = f"SELECT {_COLUMNS} FROM examples e JOIN example_accounts a ON a.id = e.id"  # noqa: S608 - constants
# The plus keeps SQLite from walking all of the tenant's rows to find a handful by their ids (2 ms against 20 us).
SELECT_THESE = SELECT + " WHERE e.id IN (SELECT CAST(value AS INTEGER) FROM json_each(?)) AND +e.tenant = ?"  # noqa: S608
_INSERT = (
    "INSERT INTO examples (seq, tenant, scope, source_engine, request_id, created_at_s, prompt_tokens,"
    " completion_tokens, embedding_version, vector, question, answer, embedded_text)"
    " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) RETURNING id"
)
_INSERT_ACCOUNT = (
    "INSERT INTO example_accounts (id, tenant, kind, contributor, pinned, flagged, merged, served_from_s, seen_at_s,"
    " size_bytes, uses, used, used_at_s, gain, gain_at_s, quality_sum, quality_count, worth, worth_per_byte)"
    " VALUES (?, ?, ?, ?, ?, 0, 0, ?, ?, ?, 0, 0, ?, 0, ?, ?, ?, ?, ?)"
)


def as_example(row: Sequence[Any]) -> Example:
    """A row of `SELECT`, as a value."""
    return Example._make((*row[:_FLAGS], bool(row[_FLAGS]), bool(row[_FLAGS + 1]), *row[_FLAGS + 2 :]))


def alone(db: Database, job: Callable[[Connection], T]) -> Callable[[Connection], T]:
    """A job that changes examples by what it reads of them: with PostgreSQL too only one such runs at a time."""

    def run(connection: Connection) -> T:
        db.hold(connection, "examples")
        return job(connection)

    return run


def next_seq(connection: Connection) -> int:
    """The next place in the log. A place that was given out is never given out again, except by a job undone."""
    return next_seqs(connection, 1)[0]


def next_seqs(connection: Connection, count: int) -> range:
    """As many next places in the log, taken in one statement; followers in other processes hear of them."""
    row: tuple[int] = connection.execute(
        "UPDATE example_sequence SET last_seq = last_seq + ? RETURNING last_seq", (count,)
    ).fetchone()
    tell(connection)
    return range(row[0] - count + 1, row[0] + 1)


def by_request(connection: Connection, tenant: str, request_id: str) -> Example | None:
    """The example that stands for a request, its own or one into which its pair was merged."""
    if not request_id:
        return None
    row = connection.execute(
        SELECT + " WHERE e.tenant = ? AND e.request_id = ? AND e.request_id <> ''", (tenant, request_id)
    ).fetchone()
    if row is None:
        row = connection.execute(
            SELECT + " JOIN merged_requests m ON m.example_id = e.id WHERE m.tenant = ? AND m.request_id = ?",
            (tenant, request_id),
        ).fetchone()
    return None if row is None else as_example(row)


def these(connection: Connection, tenant: str, ids: Sequence[int]) -> list[Example]:
    """The tenant's examples with these ids, in the order asked for; what is not the tenant's is left out."""
    if not ids:
        return []
    rows = connection.execute(SELECT_THESE, (json.dumps(list(ids)), tenant)).fetchall()
    found = {row[0]: as_example(row) for row in rows}
    return [found[id] for id in ids if id in found]


def insert(connection: Connection, new: NewExample, blob: bytes | None, now_s: float) -> Example:
    """Add an example with its account."""
    seq = next_seq(connection)
    id = connection.execute(
        _INSERT,
        (
            seq,
            new.tenant,
            new.scope,
            new.source_engine,
            new.request_id,
            now_s,
            new.prompt_tokens,
            new.completion_tokens,
            new.embedding_version,
            blob,
            new.question,
            new.answer,
            new.embedded_text,
        ),
    ).fetchone()[0]
    _keep_instructions(connection, new)
    size_bytes = _size_bytes(new, blob)
    judged = (0.0, 0) if new.quality is None else (new.quality, 1)
    value = worth(0.0, now_s, now_s, *judged)
    connection.execute(
        _INSERT_ACCOUNT,
        (
            id,
            new.tenant,
            new.kind,
            new.contributor,
            new.pinned,
            new.served_from_s,
            now_s,
            size_bytes,
            now_s,
            now_s,
            *judged,
            value,
            value - math.log(size_bytes),
        ),
    )
    return Example(
        id,
        seq,
        new.tenant,
        new.scope,
        new.question,
        new.answer,
        new.source_engine,
        now_s,
        new.prompt_tokens,
        new.completion_tokens,
        new.request_id,
        new.embedding_version,
        new.kind,
        new.contributor,
        new.pinned,
        served_from_s=new.served_from_s,
        size_bytes=size_bytes,
        used_at_s=now_s,
        gain_at_s=now_s,
        quality_sum=judged[0],
        quality_count=judged[1],
        embedded_text=new.embedded_text,
    )


def replace_texts(
    connection: Connection, old: Example, new: NewExample, blob: bytes | None, now_s: float
) -> None:
    """Put a pair in the place of an example's texts: all of them, so that each row is one contributor's only.

    What the example was good for stays; judgements were of the old answer and go.
    """
    _keep_instructions(connection, new)
    connection.execute(
        "UPDATE examples SET seq = ?, source_engine = ?, request_id = ?, created_at_s = ?, prompt_tokens = ?,"
        " completion_tokens = ?, embedding_version = ?, vector = ?, question = ?, answer = ?, embedded_text = ?"
        " WHERE id = ?",
        (
            next_seq(connection),
            new.source_engine,
            new.request_id,
            now_s,
            new.prompt_tokens,
            new.completion_tokens,
            new.embedding_version,
            blob,
            new.question,
            new.answer,
            new.embedded_text,
            old.id,
        ),
    )
    connection.execute(
        "UPDATE example_accounts SET kind = ?, contributor = ?, pinned = max(pinned, ?), served_from_s = ?,"
        " size_bytes = ?, quality_sum = ?, quality_count = ? WHERE id = ?",
        (
            new.kind,
            new.contributor,
            new.pinned,
            new.served_from_s,
            _size_bytes(new, blob),
            0.0 if new.quality is None else new.quality,
            0 if new.quality is None else 1,
            old.id,
        ),
    )


def begin_anew(connection: Connection, id: int) -> None:
    """Reset an example's quality figures after its answer was replaced."""
    connection.execute(
        "UPDATE example_accounts SET quality_sum = 0, quality_count = 0, gain = 0, merged = 0, corrected_at_s = ?"
        " WHERE id = ?",
        (time.time(), id),
    )
    refresh_worth(connection, id)


def refresh_worth(connection: Connection, id: int) -> None:
    """Compute anew what eviction goes by, after anything of it was changed."""
    row = connection.execute(
        "SELECT used, used_at_s, seen_at_s, quality_sum, quality_count, size_bytes FROM example_accounts WHERE id = ?",
        (id,),
    ).fetchone()
    if row is None:
        # Removed by another process meanwhile.
        return
    used, used_at_s, seen_at_s, quality_sum, quality_count, size_bytes = row
    value = worth(used, used_at_s, seen_at_s, quality_sum, quality_count)
    connection.execute(
        "UPDATE example_accounts SET worth = ?, worth_per_byte = ? WHERE id = ?",
        (value, value - math.log(size_bytes), id),
    )


def remove(connection: Connection, tenant: str, ids: Iterable[int], *, erase: bool) -> int:
    """Remove these examples of the tenant; of each a place in the log stays. Gives how many there were.

    `erase` tells whoever follows the log that the vectors have to leave their files, too; then what would be given again of
    their answers goes as well: see drop_answers.
    """
    ids = list(dict.fromkeys(ids))
    if erase:
        drop_answers(connection, tenant, examples=ids)
    rows = connection.execute(
        "SELECT id FROM example_accounts WHERE id IN (SELECT CAST(value AS INTEGER) FROM json_each(?)) AND +tenant = ?",
        (json.dumps(ids), tenant),
    )
    there = {id for (id,) in rows.fetchall()}
    if not there:
        return 0
    gone = [id for id in ids if id in there]
    now_s = time.time()
    connection.executemany("DELETE FROM example_accounts WHERE id = ?", [(id,) for id in gone])
    connection.executemany("DELETE FROM examples WHERE id = ?", [(id,) for id in gone])
    connection.executemany(
        "INSERT INTO removed_examples (seq, example_id, tenant, removed_at_s, erase) VALUES (?, ?, ?, ?, ?)",
        [
            (seq, id, tenant, now_s, erase)
            for seq, id in zip(next_seqs(connection, len(gone)), gone, strict=True)
        ],
    )
    return len(gone)


def _keep_instructions(connection: Connection, new: NewExample) -> None:
    if new.instructions:
        connection.execute(
            "INSERT INTO example_instructions (tenant, scope, instructions) VALUES (?, ?, ?) ON CONFLICT DO NOTHING",
            (new.tenant, new.scope, new.instructions),
        )


def with_variations(connection: Connection, tenant: str, ids: Iterable[int]) -> list[int]:
    """These examples of the tenant's, and everything that was written as a variation of them."""
    rows = connection.execute(
        "WITH RECURSIVE found (id) AS (SELECT CAST(value AS INTEGER) FROM json_each(?) UNION"
        " SELECT l.example_id FROM example_lineage l JOIN found ON l.parent_id = found.id WHERE l.tenant = ?)"
        " SELECT id FROM found ORDER BY id",
        (json.dumps(list(ids)), tenant),
    ).fetchall()
    return [id for (id,) in rows]


def _size_bytes(new: NewExample, blob: bytes | None) -> int:
    return size_bytes_of(new.question, new.answer, new.embedded_text, len(blob or b""))


def size_bytes_of(question: str, answer: str, embedded_text: str, vector_bytes: int) -> int:
    """What an example counts against a tenant's cap. Raises ValueError: see `text_bytes`."""
    return FIXED_BYTES + vector_bytes + sum(map(text_bytes, (question, answer, embedded_text)))


def text_bytes(text: str) -> int:
    """How long a text is in UTF-8. Raises ValueError for what no database keeps as text: half a surrogate pair, U+0000."""
    if "\0" in text:
        raise ValueError("U+0000 is in the text, which PostgreSQL does not keep")
    return len(text.encode())


def instructions_of(connection: Connection, tenant: str, scope: str) -> str | None:
    """What router.digest.instructions said for this scope; None where it was not kept."""
    row = connection.execute(
        "SELECT instructions FROM example_instructions WHERE tenant = ? AND scope = ?", (tenant, scope)
    ).fetchone()
    return None if row is None else str(row[0])
