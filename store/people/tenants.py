"""What operators have laid down for tenants: limits, expiry, region, how long things are kept. Made beside their keys."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

from store.database import COMMITTED_WITHIN_S, Connection, Database
from store.generation import Generation
from store.people.keys import GENERATION, KeptInConfiguration, KeyStore, check_tenant_name, revoke_key
from store.people.limits import Retention, Terms, said_of
from store.people.rows import (
    INSERT_TENANT,
    SELECT_KEYS,
    SELECT_TENANTS,
    UPDATE_TENANT,
    key_from,
    tenant_from,
    tenant_row,
)
from store.records import Key, MadeBy, Tenant


class NoSuchTenantRecord(Exception):
    """Nothing is laid down for a tenant of this name."""


class TenantExists(Exception):
    """Something is laid down already for a tenant of this name."""


class DeletedTenant(NamedTuple):
    """A tenant that was deleted, and of which no key or record was made since."""

    id: str
    name: str
    deleted_at_s: float


class TenantStore:
    """Records of tenants by name. Safe to use from any thread; what writes waits for the commit."""

    def __init__(
        self,
        db: Database,
        keys: KeyStore,
    ) -> None:
        self._db = db
        self._keys = keys
        self._generation = Generation(db, GENERATION)

    def create(
        self,
        name: str,
        terms: Terms | None = None,
        *,
        region: str = "",
        retention: Retention | None = None,
        source: MadeBy = "cli",
    ) -> Tenant:
        """Lay something down for a tenant, whose keys may be there already. Raises TenantExists and ValueError."""
        tenant = self.made(name, terms or Terms(), region, retention or Retention(), source)

        def insert(connection: Connection) -> Tenant:
            self._db.hold(connection, GENERATION)
            if connection.execute("SELECT 1 FROM tenants WHERE id = ?", (tenant.id,)).fetchone() is not None:
                raise TenantExists(f"there is a tenant {name!r} already")
            put_tenant(connection, tenant)
            self._generation.bump(connection)
            return tenant

        return self._db.write(insert, after=self._keys.look_again).result(COMMITTED_WITHIN_S)

    def edit(self, name: str, change: Callable[[Tenant], Tenant]) -> tuple[Tenant, Tenant]:
        """Lay down something else; gives the record as it was and as it is now. `change` runs inside the transaction.

        Id, name and source stay. Raises NoSuchTenantRecord, KeptInConfiguration, and ValueError for what is wrong.
        """
        id = self._keys.tenant_named(name)

        def update(connection: Connection) -> tuple[Tenant, Tenant]:
            self._db.hold(connection, GENERATION)
            row = connection.execute(SELECT_TENANTS + " WHERE id = ?", (id,)).fetchone()
            if row is None:
                raise NoSuchTenantRecord(f"there is no tenant {name[:60]!r}")
            before = tenant_from(row)
            if before.source == "config":
                raise KeptInConfiguration(
                    f"the tenant {name!r} is kept in the configuration: change `tenants` there, then reload"
                )
            wanted = change(before)
            after = replace(
                wanted,
                id=before.id,
                name=before.name,
                source=before.source,
                created_at_s=before.created_at_s,
            )
            if after != before:
                put_tenant(connection, after)
                self._generation.bump(connection)
            return before, after

        return self._db.write(update, after=self._keys.look_again).result(COMMITTED_WITHIN_S)

    def close(self, name: str) -> tuple[Tenant, Tenant]:
        """Refuse its keys from now on, until it is opened again. Closing twice keeps the first time. Raises as `edit`."""
        now_s = time.time()
        return self.edit(name, lambda tenant: replace(tenant, closed_at_s=tenant.closed_at_s or now_s))

    def delete(self, tenant: str, name: str = "") -> list[Key]:
        """Revoke every key of a tenant, by its id, and drop what is laid down for it; gives the keys revoked now.

        What is remembered of it is deleted by `Store.forget_tenant`. Its name stays, for the pages to tell. Raises
        KeptInConfiguration where the configuration has a key or a record of it: the next start would bring it back.
        """
        now_s = time.time()

        def delete(connection: Connection) -> list[Key]:
            self._db.hold(connection, GENERATION)
            keys = [key_from(row) for row in connection.execute(_KEYS_OF, (tenant,)).fetchall()]
            _check_not_configured(connection, tenant, keys)
            in_force = [key for key in keys if key.revoked_at_s is None]
            for key in in_force:
                revoke_key(connection, key.id, now_s)
            connection.execute("DELETE FROM tenants WHERE id = ?", (tenant,))
            for key in keys:
                connection.execute(_NO_STANDINGS, (f"key:{key.id}", f"user:{key.id}/%"))
            connection.execute(_NO_STANDINGS, (f"tenant:{tenant}", f"user:{tenant}/%"))
            connection.execute(_DELETED, (tenant, name or next((k.tenant_name for k in keys), ""), now_s))
            self._generation.bump(connection)
            return in_force

        return self._db.write(delete, after=self._keys.look_again).result(COMMITTED_WITHIN_S)

    def deleted(self) -> list[DeletedTenant]:
        """Those that were deleted, the latest first."""
        rows = self._db.read().execute(
            "SELECT id, name, deleted_at_s FROM deleted_tenants ORDER BY deleted_at_s DESC, id"
        )
        return [DeletedTenant(*row) for row in rows.fetchall()]

    def get(self, tenant: str) -> Tenant | None:
        """By id, from memory, at most a second old; for requests."""
        return self._keys.tenant_record(tenant)

    def named(self, name: str) -> Tenant:
        """By name, as committed. Raises NoSuchTenantRecord."""
        row = (
            self._db.read()
            .execute(SELECT_TENANTS + " WHERE id = ?", (self._keys.tenant_named(name),))
            .fetchone()
        )
        if row is None:
            raise NoSuchTenantRecord(f"there is no tenant {name[:60]!r}")
        return tenant_from(row)

    def list(self) -> list[Tenant]:
        """Every record, closed ones too, by name."""
        return [
            tenant_from(row) for row in self._db.read().execute(SELECT_TENANTS + " ORDER BY name").fetchall()
        ]

    def made(self, name: str, terms: Terms, region: str, retention: Retention, source: MadeBy) -> Tenant:
        """A record that is not stored. Raises ValueError."""
        check_tenant_name(name)
        return Tenant(
            self._keys.tenant_named(name),
            name,
            time.time(),
            region=region,
            retention=retention,
            source=source,
            **said_of(terms),
        )


def put_tenant(connection: Connection, tenant: Tenant) -> None:
    """Add the record, or put it in the place of the one with its id; inside a write job. It is deleted no more."""
    connection.execute("DELETE FROM deleted_tenants WHERE id = ?", (tenant.id,))
    row = tenant_row(tenant)
    if not connection.execute(UPDATE_TENANT, (*row[1:], row[0])).rowcount:
        connection.execute(INSERT_TENANT, row)


def _check_not_configured(connection: Connection, tenant: str, keys: Sequence[Key]) -> None:
    listed = [f"keys.{key.name}" for key in keys if key.source == "config" and key.revoked_at_s is None]
    row = connection.execute(SELECT_TENANTS + " WHERE id = ?", (tenant,)).fetchone()
    if row is not None and tenant_from(row).source == "config" and tenant_from(row).closed_at_s is None:
        listed.append(f"tenants.{tenant_from(row).name}")
    if listed:
        raise KeptInConfiguration(
            f"the configuration has {', '.join(listed[:5])}{' and more' if len(listed) > 5 else ''} of this tenant: take"
            " that out of it, reload, and delete the tenant then"
        )


_KEYS_OF = SELECT_KEYS + " WHERE tenant = ? ORDER BY created_at_s, id"
_DELETED = (
    "INSERT INTO deleted_tenants (id, name, deleted_at_s) VALUES (?, ?, ?)"
    " ON CONFLICT (id) DO UPDATE SET name = excluded.name, deleted_at_s = excluded.deleted_at_s"
)
_NO_STANDINGS = "DELETE FROM allowances WHERE leased = 0 AND (scope = ? OR scope LIKE ?)"
"""What was spent of limits; what workers hold of them returns, and goes when it is old."""
