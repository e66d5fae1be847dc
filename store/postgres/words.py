"""Search by words in PostgreSQL: `tsvector` of the configuration `simple`, accents folded by us."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from store.database import WordsTable

if TYPE_CHECKING:
    from store.postgres.database import PostgresDatabase


class PostgresWords:
    """Search by words in one database."""

    def __init__(self, db: PostgresDatabase) -> None:
        self._db = db

    def examples(self, tenant: str, text: str, limit: int) -> list[int]:
        raise NotImplementedError

    def questions(
        self, tenant: str, scope: str, said: Sequence[str], limit: int, within_s: float
    ) -> list[tuple[int, float]]:
        raise NotImplementedError

    def requests(self, text: str, before: int, limit: int) -> list[tuple[int, str]]:
        raise NotImplementedError

    def purge_soon(self, table: WordsTable) -> None:
        """Nothing: an index of words is vacuumed with its table."""

    def purge(self, timeout_s: float) -> None:
        """Nothing: see `purge_soon`."""
