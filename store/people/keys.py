"""The gateway's own API keys. Only their HMAC is kept: whoever reads the database learns no key."""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, replace

from store.database import Connection, Database
from store.errors import StoreError, StoreFailed
from store.generation import Generation
from store.people.limits import Terms, said_of
from store.people.rows import (
    INSERT_KEY,
    SELECT_KEYS,
    SELECT_SECRETS,
    SELECT_TENANTS,
    UPDATE_KEY,
    key_from,
    key_row,
    tenant_from,
)
from store.people.secret import TOKEN_PREFIX, derive
from store.records import Found, Key, MadeBy, Tenant

_PREFIX = "us-"
_SHOWN_CHARACTERS = 8
GENERATION = "keys"
"""The counter that moves with every change of a key or a tenant's record."""
_LEAST_SECRET, _LONGEST_SECRET = 16, 512
_LONGEST_NAME = 200


class NoSuchKey(Exception):
    """No key has this id."""


class KeptInConfiguration(Exception):
    """The record is kept in the configuration, and changed there only."""


class SecretTaken(ValueError):
    """Another key has this secret."""


@dataclass(frozen=True, slots=True)
class _Known:
    """All that requests are let in by, as it was read at one generation."""

    by_hmac: Mapping[str, Found]
    by_id: Mapping[str, Key]
    """Those that are not revoked."""
    tenants: Mapping[str, Tenant]
    any: bool


class KeyStore:
    """Creates, changes, revokes and recognises keys. Safe to use from any thread."""

    def __init__(
        self,
        db: Database,
        secret: bytes,
        *,
        stale_s: float = 600.0,
    ) -> None:
        """`stale_s`: how long requests are let in by what was read last while a database elsewhere cannot be read."""
        self._db = db
        self._inline = db.reads.inline
        self._stale_s = stale_s
        self._secret = secret
        self._generation = Generation(db, GENERATION)
        self._fresh = Generation(db, GENERATION, check_every_s=0.0)
        self._listed: tuple[int, tuple[Key, ...]] | None = None
        """Every key as it was read at a generation, whatever older secrets are taken."""
        self._lock = threading.Lock()
        self._known: _Known | None = None
        self._read_at = -1
        """The generation that the keys in memory were read at."""
        self._confirmed_s = time.monotonic()
        """When they were known to be what is in force."""
        if not db.reads.inline:
            db.on_news(self._keep_up)

    # ---- making and changing

    def create(
        self,
        tenant_name: str,
        name: str,
        timeout_s: float = 30.0,
        *,
        secret_text: str | None = None,
        terms: Terms | None = None,
        source: MadeBy = "cli",
    ) -> tuple[Key, str]:
        """A new key for a tenant, and its secret, which is shown here and never again.

        Keys with the same tenant name share one tenant. `secret_text` is a secret that clients have already, such as from
        another gateway. Waits for the commit. Raises ValueError for a name or secret that cannot be one.
        """
        check_tenant_name(tenant_name)
        check_name("key name", name)
        if secret_text is None:
            secret_text = _new_secret()
        check_secret(secret_text)
        key = key_with_terms(
            Key(
                id="key_" + secrets.token_hex(8),
                tenant=self.tenant_named(tenant_name),
                name=name,
                prefix=secret_text[:_SHOWN_CHARACTERS],
                created_at_s=time.time(),
                tenant_name=tenant_name,
                source=source,
            ),
            terms or Terms(),
        )
        digest = self.hmac(secret_text)

        def insert(connection: Connection) -> None:
            self._db.hold(connection, GENERATION)
            _check_unused(connection, digest)
            insert_key(connection, key, digest)
            self._generation.bump(connection)

        self._db.write(insert, after=self.look_again).result(timeout_s)
        return key, secret_text

    def edit(self, id: str, change: Callable[[Key], Key], timeout_s: float = 30.0) -> tuple[Key, Key]:
        """Give a key other terms, or another name; gives it as it was and as it is now. Waits for the commit.

        `change` runs inside the transaction. Id, tenant, secret and source stay. Raises NoSuchKey, KeptInConfiguration,
        and ValueError for what `change` says is wrong.
        """

        def update(connection: Connection) -> tuple[Key, Key]:
            self._db.hold(connection, GENERATION)
            before = _changeable(connection, id, time.time())
            wanted = change(before)
            check_name("key name", wanted.name)
            after = replace(key_with_terms(before, wanted), name=wanted.name)
            if after != before:
                update_key(connection, after)
                self._generation.bump(connection)
            return before, after

        return self._db.write(update, after=self.look_again).result(timeout_s)

    def rotate(
        self,
        id: str,
        grace_s: float = 0.0,
        timeout_s: float = 30.0,
        *,
        secret_text: str | None = None,
        check: Callable[[Key], None] = lambda key: None,
    ) -> tuple[Key, str]:
        """Another secret for a key, shown here and never again. Waits for the commit.

        The secret before it is taken for `grace_s` seconds more; 0 ends it and those before it at once. `check` gets the
        key as it is, inside the transaction; what it raises is raised here. Raises NoSuchKey, KeptInConfiguration, and
        ValueError for a revoked key or a secret that cannot be one.
        """
        if secret_text is None:
            secret_text = _new_secret()
        check_secret(secret_text)
        if not 0 <= grace_s <= 366 * 86_400:
            raise ValueError(f"the grace is {grace_s!r} s; 0 s to 366 days are right")
        digest, now_s = self.hmac(secret_text), time.time()

        def update(connection: Connection) -> Key:
            self._db.hold(connection, GENERATION)
            key = _changeable(connection, id, now_s)
            check(key)
            if key.revoked_at_s is not None:
                raise ValueError(f"the key {id!r} is revoked; make a new one")
            _check_unused(connection, digest)
            if grace_s > 0:
                connection.execute(
                    "INSERT INTO older_secrets (secret_hmac, key_id, until_s)"
                    " SELECT secret_hmac, id, ? FROM api_keys WHERE id = ?",
                    (now_s + grace_s, id),
                )
            else:
                connection.execute("DELETE FROM older_secrets WHERE key_id = ?", (id,))
            connection.execute("DELETE FROM older_secrets WHERE until_s < ?", (now_s,))
            connection.execute(
                "UPDATE api_keys SET secret_hmac = ?, prefix = ? WHERE id = ?",
                (digest, secret_text[:_SHOWN_CHARACTERS], id),
            )
            self._generation.bump(connection)
            return _one(connection, id, now_s)

        return self._db.write(update, after=self.look_again).result(timeout_s), secret_text

    def revoke(self, id: str) -> Future[Key]:
        """Take a key out of use, in this process at the commit and in others about a second later.

        The future gives the key as it then is, or raises NoSuchKey or KeptInConfiguration. Revoking twice keeps the first
        time.
        """
        now_s = time.time()

        def update(connection: Connection) -> Key:
            self._db.hold(connection, GENERATION)
            _changeable(connection, id, now_s)
            revoke_key(connection, id, now_s)
            self._generation.bump(connection)
            return _one(connection, id, now_s)

        return self._db.write(update, after=self.look_again)

    # ---- reading

    def list(self) -> list[Key]:
        """Every key ever made, revoked ones too, oldest first."""
        return [*self._with_rotated(self._read_all())]

    def listed(self) -> Sequence[Key]:
        """The same from memory, unless a key was changed; what another process changed may be half a second late.

        Five thousand keys take 40 ms to read.
        """
        # Asked before they are read: a commit between the two is then seen again, never missed.
        generation, kept = self._fresh.value(), self._listed
        if kept is None or kept[0] != generation:
            kept = generation, self._read_all()
            self._listed = kept
        return self._with_rotated(kept[1])

    def get(self, id: str) -> Key:
        """One key. Raises NoSuchKey."""
        row = self._db.read().execute(SELECT_KEYS + " WHERE id = ?", (id,)).fetchone()
        if row is None:
            raise NoSuchKey(f"no key has the id {id[:60]!r}")
        return key_from(row, self._rotated().get(id))

    def in_force(self, id: str) -> tuple[Key, Tenant | None] | None:
        """A key that is not revoked, by its id, and its tenant's record; from memory, at most a second old."""
        known = self._current()
        key = known.by_id.get(id)
        return None if key is None else (key, known.tenants.get(key.tenant))

    def lookup(self, secret_text: str) -> Key | None:
        """The key behind a secret, or None for one that is unknown, revoked or expired. One HMAC, one look-up."""
        found = self.found(secret_text)
        return found.key if found is not None else None

    def found(self, secret_text: str) -> Found | None:
        """The key behind a secret with its tenant's record; None for one that is unknown, revoked or expired."""
        found = self._current().by_hmac.get(self.hmac(secret_text))
        if found is None or (found.until_s is not None and time.time() >= found.until_s):
            return None
        return found

    def expired(self, secret_text: str) -> bool:
        """Whether a secret opens nothing because its time, its key's or its tenant's is over."""
        found = self._current().by_hmac.get(self.hmac(secret_text))
        return found is not None and found.until_s is not None and time.time() >= found.until_s

    def any_configured(self) -> bool:
        """Whether a key was ever made. Revoking the last one must not let everybody in, so revoked keys count."""
        return self._current().any

    def tenant_named(self, tenant_name: str) -> str:
        """The tenant id that keys with this tenant name share; never equal to one derived from a credential."""
        return derive(self._secret, "tenant by name", tenant_name)[:32]

    def tenant_record(self, tenant: str) -> Tenant | None:
        """What is laid down for a tenant, by its id; from memory, at most a second old."""
        return self._current().tenants.get(tenant)

    def hmac(self, secret_text: str) -> str:
        """What is kept of a secret."""
        return derive(self._secret, "api key", secret_text)

    def configured_id(self, name: str) -> str:
        """The id of the key that the configuration has under this name."""
        return "key_" + derive(self._secret, "configured key", name)[:16]

    def look_again(self, _: object = None) -> None:
        """Have the next look-up see what was committed just now."""
        self._generation.look_again()
        if not self._inline:
            self._keep_up()

    def read_anew(self) -> None:
        """Read what is in force, whether or not this process has heard of a change yet. Raises what reading raises."""
        at_s = time.monotonic()
        self._generation.look_again()
        self._read(self._generation.value())
        self._confirmed_s = at_s

    def _keep_up(self) -> None:
        """Read what changed, where requests must not wait for it: on the thread that hears of news, or has committed."""
        at_s = time.monotonic()
        self._generation.look_again()
        with suppress(StoreError):
            generation = self._generation.value()
            if generation != self._read_at:
                self._read(generation)
            self._confirmed_s = at_s

    def _current(self) -> _Known:
        """What is in force. While it cannot be read, what was last read.

        Inline every call tries again; else what is read in the background holds for `stale_s`, then StoreFailed is raised.
        """
        known = self._known
        if known is not None and not self._inline:
            if time.monotonic() - self._confirmed_s > self._stale_s:
                raise StoreFailed(f"the keys could not be read for over {self._stale_s:g} s")
            return known
        try:
            generation = self._generation.value()
            if known is not None and generation == self._read_at:
                return known
            return self._read(generation)
        except StoreError:
            if known is None:
                raise
            return known

    def _read(self, generation: int) -> _Known:
        with self._lock:
            connection = self._db.read()
            rows = connection.execute(SELECT_SECRETS).fetchall()
            older = connection.execute("SELECT secret_hmac, key_id, until_s FROM older_secrets").fetchall()
            tenants = {
                tenant.id: tenant
                for tenant in map(tenant_from, connection.execute(SELECT_TENANTS).fetchall())
            }
            in_force = {
                key.id: key for key in (key_from(row[1:]) for row in rows) if key.revoked_at_s is None
            }
            by_hmac = {
                digest: _with_tenant(in_force[id], tenants, until_s)
                for digest, id, until_s in [*older, *((row[0], row[1], None) for row in rows)]
                if id in in_force
            }
            self._known = known = _Known(by_hmac, in_force, tenants, bool(rows))
            self._read_at = generation
        return known

    def _read_all(self) -> tuple[Key, ...]:
        rows = self._db.read().execute(SELECT_KEYS + " ORDER BY created_at_s, id").fetchall()
        return tuple(key_from(row) for row in rows)

    def _with_rotated(self, keys: Iterable[Key]) -> tuple[Key, ...]:
        rotated = self._rotated()
        return tuple(
            replace(key, rotated_until_s=rotated[key.id]) if key.id in rotated else key for key in keys
        )

    def _rotated(self) -> dict[str, float]:
        """By key, until when an older secret of it is taken."""
        rows = self._db.read().execute(
            "SELECT key_id, max(until_s) FROM older_secrets WHERE until_s > ? GROUP BY key_id",
            (time.time(),),
        )
        return dict(rows.fetchall())


# ---- what a name and a secret may be


def check_name(what: str, value: str) -> None:
    """Raises ValueError for a name that people could not read."""
    if not value or len(value) > _LONGEST_NAME or not value.isprintable():
        shown = value if len(value) <= _LONGEST_NAME else value[:40] + "..."
        raise ValueError(f"the {what} is {shown!r}: 1 to {_LONGEST_NAME} printable characters are right")


def check_tenant_name(value: str) -> None:
    """Raises ValueError for a name that people could not read, or that commands would read as an id."""
    check_name("tenant name", value)
    if value.startswith("id:"):
        raise ValueError(
            f"the tenant name is {value[:40]!r}: what begins with 'id:' is read as a tenant's id, so no name does"
        )


def check_secret(secret_text: str) -> None:
    """Raises ValueError for a text that could not be sent as a key, or could be guessed. The text is not in it."""
    if not _LEAST_SECRET <= len(secret_text) <= _LONGEST_SECRET:
        raise ValueError(
            f"the secret has {len(secret_text)} characters: {_LEAST_SECRET} to {_LONGEST_SECRET} are right"
        )
    if not all("!" <= character <= "~" for character in secret_text):
        raise ValueError("the secret has a character that no header can carry: ASCII without spaces is right")
    if secret_text.startswith(TOKEN_PREFIX):
        raise ValueError("the secret is an admin token, which opens the admin API only")


def _new_secret() -> str:
    return _PREFIX + secrets.token_urlsafe(32)


# ---- inside a write job


def key_with_terms(key: Key, terms: Terms) -> Key:
    """The key with these terms."""
    return replace(key, **said_of(terms))


def insert_key(connection: Connection, key: Key, digest: str) -> None:
    """Add a row. A tenant that was deleted is one again."""
    connection.execute(INSERT_KEY, (digest, *key_row(key)))
    connection.execute("DELETE FROM deleted_tenants WHERE id = ?", (key.tenant,))


def update_key(connection: Connection, key: Key) -> None:
    """Put the key in the place of the row with its id; the secret stays."""
    connection.execute(UPDATE_KEY, (*key_row(key)[1:], key.id))


def revoke_key(connection: Connection, id: str, now_s: float) -> None:
    """Take it out of use, with its older secrets."""
    connection.execute(
        "UPDATE api_keys SET revoked_at_s = ? WHERE id = ? AND revoked_at_s IS NULL", (now_s, id)
    )
    connection.execute("DELETE FROM older_secrets WHERE key_id = ?", (id,))


def _check_unused(connection: Connection, digest: str) -> None:
    row = connection.execute(
        "SELECT id FROM api_keys WHERE secret_hmac = ? UNION SELECT key_id FROM older_secrets WHERE secret_hmac = ?",
        (digest, digest),
    ).fetchone()
    if row is not None:
        raise SecretTaken(f"the secret is already that of {row[0]}")


def _one(connection: Connection, id: str, now_s: float) -> Key:
    row = connection.execute(SELECT_KEYS + " WHERE id = ?", (id,)).fetchone()
    if row is None:
        raise NoSuchKey(f"no key has the id {id[:60]!r}")
    (until_s,) = connection.execute(
        "SELECT max(until_s) FROM older_secrets WHERE key_id = ? AND until_s > ?", (id, now_s)
    ).fetchone()
    return key_from(row, until_s)


def _changeable(connection: Connection, id: str, now_s: float) -> Key:
    key = _one(connection, id, now_s)
    if key.source == "config":
        raise KeptInConfiguration(
            f"the key {key.name!r} is kept in the configuration: change `keys` there, then reload"
        )
    return key


def _with_tenant(key: Key, tenants: Mapping[str, Tenant], until_s: float | None) -> Found:
    tenant = tenants.get(key.tenant)
    if tenant is None and until_s is None:
        return Found(key, None, key.expires_at_s)
    ends = [until_s, key.expires_at_s]
    if tenant is not None:
        ends += [tenant.expires_at_s, tenant.closed_at_s]
    return Found(key, tenant, min((end for end in ends if end is not None), default=None))
