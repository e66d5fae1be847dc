"""Says what an id is the id of, or a name the name of: what an operator types into one box. Of all tenants."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Literal

from store.database import Database
from store.decisions import session_ids
from store.decisions.search import RequestSearch
from store.people.secret import user_digest

Kind = Literal["request", "session", "user", "example", "key", "tenant"]

_MOST = 20
_LEAST_PREFIX = 6
_LONGEST = 1024
_TENANTS = 10_000
_LOOKED_THROUGH = 5_000
"""Rows of a session, or of end users of one name, that are looked at for their tenants."""


@dataclass(frozen=True, slots=True)
class Hit:
    """One thing that a text names."""

    kind: Kind
    id: str
    """Of a request its decision id; of an end user and a session the digest that its requests have."""
    tenant: str
    """The tenant's id; of a tenant its own."""


class Resolve:
    """Looks up by indexes only. Not for tenants: it finds everybody's."""

    def __init__(self, db: Database, secret: bytes) -> None:
        self._db = db
        self._secret = secret

    def find(self, text: str, *, most: int = _MOST) -> list[Hit]:
        """What `text` is the id or the name of; up to `most` of each kind, of requests the latest first. Empty: nothing.

        An id of a completion or of a decision, or at least six characters that a decision's begins with; the id of an
        example (also as `#12`), of a key or a tenant, or its name, or how a key begins; the name of a session or an end
        user as clients give it, or its digest.
        """
        said = text.strip()
        if not said or len(said) > _LONGEST or "\0" in said:
            return []
        return [
            *self._requests(said, most),
            *self._sessions(said, most),
            *self._examples(said),
            *self._keys(said, most),
            *self._tenants(said, most),
            *self._users(said, most),
        ]

    def _requests(self, said: str, most: int) -> list[Hit]:
        found = self._rows(
            "SELECT id, tenant FROM requests WHERE completion_id = ? AND completion_id <> ''"
            " ORDER BY started_at_s DESC LIMIT ?",
            said,
            most,
        )
        if not found and said.isascii() and said.isalnum() and len(said) >= _LEAST_PREFIX:
            # All that begins with it: "{" comes after every letter and digit.
            found = self._rows(
                "SELECT id, tenant FROM requests WHERE id >= ? AND id < ? ORDER BY id LIMIT ?",
                said.lower(),
                said.lower() + "{",
                most,
            )
        return [Hit("request", id, tenant) for id, tenant in found]

    def _sessions(self, said: str, most: int) -> list[Hit]:
        found = []
        for digest in (session_ids.named(self._secret, said), said):
            rows = self._rows(
                "SELECT tenant FROM (SELECT tenant, started_at_s FROM requests WHERE session = ? AND session <> ''"
                " ORDER BY started_at_s DESC LIMIT ?) latest GROUP BY tenant ORDER BY max(started_at_s) DESC LIMIT ?",
                digest,
                _LOOKED_THROUGH,
                most,
            )
            found += [Hit("session", digest, tenant) for (tenant,) in rows]
        return found

    def _examples(self, said: str) -> list[Hit]:
        number = said.removeprefix("#")
        if not (number.isascii() and number.isdigit() and len(number) < 19):
            return []
        rows = self._rows("SELECT id, tenant FROM examples WHERE id = ?", int(number))
        return [Hit("example", str(id), tenant) for id, tenant in rows]

    def _keys(self, said: str, most: int) -> list[Hit]:
        rows = self._rows(
            "SELECT id, tenant FROM api_keys WHERE id = ? OR name = ? OR prefix = ? ORDER BY id LIMIT ?",
            said,
            said,
            said,
            most,
        )
        return [Hit("key", id, tenant) for id, tenant in rows]

    def _tenants(self, said: str, most: int) -> list[Hit]:
        rows = self._rows(
            "SELECT id FROM tenants WHERE id = ? OR name = ? UNION SELECT tenant FROM api_keys WHERE tenant_name = ?"
            " UNION SELECT tenant FROM (SELECT tenant FROM requests WHERE tenant = ? LIMIT 1) seen ORDER BY 1 LIMIT ?",
            said,
            said,
            said,
            said,
            most,
        )
        return [Hit("tenant", id, id) for (id,) in rows]

    def _users(self, said: str, most: int) -> list[Hit]:
        tenants = RequestSearch(self._db).tenants(_TENANTS)
        digests = [user_digest(self._secret, tenant, said) for tenant in tenants]
        rows = self._rows(
            "SELECT end_user, tenant FROM (SELECT end_user, tenant FROM requests"
            " WHERE end_user IN (SELECT value FROM json_each(?)) AND end_user <> '' LIMIT ?) seen"
            " GROUP BY end_user, tenant ORDER BY tenant LIMIT ?",
            json.dumps([*digests, said]),
            _LOOKED_THROUGH,
            most,
        )
        return [Hit("user", id, tenant) for id, tenant in rows]

    def _rows(self, sql: str, *values: object) -> list[tuple[str, ...]]:
        rows: list[tuple[str, ...]] = self._db.read().execute(sql, values).fetchall()
        return rows
