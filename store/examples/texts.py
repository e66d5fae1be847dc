"""What the bank's examples say, by their ids or by the requests they came from: for whoever learns from texts."""

from __future__ import annotations

import json
from collections.abc import Sequence

from store.sqlite.database import Database


class ExampleTexts:
    """Reads texts only. Every look-up names a tenant, and finds what is in quarantine as well."""

    def __init__(self, db: Database) -> None:
        self._db = db

    def of(self, tenant: str, ids: Sequence[int]) -> dict[int, tuple[str, str]]:
        """Question and answer of the tenant's examples by id; ids that are gone or another tenant's are left out."""
        rows = self._db.read().execute(
            "SELECT id, question, answer FROM examples"
            " WHERE id IN (SELECT value FROM json_each(?)) AND +tenant = ?",
            (json.dumps(list(ids)), tenant),
        )
        return {id: (question, answer) for id, question, answer in rows.fetchall()}

    def asked(self, tenant: str, request_ids: Sequence[str]) -> dict[str, str]:
        """The text that was embedded of each request that became an example, by request id; others are left out."""
        rows = self._db.read().execute(
            "SELECT request_id, embedded_text FROM examples"
            " WHERE tenant = ? AND request_id <> '' AND request_id IN (SELECT value FROM json_each(?))",
            (tenant, json.dumps(list(request_ids))),
        )
        return dict(rows.fetchall())
