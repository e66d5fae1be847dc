"""The store of a data folder, for what a command is to find in it and for what it left there."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from store import Store


@contextmanager
def opened(data: Path) -> Iterator[Store]:
    """Closed before a command runs on the same folder."""
    store = Store.open(data)
    try:
        yield store
    finally:
        store.close()
