"""The log of requests read from end to end, in pages, for whoever takes it elsewhere."""

from __future__ import annotations

from collections.abc import Iterator

from store.database import Database
from store.decisions.requests import COLUMNS, as_record
from store.records import RequestRecord

_PAGE = 1000
_NEVER_S = 1e15


class RequestPages:
    """Reads rows in the order in which they were written."""

    def __init__(self, db: Database) -> None:
        self._db = db

    def pages(
        self, tenant: str | None = None, *, since_s: float = 0.0, until_s: float = _NEVER_S, page: int = _PAGE
    ) -> Iterator[list[RequestRecord]]:
        """The requests that began in [since_s, until_s), at most `page` at once; everybody's where no tenant is named.

        Each page is a read of its own: a long one would hold up the write-ahead log's checkpoints. So requests that end
        meanwhile are found, too.
        """
        statement = _OF_TENANT if tenant is not None else _OF_ALL
        wanted = {"after": 0, "since": since_s, "until": until_s, "tenant": tenant, "page": page}
        while rows := self._db.read().execute(statement, wanted).fetchall():
            wanted["after"] = rows[-1][0]
            yield [as_record(row[1:]) for row in rows]


_FROM = (
    f"SELECT row_id, {COLUMNS} FROM requests"  # noqa: S608 - constants
    " WHERE row_id > :after AND started_at_s >= :since AND started_at_s < :until"
)
_OF_ALL = _FROM + " ORDER BY row_id LIMIT :page"
_OF_TENANT = _FROM + " AND tenant = :tenant ORDER BY row_id LIMIT :page"
