"""Sessions of the admin pages: what ends them, and what a thief of the database gets."""

from __future__ import annotations

import pytest

from store.database import Database
from store.people.operators import AdminUsers
from store.people.sessions import AdminSessions


@pytest.fixture
def db(either: Database) -> Database:
    AdminUsers(either).put("ann", "viewer", "hash")
    return either


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


def test_a_session_ends_when_idle_and_after_its_longest_time(db: Database) -> None:
    clock = Clock()
    sessions = AdminSessions(db, b"s" * 32, idle_s=100, longest_s=300, clock=clock)
    token = sessions.open("ann")
    for _ in range(5):
        clock.now += 50
        found = sessions.find(token)
        assert found is not None and (found.user, found.role) == ("ann", "viewer")
        db.drain(5)
    clock.now += 51
    assert sessions.find(token) is None, "older than the longest"
    token = sessions.open("ann")
    clock.now += 101
    assert sessions.find(token) is None, "idle"


def test_a_page_that_refreshes_itself_keeps_nobody_signed_in(db: Database) -> None:
    clock = Clock()
    sessions = AdminSessions(db, b"s" * 32, idle_s=100, longest_s=1000, clock=clock)
    token = sessions.open("ann")
    for _ in range(3):
        clock.now += 40
        sessions.find(token, touch=False)
        db.drain(5)
    assert sessions.find(token) is None


def test_the_database_holds_no_cookie(db: Database) -> None:
    token = AdminSessions(db, b"s" * 32).open("ann")
    stored = str(db.read().execute("SELECT * FROM admin_sessions").fetchall())
    assert token not in stored
    assert AdminSessions(db, b"t" * 32).find(token) is None, "without the secret a row is worth nothing"
