"""PostgreSQL's errors as the store's own, with the cause kept. No value of anybody's is in what is said."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
from psycopg import errors
from psycopg_pool import PoolClosed

from store.errors import NO_INTEGER, StoreClosed, StoreError, StoreFailed, ValueRefused

_REFUSED = (psycopg.IntegrityError, psycopg.DataError)
_RULES = (
    (errors.UniqueViolation, "UNIQUE"),
    (errors.NotNullViolation, "NOT NULL"),
    (errors.CheckViolation, "CHECK"),
    (errors.ForeignKeyViolation, "FOREIGN KEY"),
)
_AGAIN = (errors.DeadlockDetected, errors.SerializationFailure, errors.LockNotAvailable)

_AWAY = ("08", "53", "57P", "58", "25006", "25P03", "28", "3D000", "XX")
"""SQLSTATEs: connection, resources, shutdown, input and output, read-only transaction, idle too long, refused, no such
database, corrupted."""


def in_words(error: BaseException) -> str:
    """What went wrong, for people: the server's message without its DETAIL, which would quote values."""
    if isinstance(error, psycopg.Error):
        said = error.diag.message_primary if error.diag is not None else None
        if said:
            return said
        if isinstance(error, psycopg.OperationalError):
            return "no connection to PostgreSQL"
    return type(error).__name__


def translated(error: psycopg.Error) -> StoreError:
    """The store's error for one of PostgreSQL's, or of its pool's, which is its cause."""
    if isinstance(error, PoolClosed):
        return StoreClosed("the store is closed: nothing more can be read")
    refused = isinstance(error, _REFUSED)
    found: StoreError = ValueRefused(_refusal(error)) if refused else StoreFailed(in_words(error))
    found.__cause__ = error
    return found


def _refusal(error: psycopg.Error) -> str:
    """Which rule was broken, in SQLite's words where both know it."""
    rule = next((rule for kind, rule in _RULES if isinstance(error, kind)), None)
    if isinstance(error, errors.NumericValueOutOfRange):
        return NO_INTEGER
    if rule is None:
        return type(error).__name__
    diag = error.diag
    what = f"{diag.table_name}.{diag.column_name}" if diag.column_name else diag.constraint_name
    return f"{rule} constraint failed: {what}"


def may_succeed_again(error: BaseException) -> bool:
    """Whether the same transaction may well succeed when it is tried again at once."""
    return isinstance(error, _AGAIN) or isinstance(error.__cause__, _AGAIN)


def is_lost(error: BaseException) -> bool:
    """Whether nothing can be written for now: no connection, the server starts or stops, is read-only, or has no room left.

    What one statement is refused for (too long, a lock not got, cancelled) is not that.
    """
    cause = error if isinstance(error, psycopg.Error) else error.__cause__
    if not isinstance(cause, psycopg.Error) or isinstance(cause, errors.PipelineAborted):
        return False
    if cause.sqlstate is None:
        return isinstance(cause, psycopg.OperationalError)
    return cause.sqlstate.startswith(_AWAY)


@contextmanager
def translating() -> Iterator[None]:
    """Raise the store's errors where the block raises PostgreSQL's."""
    try:
        yield
    except psycopg.Error as error:
        raise translated(error) from error
