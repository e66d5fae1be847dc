"""Searching texts by their words (SQLite FTS5), and getting deleted rows' words out of the index. Knows two tables of words.

An index of words forgets a deleted row for searches at once, but its words stay in the file until pages are merged. Purging
merges all of them, step by step, so that writers need not wait long.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Sequence
from typing import Literal

from store.errors import StoreBusy, StoreClosed
from store.sqlite.database import Database

Table = Literal["request_words", "example_words"]
TABLES: tuple[Table, ...] = ("request_words", "example_words")

_STEP_PAGES = 500
_MAX_WORDS = 12
_MOST_READ = 1000
"""Rows with any of the words; of a common word they would be most of the bank."""
_WORD = re.compile(r"\w+", re.UNICODE)


def as_match(text: str) -> str:
    """What a person typed, as an FTS5 query: all words, the last one also as a beginning; a "quoted" part as it stands.

    Nothing that is typed can be read as FTS5's syntax. Empty when there is no word in it.
    """
    parts: list[str] = []
    for place, piece in enumerate(text.split('"')):
        words = _WORD.findall(piece)[:_MAX_WORDS]
        if not words:
            continue
        quoted = place % 2 == 1
        parts += [" ".join(words)] if quoted else words
    if not parts:
        return ""
    typing = bool(text) and not text.rstrip().endswith('"') and not text.endswith(" ")
    return " ".join(f'"{part}"' for part in parts[:_MAX_WORDS]) + ("*" if typing else "")


def any_of(connection: sqlite3.Connection, tenant: str, scope: str, said: Sequence[str]) -> str | None:
    """An FTS5 query for examples of a tenant's scope whose questions have the rarest of some words; None: none is known."""
    marks = ",".join("?" * len(said))
    rows = connection.execute(
        f"SELECT term, doc FROM example_vocabulary WHERE term IN ({marks})",  # noqa: S608 - question marks
        list(said),
    )
    rarest: list[str] = []
    read = 0
    for term, count in sorted(rows.fetchall(), key=lambda row: row[1]):
        read += count
        if rarest and read > _MOST_READ:
            break
        rarest.append(f'"{term}"')
    if not rarest:
        return None
    place = [
        f'{name} : "{text.replace(chr(34), "")}"' for name, text in (("tenant", tenant), ("scope", scope))
    ]
    return " AND ".join([*place, f"question : ({' OR '.join(rarest)})"])


def purge(connection: sqlite3.Connection, table: Table) -> None:
    """Get every deleted row's words out of the index, at once. For a write job; seconds per hundred megabytes of index."""
    connection.execute(f"INSERT INTO {table} ({table}) VALUES ('optimize')")  # noqa: S608 - a table's name of ours


def purge_soon(db: Database, table: Table) -> None:
    """Have it done in steps, after what waits already. Never waits, and raises nothing: a closed store is purged no more."""
    _next_step(db, table, first=True)


def _next_step(db: Database, table: Table, *, first: bool) -> None:
    # A negative number begins merging all there is into one, a positive one goes on with it.
    pages = -_STEP_PAGES if first else _STEP_PAGES

    def step(connection: sqlite3.Connection) -> bool:
        before = connection.total_changes
        connection.execute(
            f"INSERT INTO {table} ({table}, rank) VALUES ('merge', ?)",  # noqa: S608 - a table's name of ours
            (pages,),
        )
        # So says SQLite's manual: fewer than two changes mean that nothing was left to merge.
        return connection.total_changes - before >= 2

    def after(more: bool) -> None:
        if more:
            _next_step(db, table, first=False)
        else:
            db.scrub_soon()

    try:
        db.write(step, after=after)
    except (StoreBusy, StoreClosed):
        return
