"""The database behind a store, for the few tests that must look at its tables, or hurt them."""

from __future__ import annotations

from store import Store
from store.sqlite.database import Database


def database(store: Store) -> Database:
    return store._db
