"""REMEMBERS: `Store` is everything under one data folder, by nouns; nobody outside names a table or holds a connection.

The database is the truth; the vector index is derived from it and can always be rebuilt.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from store.store import Forgotten, Store

__all__ = ["Forgotten", "Store"]


def __getattr__(name: str) -> Any:
    # A gateway without memory imports values and errors of this package, and nothing of what a database takes.
    if name in __all__:
        from store import store

        return getattr(store, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
