from __future__ import annotations

import os
from pathlib import Path

import pytest

from store.decisions.outcomes import Outcomes
from store.sqlite.database import Database
from store.sqlite.power_cut import sync_log
from tests.store.rows import outcome_record


def test_the_log_itself_is_what_is_synced_and_only_after_the_commit(
    db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[tuple[int, int]] = []
    real = os.fsync

    def watched(descriptor: int) -> None:
        real(descriptor)
        synced.append((os.fstat(descriptor).st_ino, os.fstat(descriptor).st_size))

    monkeypatch.setattr(os, "fsync", watched)
    Outcomes(db).note(outcome_record(1)).result(30)
    sync_log(db.path)
    log = Path(f"{db.path}-wal").stat()
    assert synced == [(log.st_ino, log.st_size)] and log.st_size > 0


def test_syncing_disturbs_no_writer_and_no_lock(db: Database) -> None:
    other = Database.open(db.path)
    writes = []
    for number in range(50):
        writes.append(Outcomes(other if number % 2 else db).note(outcome_record(number)))
        sync_log(db.path)
    assert len({write.result(30).id for write in writes}) == 50
    other.close()
    assert db.scrub().result(30) and len(Outcomes(db).after(0)) == 50


def test_without_a_log_there_is_nothing_to_sync(tmp_path: Path) -> None:
    db = Database.open(tmp_path / "a.db")
    Outcomes(db).note(outcome_record(1)).result(30)
    db.close()
    assert not Path(f"{db.path}-wal").exists()
    sync_log(db.path)
