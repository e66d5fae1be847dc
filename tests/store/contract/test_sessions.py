"""Sessions of the admin pages: what ends them, and what a thief of the database gets."""

from __future__ import annotations

import pytest

from store import Store
from tests.store.contract.conftest import Opening


@pytest.fixture
def store(open_store: Opening) -> Store:
    """With one person who may sign in."""
    made = open_store()
    made.operators.put("ann", "viewer", "hash")
    return made


def test_a_new_password_and_a_removed_account_end_sessions(store: Store) -> None:
    sessions, users = store.sessions(), store.operators
    token = sessions.open("ann")
    users.put("ann", None, "another")
    assert sessions.find(token) is None
    assert users.get("ann").role == "viewer"  # type: ignore[union-attr]
    token = sessions.open("ann")
    assert users.remove("ann") and not users.remove("ann")
    assert sessions.find(token) is None


def test_the_cookie_a_browser_came_with_is_worth_nothing_after_signing_in(store: Store) -> None:
    sessions = store.sessions()
    before = sessions.open("ann")
    after = sessions.open("ann", instead_of=before)
    assert sessions.find(before) is None and sessions.find(after) is not None


def test_only_one_of_two_processes_makes_the_first_account(store: Store) -> None:
    users = store.operators
    assert not users.add_first("operator", "hash")
    users.remove("ann")
    assert users.add_first("operator", "hash") and not users.add_first("operator", "hash")


@pytest.mark.parametrize(
    ("name", "role"), [("", "viewer"), ("a b", "viewer"), ("x" * 65, None), ("ann", "root")]
)
def test_an_impossible_account_is_refused_by_name(store: Store, name: str, role: str | None) -> None:
    with pytest.raises(ValueError, match="is '"):
        store.operators.put(name, role, "hash")


def test_whose_a_session_was_is_known_for_a_day_after_its_end_and_opens_nothing(store: Store) -> None:
    now_s = [1_000_000.0]
    sessions = store.sessions(idle_s=10, longest_s=100)
    sessions._clock = lambda: now_s[0]
    token = sessions.open("ann")
    now_s[0] += 3600
    sessions.open("ann")
    assert sessions.find(token) is None and sessions.whose(token) == "ann"
    assert sessions.whose("no such cookie") == ""
    now_s[0] += 86_400
    sessions.open("ann")
    assert sessions.whose(token) == ""
