from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from store.sqlite.database import Database


@pytest.fixture
def db(tmp_path: Path) -> Iterator[Database]:
    database = Database.open(tmp_path / "understudy.db")
    yield database
    database.close()
