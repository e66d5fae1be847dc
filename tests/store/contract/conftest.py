"""One store per test, of each kind of database. These tests know the facade only: a second database must pass them, too."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Protocol

import pytest

from store import Store


class Opening(Protocol):
    """Opens a store on the test's data; each call gives one of its own, as another process would have it."""

    def __call__(self, **options: Any) -> Store: ...


def _sqlite(folder: Path) -> Callable[..., Store]:
    return lambda **options: Store.open(folder / "data", **options)


BACKENDS = {"sqlite": _sqlite}


@pytest.fixture(params=sorted(BACKENDS))
def open_store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Opening]:
    """Every store that it opened is closed at the end."""
    opened: list[Store] = []
    opening = BACKENDS[request.param](tmp_path)

    def open_one(**options: Any) -> Store:
        opened.append(opening(**options))
        return opened[-1]

    yield open_one
    for store in opened:
        store.close()


@pytest.fixture
def store(open_store: Opening) -> Store:
    return open_store()
