"""Answers of `/v1/responses` that no upstream holds, kept for a while by their ids: read, deleted, continued.

An id is kept by its HMAC, as store.people.owned does, which also knows whose it is. Knows no JSON.
"""

from __future__ import annotations

import time
from concurrent.futures import Future
from dataclasses import dataclass
from typing import TYPE_CHECKING

from store.inserting import replacing
from store.people.secret import derive
from store.tenant_scope import ALL, TenantScope

if TYPE_CHECKING:
    from store.database import Connection, Database

KEPT_S = 30 * 86_400.0
"""As long as OpenAI keeps what it stores."""
_ROOM_EVERY = 64
_EVICT_ROWS = 256
_ROW_BYTES = 256


@dataclass(frozen=True, slots=True)
class KeptResponse:
    """An answer and what it answered."""

    response: bytes
    """The response as JSON."""
    input: bytes
    """A JSON list of input items: the conversation before it, too."""


class KeptResponses:
    """See the module. `disk_bytes`: beyond that the oldest go. Safe to use from any thread."""

    def __init__(
        self, db: Database, secret: bytes, *, kept_s: float = KEPT_S, disk_bytes: int = 2**30
    ) -> None:
        self.reads = db.reads
        """How an event loop asks it."""
        self._db = db
        self._secret = secret
        self._kept_s = kept_s
        self._disk_bytes = disk_bytes
        self._puts = 0

    def put(
        self, id: str, tenant: str, kept: KeptResponse, *, contributor: str = "", now_s: float | None = None
    ) -> Future[None]:
        """Keep an answer under its id; again: the latest holds. Raises StoreBusy."""
        at_s = time.time() if now_s is None else now_s
        size_bytes = len(kept.response) + len(kept.input) + _ROW_BYTES
        row = (self._digest(id), tenant, contributor, at_s, size_bytes, kept.response, kept.input)

        def insert(connection: Connection) -> None:
            connection.execute(_PUT.sql, row)
            self._puts += 1
            if self._puts % _ROOM_EVERY == 1:
                self._make_room(connection, at_s)

        return self._db.write(insert)

    def get(self, id: str, tenant: str, *, now_s: float | None = None) -> KeptResponse | None:
        """The answer that a tenant was given under this id; None where none is kept. Blocks for a read."""
        at_s = time.time() if now_s is None else now_s
        row = self._db.read().execute(_GET, (self._digest(id), tenant, at_s - self._kept_s)).fetchone()
        return KeptResponse(*row) if row is not None else None

    def forget(self, id: str, tenant: str) -> Future[int]:
        """Delete one. Gives how many rows went."""
        return self._delete("id_digest = ? AND tenant = ?", self._digest(id), tenant)

    def forget_tenant(self, tenant: str) -> Future[int]:
        """Delete those of a tenant. Gives how many rows went."""
        return self._delete("tenant = ?", tenant)

    def forget_contributor(self, tenant: str, contributor: str) -> Future[int]:
        """Delete those that one contributor of a tenant was given. Gives how many rows went."""
        return self._delete("tenant = ? AND contributor = ?", tenant, contributor)

    def trim(self, before_s: float, *, tenants: TenantScope = ALL) -> Future[int]:
        """Delete those kept for these tenants before this time (Unix seconds). Gives how many rows went."""
        return self._delete(f"kept_at_s < ?{tenants.condition}", before_s, *tenants.values)

    def _delete(self, where: str, *values: object) -> Future[int]:
        def delete(connection: Connection) -> int:
            # The conditions are those above, and hold no value.
            return connection.execute(f"DELETE FROM kept_responses WHERE {where}", values).rowcount  # noqa: S608

        return self._db.write(delete, after=lambda _: self._db.scrub_soon())

    def _make_room(self, connection: Connection, now_s: float) -> None:
        connection.execute("DELETE FROM kept_responses WHERE kept_at_s < ?", (now_s - self._kept_s,))
        while True:
            (total_bytes,) = connection.execute(
                "SELECT coalesce(sum(size_bytes), 0) FROM kept_responses"
            ).fetchone()
            if total_bytes <= self._disk_bytes:
                return
            connection.execute(_DELETE_OLDEST, (_EVICT_ROWS,))

    def _digest(self, id: str) -> str:
        return derive(self._secret, "id of a kept response", id)[:40]


_PUT = replacing(
    "kept_responses",
    "id_digest, tenant, contributor, kept_at_s, size_bytes, response, input",
    key="id_digest, tenant",
)
_GET = (
    "SELECT response, input FROM kept_responses WHERE id_digest = ? AND tenant = ? AND kept_at_s >= ? LIMIT 1"
)
_DELETE_OLDEST = (
    "DELETE FROM kept_responses WHERE (id_digest, tenant) IN"
    " (SELECT id_digest, tenant FROM kept_responses ORDER BY kept_at_s LIMIT ?)"
)
