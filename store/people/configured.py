"""Keys and tenants that the configuration lists: brought to what it says, in one transaction. Others are left alone."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from store.database import COMMITTED_WITHIN_S, Connection, Database
from store.generation import Generation
from store.people.keys import (
    GENERATION,
    KeyStore,
    check_name,
    check_secret,
    check_tenant_name,
    insert_key,
    key_with_terms,
    update_key,
)
from store.people.limits import Retention, Terms
from store.people.rows import SELECT_SECRETS, SELECT_TENANTS, key_from, tenant_from
from store.people.tenants import TenantStore, put_tenant
from store.records import Key, Tenant


@dataclass(frozen=True, slots=True)
class ConfiguredKey:
    """A key as the configuration has it."""

    name: str
    tenant_name: str
    secret_text: str = field(repr=False)
    terms: Terms = field(default_factory=Terms)


@dataclass(frozen=True, slots=True)
class ConfiguredTenant:
    """A tenant as the configuration has it."""

    name: str
    terms: Terms = field(default_factory=Terms)
    region: str = ""
    retention: Retention = field(default_factory=Retention)


@dataclass(frozen=True, slots=True)
class Changed:
    """One record that was made, changed, or taken out of use."""

    before: Key | Tenant | None
    """None: it was made."""
    after: Key | Tenant
    digest: str | None = None
    """The hash of the key's new secret; None where it keeps the one it has."""


class Clash(Exception):
    """The configuration lists something that another record has already; nothing was changed. The text says what."""


class ConfiguredPeople:
    """Brings the records that were made from the configuration to what it says now."""

    def __init__(
        self,
        db: Database,
        keys: KeyStore,
        tenants: TenantStore,
    ) -> None:
        self._db = db
        self._keys = keys
        self._tenants = tenants
        self._generation = Generation(db, GENERATION)

    def clashes(self, keys: Sequence[ConfiguredKey], tenants: Sequence[ConfiguredTenant]) -> list[str]:
        """Why these cannot be taken, as sentences; empty where they can. Changes nothing."""
        return self._clashes(self._db.read(), keys, tenants)

    def reconcile(self, keys: Sequence[ConfiguredKey], tenants: Sequence[ConfiguredTenant]) -> list[Changed]:
        """Make, change and revoke until the configured records are these; gives what it changed. Waits for the commit.

        A key that is no longer listed is revoked, a tenant closed. Doing it twice, or in several processes at once, changes
        nothing more. Raises Clash, and ValueError for a name, secret or record that cannot be one.
        """
        for key in keys:
            check_name("key name", key.name)
            check_tenant_name(key.tenant_name)
            check_secret(key.secret_text)
        records = [self._tenants.made(t.name, t.terms, t.region, t.retention, "config") for t in tenants]

        if not self._planned(self._db.read(), keys, records, tenants):
            # Another process was faster: what this one has read may be from before, and news of it under way.
            self._keys.read_anew()
            return []

        def write(connection: Connection) -> list[Changed]:
            self._db.hold(connection, GENERATION)
            planned = self._planned(connection, keys, records, tenants)
            for change in planned:
                if isinstance(change.after, Key) and change.digest is not None:
                    # Another key may get the secret that this one had.
                    connection.execute(_FREE, (f"none:{change.after.id}", change.after.id))
            for change in planned:
                _apply(connection, change)
            if planned:
                self._generation.bump(connection)
            return planned

        return self._db.write(write, after=self._keys.look_again).result(COMMITTED_WITHIN_S)

    def _planned(
        self,
        connection: Connection,
        keys: Sequence[ConfiguredKey],
        records: Sequence[Tenant],
        tenants: Sequence[ConfiguredTenant],
    ) -> list[Changed]:
        if told := self._clashes(connection, keys, tenants):
            raise Clash("\n".join(told))
        return [*self._planned_tenants(connection, records), *self._planned_keys(connection, keys)]

    def _clashes(
        self,
        connection: Connection,
        keys: Sequence[ConfiguredKey],
        tenants: Sequence[ConfiguredTenant],
    ) -> list[str]:
        told = []
        owners = {digest: key for digest, key in _rows(connection).values() if key.source != "config"}
        by_id = {key.id: key for key in owners.values()}
        for digest, id in connection.execute("SELECT secret_hmac, key_id FROM older_secrets").fetchall():
            if id in by_id:
                owners[digest] = by_id[id]
        named: dict[str, str] = {}
        for key in keys:
            digest = self._keys.hmac(key.secret_text)
            if (owner := owners.get(digest)) is not None:
                state = "revoked " if owner.revoked_at_s is not None else ""
                told.append(
                    f"keys.{key.name}.secret is that of the {state}key {owner.id} ({owner.name!r} of tenant "
                    f"{owner.tenant_name!r}), which was made by {_MADE_BY[owner.source]}: give it another secret, or "
                    "take it out of the configuration"
                )
            if (other := named.setdefault(digest, key.name)) != key.name:
                told.append(
                    f"keys.{key.name}.secret is that of keys.{other}: each key has a secret of its own"
                )
        known = {tenant.id: tenant for tenant in _tenants(connection)}
        for tenant in tenants:
            record = known.get(self._keys.tenant_named(tenant.name))
            if record is not None and record.source != "config":
                told.append(
                    f"tenants.{tenant.name} was made by {_MADE_BY[record.source]} already, and is changed there: take it "
                    "out of the configuration"
                )
        return told

    def _planned_tenants(self, connection: Connection, records: Sequence[Tenant]) -> list[Changed]:
        known = {tenant.id: tenant for tenant in _tenants(connection) if tenant.source == "config"}
        planned = []
        for record in records:
            before = known.pop(record.id, None)
            after = record if before is None else replace(record, created_at_s=before.created_at_s)
            if after != before:
                planned.append(Changed(before, after))
        gone = [tenant for tenant in known.values() if tenant.closed_at_s is None]
        return planned + [Changed(tenant, replace(tenant, closed_at_s=time.time())) for tenant in gone]

    def _planned_keys(self, connection: Connection, keys: Sequence[ConfiguredKey]) -> list[Changed]:
        rows = {id: row for id, row in _rows(connection).items() if row[1].source == "config"}
        planned = []
        for listed in keys:
            id = self._keys.configured_id(listed.name)
            digest = self._keys.hmac(listed.secret_text)
            had, before = rows.pop(id, (None, None))
            after = self._key(id, listed, before.created_at_s if before is not None else time.time())
            if after != before or digest != had:
                planned.append(Changed(before, after, digest if digest != had else None))
        for id, (_, gone) in rows.items():
            if gone.revoked_at_s is None:
                planned.append(Changed(gone, replace(gone, revoked_at_s=time.time()), f"none:{id}"))
        return planned

    def _key(self, id: str, listed: ConfiguredKey, created_at_s: float) -> Key:
        key = Key(
            id=id,
            tenant=self._keys.tenant_named(listed.tenant_name),
            name=listed.name,
            prefix=listed.secret_text[:_SHOWN_CHARACTERS],
            created_at_s=created_at_s,
            tenant_name=listed.tenant_name,
            source="config",
        )
        return key_with_terms(key, listed.terms)


_MADE_BY = {
    "cli": "the command line or the admin pages",
    "api": "the admin API",
    "config": "the configuration",
}
_SHOWN_CHARACTERS = 4
"""Of a secret that somebody chose: perhaps not a long one."""


def _rows(connection: Connection) -> dict[str, tuple[str, Key]]:
    rows = connection.execute(SELECT_SECRETS).fetchall()
    return {row[1]: (row[0], key_from(row[1:])) for row in rows}


def _tenants(connection: Connection) -> list[Tenant]:
    return [tenant_from(row) for row in connection.execute(SELECT_TENANTS).fetchall()]


_FREE = "UPDATE api_keys SET secret_hmac = ? WHERE id = ?"


def _apply(connection: Connection, change: Changed) -> None:
    after = change.after
    if isinstance(after, Tenant):
        put_tenant(connection, after)
    elif change.before is None:
        assert change.digest is not None
        insert_key(connection, after, change.digest)
    else:
        update_key(connection, after)
        if change.digest is not None:
            connection.execute(_FREE, (change.digest, after.id))
