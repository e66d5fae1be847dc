"""Copies everything that is remembered from one database to another, page by page, and compares two.

Rows go in the order of their keys. Of each stretch of keys both sides are read and compared; what is new is inserted, what
is different replaced, what the source has no more deleted. So the first run copies, and every later one finds what was
changed or deleted since by reading all of both. How far it came is noted with the rows, in one transaction.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from store.errors import SchemaError, StoreFailed
from store.moving.side import Side, State, Target
from store.moving.tables import Key, Page, Row, Table

_FIRST_ROWS, _FEWEST_ROWS = 256, 8
PAGE_ROWS = 2000
"""At most; fewer of large rows."""
_PAGE_BYTES = 4 * 1024 * 1024
_SAMPLE = 16

_START: State = {"table": "", "after": None, "rows": 0}

Told = Callable[[str, int, int], None]
"""Told of a table, how many rows of it are done, and how many there are."""


@dataclass(frozen=True, slots=True)
class Copied:
    """What a run came to."""

    rows: int
    """Of the source, that were read."""
    written: int
    """That the target did not have as they are."""
    deleted: int
    """Of the target's, that were not the source's, or not as they are."""
    final: bool


@dataclass(frozen=True, slots=True)
class Compared:
    """A table of both. Checksums are BLAKE2b of the rows in the order of their keys."""

    table: str
    rows: int
    rows_of_target: int
    checksum: str
    checksum_of_target: str

    @property
    def equal(self) -> bool:
        """Whether both hold the same."""
        return self.checksum == self.checksum_of_target and self.rows == self.rows_of_target


def copy(
    source: Side, target: Target, tables: list[Table], *, final: bool, told: Told, page_rows: int = PAGE_ROWS
) -> Copied:
    """Copy what the target lacks; blocks for hours on much. A run that was killed is taken up where it stood.

    Without `final` the source is in use, and so the target stays marked as half a copy. With it nobody may write to the
    source meanwhile; all is compared once more, and then the target can be served.

    Raises SchemaError: for a target that holds something else; and what reading and writing raise.
    """
    state = target.state()
    if state is None:
        state = {"source": source.database_id(), "pass": 1, **_START}
        target.begin(tables, state)
    elif state["source"] != source.database_id():
        raise SchemaError(
            f"{target.name} holds half a copy of another database than {source.name}: begin anew in an empty one"
        )
    if not final:
        return _Run(source, target, tables, state, told, page_rows).run(final=False)
    with source.held():
        anew = _anew(state)
        target.change(tables[0], (), (), state, anew)
        copied = _Run(source, target, tables, anew, told, page_rows).run(final=True)
        totals = {table.name: source.total(table) for table in tables if table.is_sum}
        target.finish(tables, source.last_ids(tables), totals)
    return copied


def compare(source: Side, target: Side, tables: list[Table], *, told: Told) -> Iterator[Compared]:
    """Read all of both, each as of one moment, and say of each table whether they hold the same."""
    with source.looked_at(), target.looked_at():
        for table in tables:
            yield _compared(source, target, table, told)
        numbers, numbers_of_target = source.last_ids(tables), target.last_ids(tables)
        yield Compared(
            "last ids", len(numbers), len(numbers_of_target), _said(numbers), _said(numbers_of_target)
        )


class _Run:
    """One pass over all tables."""

    def __init__(
        self, source: Side, target: Target, tables: list[Table], state: State, told: Told, page_rows: int
    ) -> None:
        self._source, self._target, self._tables = source, target, tables
        self._state, self._told, self._page_rows = state, told, page_rows
        self._rows = self._written = self._deleted = 0

    def run(self, *, final: bool) -> Copied:
        for table in self._tables:
            if table.name >= self._state["table"] and not table.is_sum:
                self._copy(table)
        self._note(self._tables[0], (), (), _anew(self._state))
        return Copied(self._rows, self._written, self._deleted, final)

    def _copy(self, table: Table) -> None:
        resumed = self._state["table"] == table.name
        after = _unpacked(self._state["after"]) if resumed else None
        done = self._state["rows"] if resumed else 0
        total = self._source.count(table)
        for source, target, end in _pages(self._source, self._target, table, after, self._page_rows):
            rows, gone = _difference(table, source, target)
            done += len(source)
            # A name with a space comes after the table itself and before all others.
            there = (
                {"table": f"{table.name} ", "after": None, "rows": 0}
                if end is None
                else {"table": table.name, "after": _packed(end), "rows": done}
            )
            self._note(table, gone, rows, {**self._state, **there})
            self._rows += len(source)
            self._written += len(rows)
            self._deleted += len(gone)
            self._told(table.name, done, max(total, done))

    def _note(self, table: Table, gone: Any, rows: Any, state: State) -> None:
        try:
            self._target.change(table, gone, rows, self._state, state)
        except StoreFailed as error:
            raise StoreFailed(f"{table.name}: {error}") from error
        self._state = state


def _pages(
    source: Side, target: Side, table: Table, after: Key | None, most: int
) -> Iterator[tuple[list[Row], list[Row], Key | None]]:
    """The rows of both, stretch by stretch of keys, and each stretch's last key; None for the table's last stretch."""
    rows, over = min(_FIRST_ROWS, most), False
    while True:
        ours = source.page(table, after, rows)
        theirs = Page([], None) if over else target.page(table, after, rows)
        # What lies beyond the target's last row, nobody but this run adds.
        over = over or (not theirs.rows and theirs.end is None)
        ends = [page.end for page in (ours, theirs) if page.end is not None]
        end = min(ends) if ends else None
        ours, theirs = ours.up_to(table, end), theirs.up_to(table, end)
        yield ours.rows, theirs.rows, end
        if end is None:
            return
        after, rows = end, min(most, _fitting(ours.rows or theirs.rows, rows))


def _fitting(rows: list[Row], now: int) -> int:
    """How many rows the next page may have, so that it takes a few MiB."""
    sample = rows[:: max(1, len(rows) // _SAMPLE)]
    if not sample:
        return now
    size = sum(len(value) if isinstance(value, (str, bytes)) else 8 for row in sample for value in row)
    return max(_FEWEST_ROWS, _PAGE_BYTES * len(sample) // max(1, size))


def _difference(table: Table, source: list[Row], target: list[Row]) -> tuple[list[Row], list[Key]]:
    """The rows that the target lacks as they are, and the keys of those to be deleted before they are inserted."""
    if not target:
        return source, []
    if source == target:
        return [], []
    theirs = {table.key_of(row): row for row in target}
    rows = [row for row in source if theirs.get(table.key_of(row)) != row]
    wanted = {table.key_of(row) for row in source}
    changed = {table.key_of(row) for row in rows}
    return rows, [key for key in theirs if key not in wanted or key in changed]


def _compared(source: Side, target: Side, table: Table, told: Told) -> Compared:
    if table.is_sum:
        sums = (str(source.total(table)), str(target.total(table)))
        return Compared(table.name, 1, 1, *sums)
    ours, theirs = hashlib.blake2b(digest_size=16), hashlib.blake2b(digest_size=16)
    counts = [0, 0]
    total = source.count(table)
    for rows, others, _ in _pages(source, target, table, None, PAGE_ROWS):
        said = _rows_said(rows)
        ours.update(said)
        theirs.update(said if rows == others else _rows_said(others))
        counts[0] += len(rows)
        counts[1] += len(others)
        told(table.name, counts[0], max(total, counts[0]))
    return Compared(table.name, counts[0], counts[1], ours.hexdigest(), theirs.hexdigest())


def _rows_said(rows: list[Row]) -> bytes:
    return "".join(f"{row!r}\n" for row in rows).encode("utf-8", "surrogatepass")


def _said(numbers: dict[str, int]) -> str:
    return hashlib.blake2b(repr(sorted(numbers.items())).encode(), digest_size=16).hexdigest()


def _anew(state: State) -> State:
    return {**state, **_START, "pass": state["pass"] + 1}


def _packed(key: Key | None) -> Any:
    if key is None:
        return None
    return [{"hex": part.hex()} if isinstance(part, bytes) else part for part in key]


def _unpacked(said: Any) -> Key | None:
    if said is None:
        return None
    return tuple(bytes.fromhex(part["hex"]) if isinstance(part, dict) else part for part in said)
