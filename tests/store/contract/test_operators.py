"""Accounts of the admin pages: roles and passwords change, and the last operator stays."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from store import Store
from store.people.operators import LastOperator, NoSuchUser
from tests.store.contract.conftest import Opening


def test_the_last_operator_stays_whatever_is_asked(store: Store) -> None:
    people = store.operators
    people.put("ann", "operator", "hash")
    people.put("ben", "viewer", "hash")
    for ask in (
        lambda: people.remove("ann"),
        lambda: people.set_role("ann", "viewer"),
        lambda: people.put("ann", "viewer", "another"),
    ):
        with pytest.raises(LastOperator, match="'ann' is the only operator"):
            ask()
    assert people.get("ann").password_hash == "hash", "nothing was changed"  # type: ignore[union-attr]
    assert people.set_role("ann", "operator") == ("operator", "operator")
    assert people.set_role("ben", "operator") == ("viewer", "operator")
    assert people.remove("ann") and not people.remove("ann")
    with pytest.raises(LastOperator):
        people.remove("ben")
    with pytest.raises(NoSuchUser):
        people.set_role("ann", "viewer")
    with pytest.raises(ValueError, match="one of viewer"):
        people.set_role("ben", "king")


def test_of_two_operators_who_remove_each_other_one_stays(open_store: Opening) -> None:
    stores = [open_store(), open_store()]
    for name in ("ann", "ben"):
        stores[0].operators.put(name, "operator", "hash")

    def remove(store: Store, name: str) -> bool:
        try:
            return store.operators.remove(name)
        except LastOperator:
            return False

    with ThreadPoolExecutor(2) as pool:
        done = list(pool.map(remove, stores, ("ann", "ben")))
    assert sorted(done) == [False, True] and len(stores[0].operators.list()) == 1


def test_an_account_is_made_once(store: Store) -> None:
    store.operators.put("ann", "operator", "hash", new=True)
    with pytest.raises(ValueError, match="there is an account 'ann' already"):
        store.operators.put("ann", "operator", "another", new=True)


def test_open_sessions_are_listed_without_their_cookies_and_ended_one_by_one(store: Store) -> None:
    for name in ("ann", "ben"):
        store.operators.put(name, "operator", "hash")
    sessions = store.sessions()
    mine, other, bens = sessions.open("ann"), sessions.open("ann"), sessions.open("ben")
    listed = sessions.open_ones()
    assert [one.user for one in listed] == ["ann", "ann", "ben"]
    assert not any(cookie in str(listed) for cookie in (mine, other, bens))
    (theirs,) = [one for one in listed if one.user == "ben"]
    assert not sessions.end_one("ann", theirs.id), "not somebody else's"
    assert sessions.end_one("ben", theirs.id) and sessions.find(bens) is None
    assert sessions.end_all("ann") == 2 and sessions.open_ones() == []
