"""Whose ids are: an id noted for one is nobody else's, and one that nobody noted is no stranger's."""

from __future__ import annotations

from store import Store
from store.people.owned import Owned


def test_an_id_is_told_to_its_owner_only(store: Store) -> None:
    ids = store.owned
    ids.note("resp_1", Owned("response", "acme", "", "key_a", "large")).result(30)
    ids.note("resp_2", Owned("response", "acme", "ann", "key_a", "large", "r1", at_s=5.0)).result(30)
    found = ids.find("resp_1", "acme", "bob")
    assert found is not None
    assert (found.key_id, found.engine, found.replica) == ("key_a", "large", "")
    assert ids.find("resp_2", "acme", "ann") == Owned("response", "acme", "ann", "key_a", "large", "r1", 5.0)
    assert ids.find("resp_2", "acme", "bob") is None
    assert ids.find("resp_2", "acme") == ids.find("resp_2", "acme", "ann")
    assert [ids.is_strangers("resp_2", *who) for who in (("acme", "bob"), ("beta",), ("acme", "ann"))] == [
        True,
        True,
        False,
    ]
    assert not ids.is_strangers("resp_3", "acme")


def test_a_replayed_id_is_that_of_several_and_goes_with_each(store: Store) -> None:
    ids = store.owned
    for user in ("ann", "bob"):
        ids.note("resp_1", Owned("response", "acme", user, "", "large", at_s=10.0)).result(30)
    ids.note("resp_1", Owned("response", "acme", "ann", "", "small", at_s=20.0)).result(30)
    assert [ids.find("resp_1", "acme", user).engine for user in ("ann", "bob")] == ["small", "large"]  # type: ignore[union-attr]
    assert ids.trim(15.0).result(30) == 1
    assert ids.forget("resp_1", "acme", "bob").result(30) == 0
    assert ids.forget_end_user("acme", "ann").result(30) == 1
    assert not ids.is_strangers("resp_1", "beta")
    ids.note("resp_1", Owned("response", "acme", "", "", "")).result(30)
    assert ids.forget_tenant("acme").result(30) == 1
