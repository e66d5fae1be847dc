from __future__ import annotations

from pathlib import Path

import pytest

from store.people.keys import KeyStore, NoSuchKey
from store.people.secret import tenant_id
from store.sqlite.database import Database
from tests.patience import eventually

SECRET = bytes(range(32))


def test_a_key_is_recognised_and_its_secret_is_nowhere_on_disk(db: Database) -> None:
    keys = KeyStore(db, SECRET)
    assert keys.any_configured() is False
    key, secret_text = keys.create("acme", "laptop")

    assert secret_text.startswith("us-")
    assert keys.lookup(secret_text) == key
    assert keys.any_configured() is True
    assert keys.list() == [key]
    db.scrub().result(30)
    for file in db.path.parent.iterdir():
        assert secret_text.encode() not in file.read_bytes()
        assert secret_text[len(key.prefix) :].encode() not in file.read_bytes()


def test_an_unknown_or_nearly_right_secret_opens_nothing(db: Database) -> None:
    keys = KeyStore(db, SECRET)
    _, secret_text = keys.create("acme", "laptop")
    for wrong in ("", secret_text[:-1], secret_text + " ", secret_text.upper(), "us-\ud800"):
        assert keys.lookup(wrong) is None
    assert KeyStore(db, b"another installation's secret...").lookup(secret_text) is None


def test_a_revoked_key_opens_nothing_from_the_commit_on(db: Database) -> None:
    keys = KeyStore(db, SECRET)
    for _ in range(50):
        key, secret_text = keys.create("acme", "laptop")
        assert keys.lookup(secret_text) is not None
        revoked = keys.revoke(key.id).result(30)
        assert keys.lookup(secret_text) is None
        assert revoked.revoked_at_s is not None
        assert keys.revoke(key.id).result(30) == revoked


def test_revoking_the_last_key_does_not_open_the_door(db: Database) -> None:
    keys = KeyStore(db, SECRET)
    key, _ = keys.create("acme", "laptop")
    keys.revoke(key.id).result(30)
    assert keys.any_configured() is True


def test_a_revocation_and_a_new_key_reach_other_processes(tmp_path: Path) -> None:
    here, there = Database.open(tmp_path / "a.db"), Database.open(tmp_path / "a.db")
    ours, theirs = KeyStore(here, SECRET), KeyStore(there, SECRET)
    assert theirs.any_configured() is False
    key, secret_text = ours.create("acme", "laptop")

    assert eventually(lambda: theirs.lookup(secret_text) == key)
    ours.revoke(key.id).result(30)
    assert eventually(lambda: theirs.lookup(secret_text) is None)
    here.close()
    there.close()


def test_keys_of_one_tenant_share_it_and_never_meet_a_credential_s_tenant(db: Database) -> None:
    keys = KeyStore(db, SECRET)
    first, second, other = (keys.create(name, "x")[0] for name in ("acme", "acme", "emca"))
    assert first.tenant == second.tenant != other.tenant
    assert first.tenant != tenant_id(SECRET, "acme")
    assert first.tenant_name == "acme"


def test_what_cannot_be_right_is_refused_by_name(db: Database) -> None:
    keys = KeyStore(db, SECRET)
    with pytest.raises(ValueError, match="tenant name is ''"):
        keys.create("", "laptop")
    with pytest.raises(ValueError, match="key name is 'two"):
        keys.create("acme", "two\nlines")
    with pytest.raises(NoSuchKey, match="'key_missing'"):
        keys.revoke("key_missing").result(30)
