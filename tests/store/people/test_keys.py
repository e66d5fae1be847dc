from __future__ import annotations

import pytest

from store.database import Database as AnyDatabase
from store.errors import StoreFailed
from store.people.keys import KeyStore
from store.sqlite.database import Database

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


def test_a_key_in_force_is_found_by_its_id_without_reading(
    either: AnyDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys = KeyStore(either, SECRET)
    key, secret_text = keys.create("acme", "laptop")
    assert keys.lookup(secret_text) == key and keys.in_force("key_none") is None
    with monkeypatch.context() as broken:
        broken.setattr(either, "read", None)
        assert keys.in_force(key.id) == (key, None)
    keys.revoke(key.id).result(30)
    assert keys.in_force(key.id) is None


def test_a_key_of_another_installation_opens_nothing(either: AnyDatabase) -> None:
    _, secret_text = KeyStore(either, SECRET).create("acme", "laptop")
    assert KeyStore(either, b"another installation's secret...").lookup(secret_text) is None


@pytest.mark.parametrize("fails", ["data_version", "read"])
def test_a_revocation_is_not_lost_to_a_reading_that_failed(
    either: AnyDatabase, fails: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours, theirs = KeyStore(either, SECRET), KeyStore(either, SECRET)
    monkeypatch.setattr(ours._generation, "_check_every_s", 0.0)
    kept, kept_text = theirs.create("acme", "laptop")
    gone, gone_text = theirs.create("acme", "phone")
    assert ours.lookup(kept_text) == kept and ours.lookup(gone_text) == gone
    theirs.revoke(gone.id).result(30)

    def failing() -> None:
        raise StoreFailed("disk I/O error")

    with monkeypatch.context() as broken:
        broken.setattr(either, fails, failing)
        assert ours.lookup(kept_text) == kept, "the last good keys are still in force"
        assert ours.any_configured()
    assert ours.lookup(gone_text) is None
    assert ours.lookup(kept_text) == kept
