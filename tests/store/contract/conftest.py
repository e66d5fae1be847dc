"""One store per test, of each kind of database. These tests know the facade only: a second database must pass them, too."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import pytest

from store import Store
from tests.patience import eventually


class Opening(Protocol):
    """Opens a store on the test's data; each call gives one of its own, as another process would have it."""

    def __call__(self, **options: Any) -> Store: ...


BACKENDS = ("postgres", "sqlite")


def opener(kind: str, request: pytest.FixtureRequest, folder: Path) -> Callable[..., Store]:
    """What opens stores of a kind of database on one data folder."""
    if kind == "sqlite":
        return partial(Store.open, folder)
    return partial(Store.open, folder, database_url=request.getfixturevalue("postgres_url"))


@pytest.fixture(params=BACKENDS)
def open_store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Opening]:
    """Every store that it opened is closed at the end."""
    opened: list[Store] = []
    opening = opener(request.param, request, tmp_path / "data")

    def open_one(**options: Any) -> Store:
        opened.append(opening(**options))
        return opened[-1]

    yield open_one
    for store in opened:
        store.close()


@pytest.fixture
def kind(request: pytest.FixtureRequest) -> str:
    """Of the test's database: one of `BACKENDS`."""
    found: str = request.node.callspec.params["open_store"]
    return found


@pytest.fixture
def holds(kind: str) -> Callable[[Callable[[], object]], bool]:
    """Whether what another process did holds here: with SQLite from its commit on, with PostgreSQL once it is heard of."""
    return (lambda condition: bool(condition())) if kind == "sqlite" else eventually


@pytest.fixture
def store(open_store: Opening) -> Store:
    return open_store()
