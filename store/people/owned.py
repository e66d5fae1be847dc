"""Whose the ids are that engines gave to what they store: responses, conversations, files.

Kept by an HMAC of the id: whoever reads the database learns none. The same id may be that of several, since a remembered
answer, replayed, carries the id that the engine gave it.
"""

from __future__ import annotations

import time
from concurrent.futures import Future
from dataclasses import dataclass
from typing import TYPE_CHECKING

from store.people.secret import derive
from store.tenant_scope import ALL, TenantScope

if TYPE_CHECKING:
    from store.database import Connection, Database


@dataclass(frozen=True, slots=True)
class Owned:
    """An id and whose it is."""

    kind: str
    """What it is the id of: `response`, `conversation`, `file` and so on."""
    tenant: str
    end_user: str
    """The digest of the end user (learning.bank.contributor) where end users are told apart; empty: the whole tenant's."""
    key_id: str
    """The key it was made with; empty where clients have none. Other keys of the tenant may use it as well."""
    engine: str
    """Who holds what it names; empty: this gateway itself."""
    replica: str = ""
    """Which of the engine's replicas does; empty where it has none."""
    at_s: float = 0.0
    """When it was noted; Unix seconds."""


class OwnedIds:
    """Notes and tells owners. Safe to use from any thread."""

    def __init__(self, db: Database, secret: bytes) -> None:
        self.reads = db.reads
        """How an event loop asks it."""
        self._db = db
        self._secret = secret

    def note(self, id: str, owned: Owned) -> Future[None]:
        """Note whose an id is; again: the latest holds for this owner. Raises StoreBusy."""
        row = (
            *(self._digest(id), owned.tenant, owned.end_user, owned.kind, owned.key_id, owned.engine),
            *(owned.replica, owned.at_s or time.time()),
        )

        def insert(connection: Connection) -> None:
            connection.execute(_PUT, row)

        return self._db.write(insert)

    def find(self, id: str, tenant: str, end_user: str = "") -> Owned | None:
        """What was noted of an id for this asker; None where it was noted for others only, or not at all.

        What was noted for the whole tenant is each of its end users'; who names no end user asks for the tenant, and is told
        of all of them. Blocks for a read of some microseconds.
        """
        row = self._db.read().execute(_FIND, (self._digest(id), tenant, end_user, end_user)).fetchone()
        return Owned(*row) if row is not None else None

    def is_strangers(self, id: str, tenant: str, end_user: str = "") -> bool:
        """Whether an id was noted, and for others than this asker only. An id that nobody noted is no stranger's."""
        if self.find(id, tenant, end_user) is not None:
            return False
        return self._db.read().execute(_ANY, (self._digest(id),)).fetchone() is not None

    def forget(self, id: str, tenant: str, end_user: str = "") -> Future[int]:
        """What it names was deleted. Gives how many rows went."""
        return self._delete(_FORGET, self._digest(id), tenant, end_user)

    def forget_tenant(self, tenant: str) -> Future[int]:
        """Delete what was noted for a tenant. Gives how many rows went."""
        return self._delete(_FORGET_TENANT, tenant)

    def forget_end_user(self, tenant: str, end_user: str) -> Future[int]:
        """Delete what was noted for one end user of a tenant. Gives how many rows went."""
        return self._delete(_FORGET_USER, tenant, end_user)

    def forget_key(self, tenant: str, key_id: str) -> Future[int]:
        """Take a key's id off what was noted with it, which stays its tenant's. Gives how many rows."""
        return self._delete(
            "UPDATE owned_ids SET key_id = '' WHERE tenant = ? AND key_id = ? AND key_id <> ''",
            tenant,
            key_id,
        )

    def trim(self, before_s: float, limit: int = 10_000, *, tenants: TenantScope = ALL) -> Future[int]:
        """Delete what these tenants noted before this time (Unix seconds), at most `limit` at once; gives how many."""
        return self._delete(
            "DELETE FROM owned_ids WHERE (id_digest, tenant, end_user) IN"  # noqa: S608 - our own conditions
            f" (SELECT id_digest, tenant, end_user FROM owned_ids WHERE at_s < ?{tenants.condition} ORDER BY at_s LIMIT ?)",
            *(before_s, *tenants.values, limit),
        )

    def _delete(self, statement: str, *values: object) -> Future[int]:
        def delete(connection: Connection) -> int:
            return connection.execute(statement, values).rowcount

        return self._db.write(delete)

    def _digest(self, id: str) -> str:
        return derive(self._secret, "id of something stored", id)[:40]


_PUT = (
    "INSERT INTO owned_ids (id_digest, tenant, end_user, kind, key_id, engine, replica, at_s)"
    " VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
    " ON CONFLICT (id_digest, tenant, end_user) DO UPDATE SET kind = excluded.kind, key_id = excluded.key_id,"
    " engine = excluded.engine, replica = excluded.replica, at_s = excluded.at_s"
)
_FIND = (
    "SELECT kind, tenant, end_user, key_id, engine, replica, at_s FROM owned_ids"
    " WHERE id_digest = ? AND tenant = ? AND (? = '' OR end_user IN ('', ?)) ORDER BY end_user DESC LIMIT 1"
)
_FORGET = "DELETE FROM owned_ids WHERE id_digest = ? AND tenant = ? AND end_user = ?"
_FORGET_TENANT = "DELETE FROM owned_ids WHERE tenant = ?"
_FORGET_USER = "DELETE FROM owned_ids WHERE tenant = ? AND end_user = ?"
_ANY = "SELECT 1 FROM owned_ids WHERE id_digest = ? LIMIT 1"
