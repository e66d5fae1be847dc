from __future__ import annotations

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


def test_a_key_of_another_installation_opens_nothing(db: Database) -> None:
    _, secret_text = KeyStore(db, SECRET).create("acme", "laptop")
    assert KeyStore(db, b"another installation's secret...").lookup(secret_text) is None
