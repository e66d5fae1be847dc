"""PostgreSQL's errors as the store's own, with the cause kept. No value of anybody's is in what is said."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
from psycopg import errors

from store.errors import StoreError, StoreFailed, ValueRefused

_REFUSED = (psycopg.IntegrityError, psycopg.DataError)
_RULES = (
    (errors.UniqueViolation, "UNIQUE"),
    (errors.NotNullViolation, "NOT NULL"),
    (errors.CheckViolation, "CHECK"),
    (errors.ForeignKeyViolation, "FOREIGN KEY"),
)
_AGAIN = (errors.DeadlockDetected, errors.SerializationFailure, errors.LockNotAvailable)


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
    """The store's error for one of PostgreSQL's, which is its cause."""
    found: StoreError
    if isinstance(error, _REFUSED):
        found = ValueRefused(_refusal(error))
    else:
        found = StoreFailed(in_words(error))
    found.__cause__ = error
    return found


def _refusal(error: psycopg.Error) -> str:
    """Which rule was broken, in SQLite's words where both know it."""
    rule = next((rule for kind, rule in _RULES if isinstance(error, kind)), None)
    if rule is None:
        return type(error).__name__
    diag = error.diag
    what = f"{diag.table_name}.{diag.column_name}" if diag.column_name else diag.constraint_name
    return f"{rule} constraint failed: {what}"


def may_succeed_again(error: BaseException) -> bool:
    """Whether the same transaction may well succeed when it is tried again at once."""
    return isinstance(error, _AGAIN) or isinstance(error.__cause__, _AGAIN)


def is_lost(error: BaseException) -> bool:
    """Whether the connection is gone, or the server refuses for now (starting, stopping, read-only after a failover)."""
    cause = error if isinstance(error, psycopg.Error) else error.__cause__
    if isinstance(cause, errors.ReadOnlySqlTransaction):
        return True
    return isinstance(cause, psycopg.OperationalError) and not isinstance(
        cause, (*_AGAIN, errors.QueryCanceled, errors.DiskFull)
    )


@contextmanager
def translating() -> Iterator[None]:
    """Raise the store's errors where the block raises PostgreSQL's."""
    try:
        yield
    except psycopg.Error as error:
        raise translated(error) from error
