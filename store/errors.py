"""The errors of the store, whatever database stands behind it. Nobody outside catches a database's own.

    StoreError
    ├── StoreBusy           more writes wait than the store holds: drop this one, or try later
    ├── StoreClosed         the store is closed, or was closed before this could be written
    ├── StoreFailed         the database failed: disk full, file damaged, locked for too long; `__cause__` says which
    │   └── ValueRefused    a rule of the schema forbids this value
    ├── SchemaError         the database cannot be brought to the schema that this version needs
    │   └── DatabaseTooNew  a later version of the program has changed it already
    ├── BadAddress          the connection string of a database cannot be read, or must not be used as it is
    └── BadSecretFile       the file of the installation's secret holds something else

A noun may have errors of its own, such as NoSuchKey: they stand beside it. A write's errors are its future's.
"""

from __future__ import annotations


class StoreError(Exception):
    """Any error of the store."""


class StoreBusy(StoreError):
    """More jobs wait to be written than the store holds: drop this one, or try later."""


class StoreClosed(StoreError):
    """The store is closed, or was closed before this job could be written."""


class StoreFailed(StoreError):
    """The database could not do what was asked. The cause is the database's own error."""


NO_INTEGER = "an integer beyond 64 bits"


class ValueRefused(StoreFailed):
    """A rule of the schema forbids a value. A text that has no UTF-8 raises Python's UnicodeEncodeError instead."""


class SchemaError(StoreError):
    """The database cannot be brought to this code's schema; the message says why and what to do."""


class DatabaseTooNew(SchemaError):
    """A later version of the program has already changed this database."""


class BadAddress(StoreError):
    """A database's connection string cannot be read, or must not be used as it is; the message holds no password."""


class BadSecretFile(StoreError):
    """The file that should hold the installation's secret holds something else."""
