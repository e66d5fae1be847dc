"""How far each file was imported. Knows its fingerprint and a count of lines; no name, no content."""

from __future__ import annotations

import time
from concurrent.futures import Future

from store.database import Connection, Database


class ImportCursors:
    """One count per file and tenant. A file is known by the SHA-256 of its bytes, so a changed file is another file."""

    def __init__(self, db: Database) -> None:
        self._db = db

    def lines_done(self, file_sha256: str, tenant: str) -> int:
        """Lines from the beginning whose pairs are committed, or that were refused; 0 for a file never seen."""
        row = (
            self._db.read()
            .execute(
                "SELECT lines_done FROM imports WHERE file_sha256 = ? AND tenant = ?", (file_sha256, tenant)
            )
            .fetchone()
        )
        return 0 if row is None else int(row[0])

    def advance(self, file_sha256: str, tenant: str, lines_done: int) -> Future[None]:
        """Note that so many lines are done; never fewer than before. Call it after their pairs are committed."""
        now_s = time.time()

        def upsert(connection: Connection) -> None:
            connection.execute(
                "INSERT INTO imports (file_sha256, tenant, lines_done, changed_at_s) VALUES (?, ?, ?, ?)"
                " ON CONFLICT (file_sha256, tenant) DO UPDATE SET lines_done = max(imports.lines_done, excluded.lines_done),"
                " changed_at_s = excluded.changed_at_s",
                (file_sha256, tenant, lines_done, now_s),
            )

        return self._db.write(upsert)

    def forget_tenant(self, tenant: str) -> Future[int]:
        """Delete what is noted of a tenant's imports; gives how many files that was."""
        return self._db.write(
            lambda connection: connection.execute("DELETE FROM imports WHERE tenant = ?", (tenant,)).rowcount
        )
