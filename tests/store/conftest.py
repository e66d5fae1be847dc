"""A database per test, of both kinds where a room's nouns know neither; a test about SQLite says so."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from store.database import Database
from store.sqlite.database import Database as SqliteDatabase

_ON_BOTH = ("examples", "answers")
"""Rooms whose tests run on both."""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run what asks for `db` on each kind of database that it is about: `@pytest.mark.sqlite` for one alone."""
    if "db" in metafunc.fixturenames and metafunc.definition.path.parent.name in _ON_BOTH:
        alone = metafunc.definition.get_closest_marker("sqlite") is not None
        metafunc.parametrize("db", ("sqlite",) if alone else ("postgres", "sqlite"), indirect=True)


@pytest.fixture
def db(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Database]:
    database = _opening(request, tmp_path)()
    yield database
    database.close()


@pytest.fixture
def open_again(
    request: pytest.FixtureRequest, db: Database, tmp_path: Path
) -> Iterator[Callable[[], Database]]:
    """Opens the database of `db` once more, as another process would."""
    opened: list[Database] = []
    opening = _opening(request, tmp_path)

    def open_one() -> Database:
        opened.append(opening())
        return opened[-1]

    yield open_one
    for database in opened:
        database.close()


def _opening(request: pytest.FixtureRequest, folder: Path) -> Callable[[], Database]:
    callspec = getattr(request.node, "callspec", None)
    kind = callspec.params.get("db", "sqlite") if callspec is not None else "sqlite"
    if kind == "sqlite":
        return lambda: SqliteDatabase.open(folder / "understudy.db")
    url: str = request.getfixturevalue("postgres_url")
    from store.postgres.database import PostgresDatabase

    return lambda: PostgresDatabase.open(url)


@pytest.fixture(params=("postgres", "sqlite"))
def either(request: pytest.FixtureRequest) -> Iterator[Database]:
    """A database of each kind: for what is not about one of them."""
    if request.param == "sqlite":
        yield request.getfixturevalue("db")
        return
    url = request.getfixturevalue("postgres_url")
    from store.postgres.database import PostgresDatabase

    database = PostgresDatabase.open(url)
    yield database
    database.close()
