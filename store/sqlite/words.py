"""Searching texts by their words (SQLite FTS5), and getting deleted rows' words out of the index. Knows two tables of words.

An index of words forgets a deleted row for searches at once, but its words stay in the file until pages are merged. Purging
merges all of them, step by step, so that writers need not wait long.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from functools import partial
from typing import Any, Protocol

from store.database import WordsTable
from store.errors import StoreBusy, StoreClosed, StoreFailed
from store.typed import typed

_TABLES: tuple[WordsTable, ...] = ("request_words", "example_words")

_STEP_PAGES = 500
_MOST_READ = 1000
"""Rows with any of the words; of a common word they would be most of the bank."""
_MATCHING = (
    "SELECT rowid, -bm25(example_words, 0, 0, 1, 0) AS score FROM example_words WHERE example_words MATCH ?"
    " ORDER BY score DESC LIMIT ?"
)


def as_match(text: str) -> str:
    """What a person typed, as an FTS5 query: all words, the last one also as a beginning; a "quoted" part as it stands.

    Nothing that is typed can be read as FTS5's syntax. Empty when there is no word in it.
    """
    asked = typed(text)
    if not asked.parts:
        return ""
    return " ".join(f'"{part}"' for part in asked.parts) + ("*" if asked.beginning else "")


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


class _Database(Protocol):
    """What this needs of SQLite's database."""

    def read(self) -> sqlite3.Connection: ...

    def write(
        self, job: Callable[[Any], Any], *, after: Callable[[Any], None] | None = None
    ) -> Future[Any]: ...

    def scrub_soon(self) -> None: ...


class SqliteWords:
    """Search by words in one database."""

    def __init__(self, db: _Database) -> None:
        self._db = db

    def examples(self, tenant: str, text: str, limit: int) -> list[int]:
        """See `store.database.Words`. Of all tenants' rows: whose they are is for the caller to look at."""
        match = as_match(text)
        if not match:
            return []
        found = self._db.read().execute(
            "SELECT rowid FROM example_words WHERE example_words MATCH ? ORDER BY rank LIMIT ?",
            (f"{{question answer}} : ({match})", limit),
        )
        return [id for (id,) in found.fetchall()]

    def questions(
        self, tenant: str, scope: str, said: Sequence[str], limit: int, within_s: float
    ) -> list[tuple[int, float]]:
        """See `store.database.Words`."""
        read, end = self._db.read(), time.monotonic() + within_s
        read.set_progress_handler(lambda: time.monotonic() > end, 1000)
        try:
            match = any_of(read, tenant, scope, said)
            return [] if match is None else read.execute(_MATCHING, (match, limit)).fetchall()
        except StoreFailed:
            return []
        finally:
            read.set_progress_handler(None, 0)

    def requests(self, text: str, before: int, limit: int) -> list[tuple[int, str]]:
        """See `store.database.Words`."""
        match = as_match(text)
        if not match:
            return []
        rows = self._db.read().execute(
            "SELECT w.rowid, t.request_id FROM request_words w JOIN request_texts t ON t.row_id = w.rowid"
            " WHERE request_words MATCH ? AND w.rowid < ? ORDER BY w.rowid DESC LIMIT ?",
            (match, before, limit),
        )
        return rows.fetchall()

    def purge(self, timeout_s: float) -> None:
        """Get every deleted row's words out, at once; seconds per hundred megabytes of index."""
        for table in _TABLES:
            self._db.write(partial(_optimise, table=table)).result(timeout_s)

    def purge_soon(self, table: WordsTable) -> None:
        """Have it done in steps, after what waits already. Never waits, and raises nothing."""
        _next_step(self._db, table, first=True)


def _optimise(connection: sqlite3.Connection, table: WordsTable) -> None:
    connection.execute(f"INSERT INTO {table} ({table}) VALUES ('optimize')")  # noqa: S608 - a table's name of ours


def _next_step(db: _Database, table: WordsTable, *, first: bool) -> None:
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
