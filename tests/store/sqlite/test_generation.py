from __future__ import annotations

from store.sqlite.database import Database
from store.sqlite.generation import Generation


def test_a_bump_is_told_once_and_other_commits_are_not_told(db: Database) -> None:
    watching = Generation(db, "keys", check_every_s=0.0)
    assert watching.changed() is False

    db.write(lambda connection: connection.execute("UPDATE example_sequence SET last_seq = 1")).result(30)
    assert watching.changed() is False

    db.write(Generation(db, "keys").bump).result(30)
    assert watching.changed() is True
    assert watching.changed() is False


def test_within_the_interval_nobody_looks(db: Database) -> None:
    watching = Generation(db, "keys", check_every_s=1e9)
    assert watching.changed() is False
    db.write(watching.bump).result(30)
    assert watching.changed() is False
