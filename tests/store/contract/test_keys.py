from __future__ import annotations

import pytest

from store import Store
from store.people.keys import NoSuchKey
from store.people.secret import tenant_id
from tests.patience import eventually
from tests.store.contract.conftest import Opening


def test_an_unknown_or_nearly_right_secret_opens_nothing(store: Store) -> None:
    keys = store.keys
    _, secret_text = keys.create("acme", "laptop")
    for wrong in ("", secret_text[:-1], secret_text + " ", secret_text.upper(), "us-\ud800"):
        assert keys.lookup(wrong) is None


def test_a_revoked_key_opens_nothing_from_the_commit_on(store: Store) -> None:
    keys = store.keys
    for _ in range(50):
        key, secret_text = keys.create("acme", "laptop")
        assert keys.lookup(secret_text) is not None
        revoked = keys.revoke(key.id).result(30)
        assert keys.lookup(secret_text) is None
        assert revoked.revoked_at_s is not None
        assert keys.revoke(key.id).result(30) == revoked


def test_revoking_the_last_key_does_not_let_everybody_in(store: Store) -> None:
    keys = store.keys
    key, _ = keys.create("acme", "laptop")
    keys.revoke(key.id).result(30)
    assert keys.any_configured() is True


def test_keys_of_one_tenant_share_it_and_never_meet_a_credential_s_tenant(store: Store) -> None:
    keys = store.keys
    first, second, other = (keys.create(name, "x")[0] for name in ("acme", "acme", "emca"))
    assert first.tenant == second.tenant != other.tenant
    assert first.tenant != tenant_id(store.secret, "acme")
    assert first.tenant_name == "acme"


def test_what_cannot_be_right_is_refused_by_name(store: Store) -> None:
    keys = store.keys
    with pytest.raises(ValueError, match="tenant name is ''"):
        keys.create("", "laptop")
    with pytest.raises(ValueError, match="key name is 'two"):
        keys.create("acme", "two\nlines")
    with pytest.raises(NoSuchKey, match="'key_missing'"):
        keys.revoke("key_missing").result(30)


@pytest.mark.slow
def test_a_revocation_and_a_new_key_reach_other_processes(open_store: Opening) -> None:
    ours, theirs = open_store().keys, open_store().keys
    assert theirs.any_configured() is False
    key, secret_text = ours.create("acme", "laptop")

    assert eventually(lambda: theirs.lookup(secret_text) == key)
    ours.revoke(key.id).result(30)
    assert eventually(lambda: theirs.lookup(secret_text) is None)


def test_keys_from_memory_are_those_that_are_stored(open_store: Opening) -> None:
    store, other = open_store(), open_store()
    first, _ = store.keys.create("acme", "web")
    assert [*store.keys.listed()] == store.keys.list() == [first]
    assert store.keys.listed()[0] is store.keys.listed()[0], "it was not read again"
    second, _ = other.keys.create("acme", "app")
    assert eventually(lambda: [*store.keys.listed()] == [first, second]), "another process made it"
    # What this one did is there at once.
    store.keys.revoke(first.id).result(30)
    assert [*store.keys.listed()] == store.keys.list() and store.keys.listed()[0].revoked_at_s
    store.keys.rotate(second.id, 3600.0)
    assert store.keys.listed()[1].rotated_until_s and [*store.keys.listed()] == store.keys.list()
