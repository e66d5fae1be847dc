"""New databases of the tests are copies of one that each process migrated: dozens of migrations take 0.1 s every time.

Gateways that tests start as processes of their own migrate by themselves, and so does whatever names other migrations.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import shutil
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from store.sqlite import database
from store.sqlite.schema import MIGRATIONS_FOLDER

_numbers = itertools.count(1)


@pytest.fixture(scope="session", autouse=True)
def databases_from_a_template(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """See the module."""
    prepared = database._prepare
    template = tmp_path_factory.mktemp("template") / "understudy.sqlite3"
    prepared(template, MIGRATIONS_FOLDER)

    def prepare(path: Path, migrations: Path) -> None:
        if migrations == MIGRATIONS_FOLDER and not path.exists():
            _copy(template, path)
        prepared(path, migrations)

    patch = pytest.MonkeyPatch()
    patch.setattr(database, "_prepare", prepare)
    yield
    patch.undo()


def _copy(template: Path, path: Path) -> None:
    """Put a copy with an id of its own there, whole or not at all; of several at once one does."""
    mine = template.with_name(f"{os.getpid()}-{next(_numbers)}.sqlite3")
    shutil.copyfile(template, mine)
    connection = sqlite3.connect(mine, isolation_level=None)
    connection.execute("PRAGMA synchronous = OFF")
    connection.execute("PRAGMA journal_mode = DELETE")
    connection.execute("UPDATE installation SET database_id = lower(hex(randomblob(16)))")
    connection.execute("PRAGMA journal_mode = WAL")
    connection.close()
    # Somebody may have been faster, or it cannot be there: SQLite tells which.
    with contextlib.suppress(OSError):
        os.link(mine, path)
    mine.unlink()
