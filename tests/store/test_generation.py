from __future__ import annotations

import pytest

from store.errors import StoreFailed
from store.generation import Generation
from store.sqlite.database import Database


def test_a_bump_moves_the_value_and_other_commits_do_not(db: Database) -> None:
    watching = Generation(db, "keys", check_every_s=0.0)
    before = watching.value()

    db.write(lambda connection: connection.execute("UPDATE example_sequence SET last_seq = 1")).result(30)
    assert watching.value() == before

    db.write(Generation(db, "keys").bump).result(30)
    assert watching.value() == before + 1
    assert watching.value() == before + 1


def test_within_the_interval_nobody_looks_unless_told_to(db: Database) -> None:
    watching = Generation(db, "keys", check_every_s=1e9)
    before = watching.value()
    db.write(watching.bump).result(30)
    assert watching.value() == before
    watching.look_again()
    assert watching.value() == before + 1


def test_a_look_that_failed_has_seen_nothing(db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    watching = Generation(db, "keys", check_every_s=0.0)
    before = watching.value()
    db.write(watching.bump).result(30)
    with monkeypatch.context() as broken:

        def fails() -> None:
            raise StoreFailed("disk I/O error")

        broken.setattr(db, "read", fails)
        with pytest.raises(StoreFailed):
            watching.value()
    assert watching.value() == before + 1
