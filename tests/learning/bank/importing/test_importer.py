"""The importer's promises, with a bank that fails on purpose: bounded, and never ahead of what is committed."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path

import pytest

from learning.bank.contributor import EndUsers
from learning.bank.importing.importer import Importer, Options
from store.examples.bank import ExampleBank
from store.examples.imports import ImportCursors
from store.records import Admitted, Restored
from store.sqlite.database import Database
from understudy.settings.memory import MemorySettings
from understudy.setup.examples import admission


class Watched:
    """Admits, notes how much it is handed at once, and breaks when told to."""

    def __init__(self, db: Database) -> None:
        self._db = db
        self.batches: list[int] = []
        self.breaks_after: int | None = None

    def __call__(self, news: Sequence[Restored]) -> Future[list[Admitted]]:
        self.batches.append(len(news))
        if self.breaks_after is not None and len(self.batches) > self.breaks_after:
            broken: Future[list[Admitted]] = Future()
            broken.set_exception(OSError("the disk is full"))
            return broken
        return ExampleBank(self._db).restore_many(news)


class Silent:
    def advanced(self, read_bytes: int, size_bytes: int) -> None: ...

    def refused(self, path: str, line: int, reason: str) -> None: ...


@pytest.fixture
def db(tmp_path: Path) -> Iterator[Database]:
    db = Database.open(tmp_path / "understudy.db")
    yield db
    db.close()


@contextmanager
def importer(db: Database, bank: Watched) -> Iterator[Importer]:
    options = Options("default")
    made = Importer(
        bank,
        ImportCursors(db),
        EndUsers(b"s" * 32, apart=True),
        admission(MemorySettings()),
        options,
        Silent(),
    )
    yield made
    made.close()


def pairs(path: Path, count: int, answer: str = "Yes.") -> str:
    with path.open("w") as file:
        for i in range(count):
            turns = [{"role": "user", "content": f"Question {i}?"}, {"role": "assistant", "content": answer}]
            file.write(json.dumps({"messages": turns}) + "\n")
    return str(path)


def test_no_more_than_one_batch_is_ever_held(db: Database, tmp_path: Path) -> None:
    bank = Watched(db)
    with importer(db, bank) as first:
        first.read(pairs(tmp_path / "many", 1200))
    assert bank.batches == [500, 500, 200]
    large = Watched(db)
    with importer(db, large) as second:
        second.read(pairs(tmp_path / "large", 800, "So it is, word for word. " * 300))
    assert max(large.batches) * 7500 < 5 * 2**20


def test_the_cursor_is_never_ahead_of_what_is_committed(db: Database, tmp_path: Path) -> None:
    bank, file = Watched(db), pairs(tmp_path / "f", 1200)
    bank.breaks_after = 2
    with importer(db, bank) as first, pytest.raises(OSError, match="disk is full"):
        first.read(file)
    assert ExampleBank(db).count("default") == 1000
    bank.breaks_after = None
    with importer(db, bank) as second:
        second.read(file)
    assert (second.counts.skipped, second.counts.added, second.counts.known) == (1000, 200, 0)
    assert ExampleBank(db).count("default") == 1200
