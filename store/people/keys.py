"""The gateway's own API keys. Only their HMAC is kept: whoever reads the database learns no key."""

from __future__ import annotations

import secrets
import sqlite3
import threading
import time
from concurrent.futures import Future

from store.errors import StoreError
from store.people.secret import derive
from store.records import Key
from store.sqlite.database import Database
from store.sqlite.generation import Generation

_PREFIX = "us-"
_SHOWN_CHARACTERS = 8
_GENERATION = "keys"
_Rows = list[tuple[str, Key]]


class NoSuchKey(Exception):
    """No key has this id."""


class KeyStore:
    """Creates, lists, revokes and recognises keys. Safe to use from any thread."""

    def __init__(self, db: Database, secret: bytes) -> None:
        self._db = db
        self._secret = secret
        self._generation = Generation(db, _GENERATION)
        self._lock = threading.Lock()
        self._by_hmac: dict[str, Key] | None = None
        self._any = False
        self._read_at = -1
        """The generation that the keys in memory were read at."""

    def create(self, tenant_name: str, name: str, timeout_s: float = 30.0) -> tuple[Key, str]:
        """A new key for a tenant, and its secret, which is shown here and never again.

        Keys with the same tenant name share one tenant. Waits for the commit. Raises ValueError for an empty name.
        """
        for what, value in (("tenant name", tenant_name), ("key name", name)):
            if not value or len(value) > 200 or not value.isprintable():
                raise ValueError(f"the {what} is {value!r}: 1 to 200 printable characters are right")
        secret_text = _PREFIX + secrets.token_urlsafe(32)
        key = Key(
            id="key_" + secrets.token_hex(8),
            tenant=self.tenant_named(tenant_name),
            name=name,
            prefix=secret_text[:_SHOWN_CHARACTERS],
            created_at_s=time.time(),
            tenant_name=tenant_name,
        )
        digest = self._hmac(secret_text)

        def insert(connection: sqlite3.Connection) -> None:
            connection.execute(
                "INSERT INTO api_keys (id, secret_hmac, prefix, tenant, tenant_name, name, created_at_s)"
                " VALUES (?, ?, ?, ?, ?, ?, ?)",
                (key.id, digest, key.prefix, key.tenant, key.tenant_name, key.name, key.created_at_s),
            )
            self._generation.bump(connection)

        self._db.write(insert, after=self._look_again).result(timeout_s)
        return key, secret_text

    def list(self) -> list[Key]:
        """Every key ever made, revoked ones too, oldest first."""
        return [key for _, key in self._rows()]

    def revoke(self, id: str) -> Future[Key]:
        """Take a key out of use, in this process at the commit and in others about a second later.

        The future gives the key as it then is, or raises NoSuchKey. Revoking twice keeps the first time.
        """
        now_s = time.time()

        def update(connection: sqlite3.Connection) -> Key:
            connection.execute(
                "UPDATE api_keys SET revoked_at_s = ? WHERE id = ? AND revoked_at_s IS NULL", (now_s, id)
            )
            row = connection.execute(_SELECT + " WHERE id = ?", (id,)).fetchone()
            if row is None:
                raise NoSuchKey(f"no key has the id {id!r}")
            self._generation.bump(connection)
            return _key(row)

        return self._db.write(update, after=self._look_again)

    def lookup(self, secret_text: str) -> Key | None:
        """The key behind a secret, or None for an unknown or revoked one. One HMAC and one dictionary look-up."""
        return self._current().get(self._hmac(secret_text))

    def any_configured(self) -> bool:
        """Whether a key was ever made. Revoking the last one must not let everybody in, so revoked keys count."""
        self._current()
        return self._any

    def tenant_named(self, tenant_name: str) -> str:
        """The tenant id that keys with this tenant name share; never equal to one derived from a credential."""
        return derive(self._secret, "tenant by name", tenant_name)[:32]

    def _current(self) -> dict[str, Key]:
        """The keys in force. While they cannot be read, those that were last read, and every call tries again."""
        by_hmac = self._by_hmac
        try:
            generation = self._generation.value()
            if by_hmac is not None and generation == self._read_at:
                return by_hmac
            return self._read(generation)
        except StoreError:
            if by_hmac is None:
                raise
            return by_hmac

    def _read(self, generation: int) -> dict[str, Key]:
        with self._lock:
            rows = self._rows()
            self._any = bool(rows)
            self._by_hmac = by_hmac = {digest: key for digest, key in rows if key.revoked_at_s is None}
            self._read_at = generation
        return by_hmac

    def _look_again(self, _: object) -> None:
        self._generation.look_again()

    def _rows(self) -> _Rows:
        rows = self._db.read().execute(_SELECT + " ORDER BY created_at_s, id").fetchall()
        return [(row[0], _key(row)) for row in rows]

    def _hmac(self, secret_text: str) -> str:
        return derive(self._secret, "api key", secret_text)


_SELECT = (
    "SELECT secret_hmac, id, tenant, name, prefix, created_at_s, revoked_at_s, tenant_name FROM api_keys"
)


def _key(row: tuple[str, str, str, str, str, float, float | None, str]) -> Key:
    _, id, tenant, name, prefix, created_at_s, revoked_at_s, tenant_name = row
    return Key(id, tenant, name, prefix, created_at_s, revoked_at_s, tenant_name)
