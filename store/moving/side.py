"""What copying asks of a database, as source or as target."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

from store.moving.tables import Key, Page, Row, Table

State = dict[str, Any]
"""What a target notes of its copying; made of what JSON has."""


class Side(Protocol):
    """One database. Errors: what store.errors says."""

    name: str
    """As people call it: a folder, or a URL without its password."""

    def close(self) -> None:
        """Let go of it."""
        ...

    def database_id(self) -> str:
        """32 hex characters drawn when the database was made."""
        ...

    def count(self, table: Table) -> int:
        """How many rows a table has."""
        ...

    def page(self, table: Table, after: Key | None, rows: int) -> Page:
        """Up to `rows` rows beyond a key, or from the beginning."""
        ...

    def total(self, table: Table) -> int:
        """The sum of `total_bytes` of a table that is one (`Table.is_sum`)."""
        ...

    def last_ids(self, tables: Sequence[Table]) -> dict[str, int]:
        """For each table that numbers its rows: the last number given, 0 where there was none."""
        ...

    def held(self) -> AbstractContextManager[None]:
        """Nobody else writes meanwhile. Raises StoreFailed where somebody does not let go."""
        ...

    def looked_at(self) -> AbstractContextManager[None]:
        """All that is read meanwhile is of one moment."""
        ...


class Target(Side, Protocol):
    """One that is copied into."""

    def state(self) -> State | None:
        """What was noted last; None where no copying has begun."""
        ...

    def begin(self, tables: Sequence[Table], state: State) -> None:
        """Note that copying begins, and have no trigger run and no reference checked until `finish`.

        Raises SchemaError where the database holds anything.
        """
        ...

    def change(
        self, table: Table, gone: Sequence[Key], rows: Sequence[Row], before: State, state: State
    ) -> None:
        """Delete what is gone, insert rows, and replace the note `before` by `state`: all or nothing.

        Raises StoreFailed: for another note there, as another copy runs; and for a value that is refused.
        """
        ...

    def finish(self, tables: Sequence[Table], last_ids: Mapping[str, int], totals: Mapping[str, int]) -> None:
        """Put back triggers and references, which must hold, set the numbers, and forget the note: all or nothing."""
        ...
