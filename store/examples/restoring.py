"""Puts rows back with the accounts they had: for imports of an export. Decides nothing about them."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import astuple, dataclass

from store.examples.admitting import admit
from store.examples.rows import refresh_worth
from store.examples.twins import TwinRule
from store.examples.vectors import to_blob
from store.records import Admitted, Example, NewExample
from store.sqlite.database import Database


@dataclass(frozen=True, slots=True)
class Account:
    """What an example went through before: times in Unix seconds, sums as in store.examples.accounting."""

    flagged: bool
    merged: int
    uses: int
    last_used_at_s: float | None
    used: float
    used_at_s: float
    gain: float
    gain_at_s: float
    quality_sum: float
    quality_count: int

    @classmethod
    def of(cls, example: Example) -> Account:
        """The account of an example as it is now."""
        return cls(
            example.flagged,
            example.merged,
            example.uses,
            example.last_used_at_s,
            example.used,
            example.used_at_s,
            example.gain,
            example.gain_at_s,
            example.quality_sum,
            example.quality_count,
        )


@dataclass(frozen=True, slots=True)
class Restored:
    """A pair on its way in. `account` and `created_at_s` are given to it if it is added; None for a new one."""

    new: NewExample
    account: Account | None = None
    created_at_s: float | None = None


def restore_many(db: Database, rows: Sequence[Restored]) -> Future[list[Admitted]]:
    """Admit some hundreds of pairs in one transaction, all or none. What is known already is left as it is.

    Followers in this process are not notified; they see it when they next look. Raises BadVector or StoreBusy at once.
    """
    blobs = [None if row.new.vector is None else to_blob(row.new.vector) for row in rows]
    now_s, rule = time.time(), TwinRule()

    def job(connection: sqlite3.Connection) -> list[Admitted]:
        done = []
        for row, blob in zip(rows, blobs, strict=True):
            admitted = admit(connection, row.new, blob, now_s, rule)
            if admitted.outcome == "added":
                _give_back(connection, admitted.example.id, row)
            done.append(admitted)
        return done

    return db.write(job)


def _give_back(connection: sqlite3.Connection, id: int, row: Restored) -> None:
    if row.created_at_s is not None:
        connection.execute("UPDATE examples SET created_at_s = ? WHERE id = ?", (row.created_at_s, id))
        connection.execute("UPDATE example_accounts SET seen_at_s = ? WHERE id = ?", (row.created_at_s, id))
    if row.account is not None:
        connection.execute(
            "UPDATE example_accounts SET flagged = ?, merged = ?, uses = ?, last_used_at_s = ?, used = ?, used_at_s = ?,"
            " gain = ?, gain_at_s = ?, quality_sum = ?, quality_count = ? WHERE id = ?",
            (*astuple(row.account), id),
        )
    if row.created_at_s is not None or row.account is not None:
        refresh_worth(connection, id)
