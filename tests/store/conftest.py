from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from store.database import Database as AnyDatabase
from store.sqlite.database import Database


@pytest.fixture
def db(tmp_path: Path) -> Iterator[Database]:
    database = Database.open(tmp_path / "understudy.db")
    yield database
    database.close()


@pytest.fixture(params=("postgres", "sqlite"))
def either(request: pytest.FixtureRequest) -> Iterator[AnyDatabase]:
    """A database of each kind: for what is not about one of them."""
    if request.param == "sqlite":
        yield request.getfixturevalue("db")
        return
    url = request.getfixturevalue("postgres_url")
    from store.postgres.database import PostgresDatabase

    database = PostgresDatabase.open(url)
    yield database
    database.close()
